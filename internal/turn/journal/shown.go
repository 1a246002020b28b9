package journal

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// shown is what a log has of a step's reply since the reply was staged. It has nothing unless another attempt at the
// reply started the step or discarded it.
type shown struct {
	step   int
	redone bool // another attempt did so
	open   bool // the step was started after it was last discarded
	reply  []piece
}

// piece is one event of a reply, or a sequence of deltas of the same text.
type piece struct {
	event        cairn.EventType
	callID, text string
}

// note records the next event of the run.
func (s *shown) note(ev *cairn.Event) {
	if ev.Type == cairn.EventStepDiscarded && ev.Step <= s.step {
		*s = shown{step: s.step, redone: true}
	}
	if ev.Step != s.step || ev.Origin != "" {
		return
	}
	switch ev.Type {
	case cairn.EventStepStart:
		*s = shown{step: s.step, redone: true, open: true}
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

// matches reports whether the log has exactly what the reply of the step under way says. Without another attempt the
// log has what the reply's own attempt published before it staged the reply.
func (s *shown) matches(st *step.Step) bool {
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

// Redo publishes a step under way once more, as one batch. It replaces what another attempt, one whose reply did not
// stand, published of the step. It publishes nothing and fails with ErrStale if another writer appended since
// [Emitter.SkipPublished].
func (e *Emitter) Redo(ctx context.Context, st *step.Step) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.end()
	now := e.g.Now()
	e.mu.Lock()
	if e.otherWriters.shown.open {
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
	if err != nil { // a later attempt may have to publish something else
		e.batch = nil
		return err
	}
	for i := range list {
		e.otherWriters.note(&list[i])
	}
	return nil
}
