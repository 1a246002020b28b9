package effects

import (
	"context"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// rivals is what an effect that runs apart knows of others that write of its step: those of the step's other calls, and other
// tries of the effect itself, of which a host may have given one up that still lives. They hold the same lease, so no fence
// keeps them apart. Instead each append names the sequence that it expects: whoever comes second looks at what the other has
// told, leaves it out, and gives up if the step is not its own any more.
type rivals struct {
	ids  eventIDs
	step int
	// alone says that nobody else has anything to tell of the step: the effect is its first.
	alone bool
	// commits says that it is the effect that commits the step.
	commits bool
	told    map[mark]struct{}
	// lost says why the effect has to give up, which giveUp is told of.
	lost   error
	giveUp context.CancelCauseFunc
}

// note takes in what somebody has told of the run.
func (r *rivals) note(ev *cairn.Event) {
	switch {
	case ev.SessionID != r.ids.session || ev.RunID != r.ids.run:
	case ev.Type == cairn.EventStepDiscarded: // and then told again
		maps.DeleteFunc(r.told, func(m mark, _ struct{}) bool { return m.step == ev.Step })
	case onceAStep(ev.Type):
		r.told[markOf(ev)] = struct{}{}
	}
}

// meet takes in what somebody else has told of the run since the effect began.
func (r *rivals) meet(ev *cairn.Event) {
	r.note(ev)
	if ev.SessionID != r.ids.session || ev.RunID != r.ids.run || ev.Step != r.step || r.lost != nil {
		return
	}
	if r.alone || ev.Type == cairn.EventStepDiscarded || ev.Type == cairn.EventStepCommitted && !r.commits {
		r.lost = cairn.Errorf(cairn.CodeUnavailable, "session %q: step %d goes on without this try of an effect", r.ids.session, r.step)
		r.giveUp(r.lost)
	}
}

// has reports whether an event need not be told any more. Of a step that was lost nothing is.
func (r *rivals) has(ev *cairn.Event) bool {
	_, told := r.told[markOf(ev)]
	return told || r.lost != nil
}

// mark is something that the log tells of a step once.
type mark struct {
	event cairn.EventType
	step  int
	call  string
}

func markOf(ev *cairn.Event) mark { return mark{ev.Type, ev.Step, ev.CallID} }

func onceAStep(t cairn.EventType) bool {
	switch t {
	case cairn.EventToolStart, cairn.EventToolEnd, cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventStatePatch, cairn.EventUsage,
		cairn.EventStepCommitted, cairn.EventCheckpoint, cairn.EventToolApproval, cairn.EventToolPending, cairn.EventError, cairn.EventOutput,
		cairn.EventRunEnd:
		return true
	}
	return false
}

// expects returns the sequence that the log must be at for the next batch. A log that does not know batches could not say of
// one that was sent twice that it is there already.
func (e *emitter) expects() int64 {
	if _, fenced := e.fx.Log.(store.Fencer); e.rivals == nil || !fenced {
		return store.AnySequence
	}
	return e.position()
}

// lost returns why the effect has to give up, or nil.
func (e *emitter) lost() error {
	_, err := e.unsent()
	return err
}

// heed looks at what others have written, and leaves out of the batch what they have told.
func (e *emitter) heed(ctx context.Context) error {
	last, err := e.fx.eachSince(ctx, e.log, e.position(), func(ev *cairn.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rivals.meet(ev)
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = last
	e.batch = slices.DeleteFunc(e.batch, func(ev cairn.Event) bool { return e.rivals.has(&ev) })
	return e.rivals.lost
}

// again reports whether the effect may be one that was carried out before: what it came to is told, but for what is on the log.
func (e *emitter) again() bool { return e.rivals != nil }
