package transcript

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// Index is what a driver of a session needs to know of its whole transcript, kept up to date message by message: which call
// ids are taken, which tools are off, which companions are at work in the background, whether reviewers edited arguments,
// what toolsets offer, which deferred tools were found. The zero value is that of an empty
// transcript. Adding messages once more, in their order, changes nothing.
type Index struct {
	calls map[string]struct{}
	off   map[string]struct{}
	away  map[string]struct{}
	// differs says that some message is sent otherwise than it is kept: a result has the arguments that its tool ran with, or a
	// tool was called as a deferred one.
	differs bool
	// pinned is what toolsets offer.
	pinned map[string]json.RawMessage
	found  map[string]struct{}
	// summed says that a summary stands for what is older, of which calls says nothing.
	summed bool
}

// Add takes in the next message.
func (x *Index) Add(m *cairn.Message) {
	if m.Summary != nil {
		x.restart(m.Summary)
	}
	if m.Hidden {
		x.addSwitches(m.Tools)
		if len(m.Pinned) > 0 {
			if x.pinned == nil {
				x.pinned = map[string]json.RawMessage{}
			}
			maps.Copy(x.pinned, m.Pinned)
		}
		if m.Origin == cairn.OriginCompanion {
			delete(x.away, m.ChildID)
		}
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartToolUse:
			if m.Role == cairn.RoleAssistant {
				put(&x.calls, p.ToolUse.CallID)
				x.differs = x.differs || p.ToolUse.Deferred
			}
		case cairn.PartToolResult:
			x.differs = x.differs || len(p.Result.Edited) > 0
			if p.Result.Tool == cairn.FindTools && !p.Result.IsError {
				for _, name := range define.Found(p.Result.Output) {
					put(&x.found, name)
				}
			}
			if p.Result.Background != "" {
				put(&x.away, p.Result.Background)
			}
		}
	}
}

// restart forgets what a summary says anew, as if it came first.
func (x *Index) restart(s *cairn.Summary) {
	x.off, x.away, x.pinned, x.found, x.summed = nil, nil, nil, nil, true
	for _, id := range s.Background {
		put(&x.away, id)
	}
	for _, name := range s.Found {
		put(&x.found, name)
	}
}

// Summarise gives a summary, which comes next, what x knows of everything before it.
func (x *Index) Summarise(m *cairn.Message) {
	if len(x.off) > 0 {
		m.Tools = make(map[string]bool, len(x.off))
		for name := range x.off {
			m.Tools[name] = false
		}
	}
	m.Pinned = maps.Clone(x.pinned)
	m.Summary.Background = slices.Sorted(maps.Keys(x.away))
	if m.Summary.Found = slices.Sorted(maps.Keys(x.found)); len(m.Summary.Found) > 0 {
		names := strings.Join(m.Summary.Found[:min(len(m.Summary.Found), namedTools)], ", ")
		m.Parts = append(m.Parts, cairn.TextPart(fmt.Sprintf("Tools that were found before, to be called with %s; %s shows their schemas again: %s", cairn.CallTool, cairn.FindTools, names)))
	}
}

// namedTools is how many tools that were found a summary names to the model.
const namedTools = 100

// Summarised reports whether a summary stands for older messages, whose call ids are not known.
func (x *Index) Summarised() bool { return x.summed }

func (x *Index) addSwitches(tools map[string]bool) {
	for name, on := range tools {
		if on || name == cairn.FinishTool {
			delete(x.off, name)
		} else {
			put(&x.off, name)
		}
	}
}

func put(set *map[string]struct{}, name string) {
	if *set == nil {
		*set = map[string]struct{}{}
	}
	(*set)[name] = struct{}{}
}

// Taken reports whether a call of the transcript has an id.
func (x *Index) Taken(callID string) bool {
	_, taken := x.calls[callID]
	return taken
}

// Off reports whether a tool is switched off.
func (x *Index) Off(tool string) bool {
	_, off := x.off[tool]
	return off
}

// Switched returns the tools that are switched off. It is not to be changed.
func (x *Index) Switched() map[string]struct{} { return x.off }

// Away returns the sessions of companions that were left at work and have not been reported on since. It is not to be
// changed.
func (x *Index) Away() map[string]struct{} { return x.away }

// Pinned returns what toolsets of the agent offer, by their names. It is not to be changed.
func (x *Index) Pinned() map[string]json.RawMessage { return x.pinned }

// Clone returns a copy that shares nothing with x.
func (x *Index) Clone() Index {
	return Index{maps.Clone(x.calls), maps.Clone(x.off), maps.Clone(x.away), x.differs, maps.Clone(x.pinned), maps.Clone(x.found), x.summed}
}

// Differs reports whether some message is sent to a model otherwise than it is kept, see [Sent].
func (x *Index) Differs() bool { return x.differs }

// Found reports whether the model has found deferred tools.
func (x *Index) Found() bool { return len(x.found) > 0 }
