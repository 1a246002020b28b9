package journal

import (
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Seen is what a log has of a run, as far as it was read: which of the events that a log has once per run are there.
type Seen struct {
	published map[mark]int // with the step that discards each
	// committed is the number of committed steps. Later steps are open from their start until they are discarded.
	committed       int
	open, discarded []int
	// Messages is the session's message count at the last commit mark that was read.
	Messages int
	// Trimmed reports whether the log has trimmed events after the position that reading began at.
	Trimmed bool
}

// NewSeen returns the Seen of a log that has not been read, for a run with the given number of committed steps.
func NewSeen(committed int) *Seen { return &Seen{published: map[mark]int{}, committed: committed} }

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
	case cairn.EventUserMessage, cairn.EventContextAdded, cairn.EventContextChanged, cairn.EventCompacted, cairn.EventFiles:
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
	if status.Suspends() {
		return mark{event: cairn.EventRunEnd, id: "suspended"}
	}
	return mark{event: cairn.EventRunEnd}
}

// Note records the next event of the run.
func (s *Seen) Note(ev *cairn.Event) {
	switch ev.Type {
	case cairn.EventStepStart:
		if s.close(ev.Step); ev.Step > s.committed {
			s.open = append(s.open, ev.Step)
		}
	case cairn.EventStepDiscarded:
		s.close(ev.Step)
		s.forget(ev.Step)
		s.discarded = append(s.discarded, ev.Step)
	default:
		if m, discardedBy, once := markOf(ev); once {
			s.published[m] = discardedBy
		}
		if ev.Type == cairn.EventStepCommitted || ev.Type == cairn.EventRunStart || ev.Type == cairn.EventRunResumed {
			s.Messages = ev.MessageCount
		}
	}
}

func (s *Seen) close(number int) {
	s.open = slices.DeleteFunc(s.open, func(n int) bool { return n == number })
}

// forget drops the marks that a discarded step published.
func (s *Seen) forget(number int) {
	maps.DeleteFunc(s.published, func(_ mark, discardedBy int) bool { return discardedBy == number })
}

// Has reports whether the log already has an event that it has once per run.
func (s *Seen) Has(ev *cairn.Event) bool {
	m, _, once := markOf(ev)
	return once && s.has(m)
}

func (s *Seen) has(m mark) bool {
	_, published := s.published[m]
	return published
}

// Ended reports whether the log has the end that the run came to.
func (s *Seen) Ended(run *cairn.Run) bool {
	return s.has(endMark(cairn.RunCompleted)) || run.Status.Suspends() && s.has(endMark(run.Status))
}

// Past is a run as the store has it, to compare with the log. The run ended, or its process died.
type Past struct {
	Run        *cairn.Run
	Steps      int // committed
	Deferred   int // steps that ended after the last commit and are yet to be committed
	Messages   int // of the session after the last commit
	Checkpoint string
	// Added lists the events of the run's messages if the log does not reach the run's last commit, and otherwise those
	// of the messages that came with its end.
	Added []cairn.Event
	// Made reports whether the last step's commit made Checkpoint.
	Made bool
	// End reports whether the run has ended, with its record. Calls lists what became of the calls that it left open or
	// closed at its end.
	End   bool
	Calls []cairn.Event
	// Fresh reports whether the caller has just ended the run, so its end cannot have been published and trimmed.
	Fresh bool
	// Unmarked reports whether the last commit is known to have no mark on the log.
	Unmarked bool
}

// trimmed reports whether the marks of the run's last commit may have been trimmed. Events that may have been trimmed
// are not published again.
func (p *Past) trimmed(s *Seen) bool { return s.Trimmed && !p.Unmarked }

// Reaches reports whether the part of the log that was read reaches, or may have reached, the run's last commit, or its
// beginning if it has none.
func (p *Past) Reaches(s *Seen) bool {
	m := mark{event: cairn.EventRunStart}
	if p.Steps > 0 {
		m = mark{event: cairn.EventStepCommitted, step: p.Steps}
	}
	return s.has(m) || p.trimmed(s)
}

// EndPublished reports whether the run's end is on the log or may have been trimmed. Its writer wrote all other events
// before it.
func (p *Past) EndPublished(s *Seen) bool {
	return p.End && (s.Ended(p.Run) || p.trimmed(s) && !p.Fresh)
}

// Missing returns the events that the log lacks.
func (p *Past) Missing(s *Seen) []cairn.Event {
	if p.Run == nil || p.EndPublished(s) {
		return nil
	}
	var all []cairn.Event
	switch {
	case p.Reaches(s):
		all = append(all, p.Added...)
	case p.Steps == 0:
		all = append(all, Begin(p.Run, p.Messages, nil)...)
		all = append(all, p.Added...)
	default:
		all = append(all, p.Added...)
		for n := p.firstUnmarked(s); n <= p.Steps; n++ {
			all = append(all, StepCommitted(n, p.Messages))
		}
	}
	if p.Made && !p.trimmed(s) { // it may be the only one missing: the log is written at any moment
		all = append(all, Checkpoint(p.Steps, p.Checkpoint, p.Messages))
	}
	for _, n := range p.dead(s) {
		all = append(all, StepDiscarded(n, nil))
		s.forget(n)
	}
	all = append(all, p.Calls...)
	if p.End {
		all = append(all, End(p.Run)...)
	}
	return slices.DeleteFunc(all, func(ev cairn.Event) bool { return s.Has(&ev) })
}

// dead returns the steps that started on the log and will not be committed.
func (p *Past) dead(s *Seen) (list []int) {
	next := p.Steps + p.Deferred + 1
	for _, n := range s.open {
		if n >= next {
			list = append(list, n)
		}
	}
	if p.trimmed(s) && !slices.Contains(list, next) && !slices.Contains(s.discarded, next) {
		list = append(list, next) // its start may have been trimmed, and readers have seen it
	}
	return list
}

// firstUnmarked returns the first step whose commit mark may be missing. Marks are written in order, so on a trimmed
// log it is the step after the last marked one, or the last step.
func (p *Past) firstUnmarked(s *Seen) int {
	if !s.Trimmed {
		return 1
	}
	for n := p.Steps; n > 1; n-- {
		if s.has(mark{event: cairn.EventStepCommitted, step: n - 1}) {
			return n
		}
	}
	return p.Steps
}
