package journal

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// shown is what a log says of the reply of a step since that was staged: nothing, unless another attempt at the reply began the step
// or discarded it.
type shown struct {
	step   int
	redone bool // there was such an attempt
	open   bool // the step was begun since it was discarded
	reply  []piece
}

// piece is one event of a reply, or the deltas that came one after the other.
type piece struct {
	event        cairn.EventType
	callID, text string
}

// note takes in the next event of the run.
func (s *shown) note(ev *cairn.Event) {
	if ev.Step != s.step || ev.Origin != "" {
		return
	}
	switch ev.Type {
	case cairn.EventStepStart, cairn.EventStepDiscarded:
		*s = shown{step: s.step, redone: true, open: ev.Type == cairn.EventStepStart}
	case cairn.EventTextDelta, cairn.EventThinking, cairn.EventToolArgDelta:
		if n := len(s.reply); n > 0 && s.reply[n-1].event == ev.Type && s.reply[n-1].callID == ev.CallID {
			s.reply[n-1].text += ev.Text
			return
		}
		s.reply = append(s.reply, piece{ev.Type, ev.CallID, ev.Text})
	case cairn.EventModelFallback, cairn.EventThinkingEnd, cairn.EventToolArgStart, cairn.EventToolArgEnd, cairn.EventSources:
		s.reply = append(s.reply, piece{ev.Type, ev.CallID, ev.Name})
	}
}

// says reports whether the log says of a step under way what its reply says. Without another attempt it has what that of the reply
// published before it was staged.
func (s *shown) says(st *step.Step) bool {
	switch {
	case !s.redone:
		return true
	case st.Failed() != nil:
		return !s.open
	case !s.open:
		return false
	}
	want := shown{step: s.step}
	Step(func(ev cairn.Event) { want.note(&ev) }, st)
	return slices.Equal(s.reply, want.reply)
}

// Redo publishes a step under way once more, as one batch, in place of what an attempt made of it that its reply is not from. It
// publishes nothing and fails with ErrStale if others wrote since [Emitter.SkipPublished].
func (e *Emitter) Redo(ctx context.Context, st *step.Step) error {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	now := e.g.Now()
	e.mu.Lock()
	if e.rivals.shown.open {
		e.put(StepDiscarded(st.Number, nil), now)
	}
	if st.Failed() == nil {
		Step(func(ev cairn.Event) { e.put(ev, now) }, st)
	}
	e.mu.Unlock()
	e.take(now)
	list := slices.Clone(e.batch)
	err := e.send(ctx, func(context.Context) error { return cairn.ErrStale })
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil { // what is to be published may be something else by now
		e.batch = nil
		return err
	}
	for i := range list {
		e.rivals.note(&list[i])
	}
	return nil
}
