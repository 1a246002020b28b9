package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// parts returns the parts of a tree. The test owns them.
func (h *harness) parts(root string) []*driver.Part {
	h.Helper()
	var list []*driver.Part
	for part, err := range store.Export(h.Context(), h.importer(), root) {
		h.must(err)
		list = append(list, part)
	}
	return h.own(list)
}

// own returns a deep copy of parts.
func (h *harness) own(list []*driver.Part) (own []*driver.Part) {
	h.Helper()
	raw, err := json.Marshal(list)
	h.must(err)
	h.must(json.Unmarshal(raw, &own))
	return own
}

func given(list []*driver.Part) iter.Seq2[*driver.Part, error] {
	return func(yield func(*driver.Part, error) bool) {
		for _, part := range list {
			if !yield(part, nil) {
				return
			}
		}
	}
}

// partWith returns the first part for which has is true.
func partWith(list []*driver.Part, has func(*driver.Part) bool) *driver.Part {
	return list[slices.IndexFunc(list, has)]
}

func rootOf(list []*driver.Part) *driver.SessionPart { return list[0].Session }

func childOf(list []*driver.Part) *driver.SessionPart {
	return partWith(list, func(p *driver.Part) bool { return p.Session != nil && p.Session.Row.ID == "child of root" }).Session
}

// damages are changes, by name, after which the parts are not those of a whole tree.
var damages = map[string]func(list []*driver.Part) []*driver.Part{
	"nothing":      func([]*driver.Part) []*driver.Part { return nil },
	"no beginning": func(list []*driver.Part) []*driver.Part { return list[1:] },
	"no end":       func(list []*driver.Part) []*driver.Part { return list[:len(list)-1] },
	"children without root": func(list []*driver.Part) []*driver.Part {
		return list[slices.IndexFunc(list, func(p *driver.Part) bool { return p.Session != nil && p.Session.Row.ID != "root" }):]
	},
	"another root": func(list []*driver.Part) []*driver.Part { rootOf(list).Row.ID = "another"; return list },
	"another tree": func(list []*driver.Part) []*driver.Part { childOf(list).Row.RootID = "another"; return list },
	"no parent":    func(list []*driver.Part) []*driver.Part { childOf(list).Row.ParentID = "another"; return list },
	"an empty id":  func(list []*driver.Part) []*driver.Part { childOf(list).Row.ID = ""; return list },
	"a session twice": func(list []*driver.Part) []*driver.Part {
		childOf(list).Row.ID, childOf(list).Row.ParentID = "root", "root"
		return list
	},
	"a stop of a wait that is over": func(list []*driver.Part) []*driver.Part {
		rootOf(list).Row.Status = cairn.SessionCompleted
		return list
	},
	"a stop of a wait with a NUL": func(list []*driver.Part) []*driver.Part { rootOf(list).Row.Ending.Reason = "\x00"; return list },
	"no secret":                   func(list []*driver.Part) []*driver.Part { rootOf(list).Secret = ""; return list },
	"no extent":                   func(list []*driver.Part) []*driver.Part { rootOf(list).Log = nil; return list },
	"a wrong extent":              func(list []*driver.Part) []*driver.Part { rootOf(list).Log.Last++; return list },
	"a taint after the messages": func(list []*driver.Part) []*driver.Part {
		rootOf(list).Row.Tainted, rootOf(list).Row.TrustAt = true, []int{rootOf(list).Row.MessageCount}
		return list
	},
	"a taint without its place": func(list []*driver.Part) []*driver.Part { rootOf(list).Row.Tainted = true; return list },
	"no version":                func(list []*driver.Part) []*driver.Part { rootOf(list).Row.Version = 0; return list },
	"too few messages":          func(list []*driver.Part) []*driver.Part { rootOf(list).Row.MessageCount++; return list },
	"too few turns":             func(list []*driver.Part) []*driver.Part { rootOf(list).Row.Queued++; return list },
	"too few states":            func(list []*driver.Part) []*driver.Part { rootOf(list).Row.State.Position++; return list },
	"too many states":           func(list []*driver.Part) []*driver.Part { rootOf(list).Inside.FirstState++; return list },
	"another run":               func(list []*driver.Part) []*driver.Part { rootOf(list).Row.RunID = "another"; return list },
	"another place":             func(list []*driver.Part) []*driver.Part { rootOf(list).Row.CheckpointID = "another"; return list },
	"no whole state": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.States) > 0 }).States[0] = driver.StateChange{}
		return list
	},
	"a state that is no JSON": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.States) > 0 }).States[0].Keyframe = json.RawMessage("{")
		return list
	},
	"a message without time": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Messages) > 0 }).Messages[0].CreatedAt = time.Time{}
		return list
	},
	"a run twice": func(list []*driver.Part) []*driver.Part {
		runs := partWith(list, func(p *driver.Part) bool { return len(p.Runs) > 1 }).Runs
		runs[1].ID = runs[0].ID
		return list
	},
	"a turn too many": func(list []*driver.Part) []*driver.Part {
		runs := partWith(list, func(p *driver.Part) bool { return len(p.Runs) > 1 }).Runs
		runs[1].Turn++
		return list
	},
	"a checkpoint twice": func(list []*driver.Part) []*driver.Part {
		cps := partWith(list, func(p *driver.Part) bool { return len(p.Checkpoints) > 1 }).Checkpoints
		cps[1].ID = cps[0].ID
		return list
	},
	"a step twice": func(list []*driver.Part) []*driver.Part {
		cps := partWith(list, func(p *driver.Part) bool { return len(p.Checkpoints) > 1 }).Checkpoints
		cps[1].StepID = cps[0].StepID
		return list
	},
	"a checkpoint beyond the messages": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Checkpoints) > 0 }).Checkpoints[0].MessageCount = 1000
		return list
	},
	"a checkpoint without state": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Checkpoints) > 0 }).Checkpoints[0].StatePosition = 1000
		return list
	},
	"a checkpoint before its state": func(list []*driver.Part) []*driver.Part {
		i := slices.IndexFunc(list, func(p *driver.Part) bool { return len(p.Checkpoints) > 0 })
		early := &driver.Part{Checkpoints: list[i].Checkpoints}
		list[i].Checkpoints = nil
		return slices.Insert(list, 1, early)
	},
	"another session's call": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Calls) > 0 }).Calls[0].SessionID = "another"
		return list
	},
	"a call twice": func(list []*driver.Part) []*driver.Part {
		calls := partWith(list, func(p *driver.Part) bool { return len(p.Calls) > 1 }).Calls
		calls[1].ID = calls[0].ID
		return list
	},
	"a cached result twice": func(list []*driver.Part) []*driver.Part {
		p := partWith(list, func(p *driver.Part) bool { return len(p.Cache) > 0 })
		p.Cache = append(p.Cache, p.Cache[0])
		return list
	},
	"a piece that is no JSON": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Staged) > 0 }).Staged[0].Data = json.RawMessage("{")
		return list
	},
	"a message nested too deep": func(list []*driver.Part) []*driver.Part {
		m := &partWith(list, func(p *driver.Part) bool { return len(p.Messages) > 0 }).Messages[0]
		m.Parts = append(m.Parts, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{Input: deep(129)}})
		return list
	},
	"a state with a NUL": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.States) > 0 }).States[0].Keyframe = json.RawMessage(`{"a":"\u0000"}`)
		return list
	},
	"a run whose usage is infinite": func(list []*driver.Part) []*driver.Part {
		run := &partWith(list, func(p *driver.Part) bool { return len(p.Runs) > 0 }).Runs[0]
		run.Usage.Custom = map[string]float64{"cost": math.Inf(1)}
		return list
	},
	"a user that is not UTF-8": func(list []*driver.Part) []*driver.Part {
		list[0].Session.Row.UserID = "\xff"
		return list
	},
	"a cached result that is not JSON": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Cache) > 0 }).Cache[0].Output = json.RawMessage("{")
		return list
	},
	"an event that is not UTF-8": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Events) > 0 }).Events[0].Text = "\xff"
		return list
	},
	"a turn to follow twice": func(list []*driver.Part) []*driver.Part {
		p := partWith(list, func(p *driver.Part) bool { return len(p.Queue) > 0 })
		p.Queue = append(p.Queue, p.Queue[0])
		return list
	},
	"a gap in the events": func(list []*driver.Part) []*driver.Part {
		partWith(list, func(p *driver.Part) bool { return len(p.Events) > 0 }).Events[2].Sequence++
		return list
	},
	"events before a session": func(list []*driver.Part) []*driver.Part {
		return append([]*driver.Part{list[0], list[len(list)-1]}, list[1:]...)
	},
}

