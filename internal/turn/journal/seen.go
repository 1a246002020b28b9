package journal

import (
	"maps"
	"strconv"

	"github.com/cairn-agents/cairn"
)

// Seen are the events that a log has once per run, of those that were read.
type Seen map[mark]int // to the step that discards it

// mark identifies an event that the log has once per run.
type mark struct {
	event cairn.EventType
	step  int
	id    string // of a call or checkpoint
}

// never stands for no step: no step has this number.
const never = -1

// markOf returns the mark of an event and the step that discards it. It reports false for events that may occur any
// number of times.
func markOf(ev *cairn.Event) (m mark, discardedBy int, once bool) {
	if ev.Origin != "" { // its ids are of another server
		return m, never, false
	}
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed:
		return mark{event: cairn.EventRunStart}, never, true
	case cairn.EventStepCommitted, cairn.EventUsage, cairn.EventStatePatch:
		return mark{event: ev.Type, step: ev.Step}, ev.Step, true
	case cairn.EventCheckpoint:
		return mark{event: ev.Type, id: ev.CheckpointID}, ev.Step, true
	case cairn.EventToolStart, cairn.EventToolEnd, cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventToolApproval, cairn.EventToolPending:
		return mark{event: ev.Type, id: ev.CallID}, ev.Step, true
	case cairn.EventEffectSent, cairn.EventEffectUnknown, cairn.EventEffectSettled:
		return mark{event: ev.Type, id: ev.CallID + "/" + strconv.Itoa(ev.Attempts)}, ev.Step, true
	case cairn.EventUserMessage, cairn.EventContextAdded, cairn.EventContextChanged, cairn.EventCompacted, cairn.EventFiles, cairn.EventArtifact:
		if ev.Name == SessionChanged { // by the step: what a verb changes belongs to no run
			return mark{event: ev.Type, id: ev.Name, step: ev.Step}, ev.Step, true
		}
		return messageMark(ev), never, true
	case cairn.EventError, cairn.EventOutput:
		return mark{event: ev.Type}, never, true
	case cairn.EventRunEnd:
		return endMark(ev.Status), never, true
	}
	return m, never, false
}

// endMark returns the mark of a run's end. A run can have two ends: it is suspended, and then stopped.
func endMark(status cairn.RunStatus) mark {
	if status == cairn.RunSuspended {
		return mark{event: cairn.EventRunEnd, id: "suspended"}
	}
	return mark{event: cairn.EventRunEnd}
}

// Note records the next event of the run.
func (s Seen) Note(ev *cairn.Event) {
	if ev.Type == cairn.EventStepDiscarded {
		maps.DeleteFunc(s, func(_ mark, discardedBy int) bool { return discardedBy >= ev.Step })
	} else if m, discardedBy, once := markOf(ev); once {
		s[m] = discardedBy
	}
}

// Has reports whether the log already has an event that it has once per run.
func (s Seen) Has(ev *cairn.Event) bool {
	m, _, once := markOf(ev)
	_, published := s[m]
	return once && published
}
