package transcript

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Index is what a driver of a session needs to know of its whole transcript, kept up to date message by message: which call
// ids are taken, which tools are off, which companions are at work in the background, whether reviewers edited arguments,
// what toolsets offer. The zero value is that of an empty
// transcript. Adding messages once more, in their order, changes nothing.
type Index struct {
	calls map[string]struct{}
	off   map[string]struct{}
	away  map[string]struct{}
	// edited says that some result has the arguments that its tool ran with.
	edited bool
	// pinned is what toolsets offer.
	pinned map[string]json.RawMessage
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
			}
		case cairn.PartToolResult:
			x.edited = x.edited || len(p.Result.Edited) > 0
			if p.Result.Background != "" {
				put(&x.away, p.Result.Background)
			}
		}
	}
}

// restart forgets what a summary says anew, as if it came first.
func (x *Index) restart(s *cairn.Summary) {
	x.off, x.away, x.pinned, x.summed = nil, nil, nil, true
	for _, id := range s.Background {
		put(&x.away, id)
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
}

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

// Away returns the sessions of companions that were left at work and have not been reported on since. It is not to be
// changed.
func (x *Index) Away() map[string]struct{} { return x.away }

// Pinned returns what toolsets of the agent offer, by their names. It is not to be changed.
func (x *Index) Pinned() map[string]json.RawMessage { return x.pinned }

// Clone returns a copy that shares nothing with x.
func (x *Index) Clone() Index {
	return Index{maps.Clone(x.calls), maps.Clone(x.off), maps.Clone(x.away), x.edited, maps.Clone(x.pinned), x.summed}
}

// Edited reports whether some result has the arguments that its tool ran with, which the model is to be shown.
func (x *Index) Edited() bool { return x.edited }