// importDamaged imports trees that are not whole: each is refused with the name of what is wrong, and nothing of it is
// kept.
func importDamaged(h *harness) {
	ids := h.grown("root")
	whole := h.parts("root")
	to := h.other()
	for what, damage := range damages {
		err := to.importer().Import(h.Context(), "root", given(damage(h.own(whole))))
		to.wantError(err, cairn.ErrInvalid, what)
		var e *cairn.Error
		if errors.As(err, &e) && e.Field == "" {
			h.Errorf("%s: the error %q names no field", what, err)
		}
		to.absent("root", ids, what)
	}
	list := h.own(whole)
	huge := partWith(list, func(p *driver.Part) bool { return len(p.Events) > 0 })
	huge.Events[1].Text = strings.Repeat("x", to.importer().EventLog().MaxEvent())
	to.wantError(to.importer().Import(h.Context(), "root", given(list)), cairn.ErrTooLarge, "an event that is too large")
	to.absent("root", ids, "an event that is too large")
	to.must(to.importer().Import(h.Context(), "root", given(whole))) // the refused imports left nothing in the way
	same(h.T, "the copy", to.whole("root", ids), h.whole("root", ids))
}

// importCut makes the source fail after each of its parts.
func importCut(h *harness) {
	ids := h.grown("root")
	list := h.parts("root")
	broken := errors.New("the source broke")
	to := h.other()
	for n := range list {
		err := to.importer().Import(h.Context(), "root", func(yield func(*driver.Part, error) bool) {
			for _, part := range list[:n] {
				if !yield(part, nil) {
					return
				}
			}
			yield(nil, broken)
		})
		if !errors.Is(err, broken) {
			h.Fatalf("after %d parts: error %v", n, err)
		}
		to.absent("root", ids, fmt.Sprintf("a source that fails after %d parts", n))
	}
	to.imports(h, "root")
}
