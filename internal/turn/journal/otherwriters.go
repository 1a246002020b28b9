package journal

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// otherWriters tracks other writers of this step's events: sibling calls of the step, and other attempts at this effect,
// including abandoned attempts that may still be running. They hold the same lease, so no fence separates them. Instead
// each append names the sequence that it expects. A writer whose append is stale reads what the other has published,
// leaves that out, and abandons its effect if the step is no longer its own.
type otherWriters struct {
	ids  eventIDs
	step int
	// name is unique to the attempt. Its writer's name is reused by other attempts.
	name string
	// alone reports whether the effect is the first of its step, so that nothing else publishes events of the step.
	alone bool
	// commits reports whether the effect commits the step.
	commits bool
	seen    Seen
	shown   shown
	// consulted holds the agents that calls of the step have begun to consult, by call id.
	consulted map[string]cairn.ChildEnd
	// lost is why the effect must be abandoned. abandon is called with it.
	lost    error
	abandon context.CancelCauseFunc
}

// note records an event of the run that another writer published.
func (r *otherWriters) note(ev *cairn.Event) {
	if ev.SessionID == r.ids.session && ev.RunID == r.ids.run {
		r.seen.Note(ev)
		r.shown.note(ev)
		switch ev.Type {
		case cairn.EventSubagentStart:
			r.consulted[ev.CallID] = cairn.ChildEnd{SessionID: ev.ChildID, Agent: ev.Name}
		case cairn.EventStepDiscarded:
			if ev.Step <= r.step {
				clear(r.consulted)
			}
		}
	}
}

// observe records an event of the run that another writer published since the effect began.
func (r *otherWriters) observe(ev *cairn.Event) {
	r.note(ev)
	if ev.SessionID != r.ids.session || ev.RunID != r.ids.run || r.lost != nil {
		return
	}
	void := ev.Type == cairn.EventStepDiscarded && ev.Step <= r.step
	if void || ev.Step == r.step && (r.alone || ev.Type == cairn.EventStepCommitted && !r.commits) {
		r.lost = Outrun(r.ids.session, r.step)
		r.abandon(r.lost)
	}
}

// Outrun is the error of an attempt at an effect that another attempt has overtaken. The next attempt finds what that
// one left.
func Outrun(session string, step int) *cairn.Error {
	return cairn.Errorf(cairn.ErrUnavailable, "session %q: step %d: this attempt at an effect was superseded", session, step)
}

// has reports whether an event must not be published: it is on the log already, or the step is lost.
func (r *otherWriters) has(ev *cairn.Event) bool { return r.seen.Has(ev) || r.lost != nil }

// expects returns the sequence that the log must be at for the next batch. A log without fencing does not know batches,
// so it could not recognize one that was sent twice; for it any sequence is accepted.
func (e *Emitter) expects() int64 {
	if _, fenced := driver.LogAs[driver.Fencer](e.g.Log); e.otherWriters == nil || !fenced {
		return driver.AnySequence
	}
	return e.Position()
}

// Lost returns why the effect must be abandoned; nil if it need not be.
func (e *Emitter) Lost() error {
	_, err := e.unsent()
	return err
}

// readOtherWriters reads what other writers published, and removes those events from the batch and from the buffer behind it.
func (e *Emitter) readOtherWriters(ctx context.Context) error {
	last, err := e.g.EachSince(ctx, e.log, e.Position(), func(ev *cairn.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.otherWriters.observe(ev)
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = last
	published := func(ev cairn.Event) bool { return e.otherWriters.has(&ev) }
	e.batch, e.buffer = slices.DeleteFunc(e.batch, published), slices.DeleteFunc(e.buffer, published)
	return e.otherWriters.lost
}

// Again reports whether the effect may be a repeated one, which publishes its outcome except for what is on the log
// already.
func (e *Emitter) Again() bool { return e.otherWriters != nil }

// Consulted returns the agent that a call of the step has begun to consult, as another writer published it.
func (e *Emitter) Consulted(callID string) (with cairn.ChildEnd, ok bool) {
	if e.otherWriters == nil {
		return with, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	with, ok = e.otherWriters.consulted[callID]
	return with, ok
}

// Attempt describes a remote effect to its emitter.
type Attempt struct {
	Step int
	// Commits reports whether the effect commits the step.
	Commits bool
	// Abandon cancels the effect, with the cause, if another attempt has overtaken it.
	Abandon context.CancelCauseFunc
}

// Attempt returns an emitter for a remote effect of a run. The caller ends it with Leave.
func (g *Log) Attempt(ctx context.Context, row *cairn.Session, runID string, last int64, a Attempt) *Emitter {
	e := g.Emitter(ctx, row, runID, last)
	e.otherWriters = &otherWriters{ids: e.ids, step: a.Step, name: e.writer.ID, alone: true, commits: a.Commits,
		seen: Seen{}, consulted: map[string]cairn.ChildEnd{}, abandon: a.Abandon}
	e.writer = g.idle.take(e.writer)
	return e
}

// SkipPublished makes the emitter leave out what other writers published of a step under way after a sequence: the one
// of its reply. It reports whether the log has exactly what the reply says. If it does not, the step must be published
// again, see [Emitter.Redo].
func (e *Emitter) SkipPublished(ctx context.Context, after int64, st *step.Step) (whole bool, err error) {
	r := e.otherWriters
	r.alone, r.seen, r.shown = false, Seen{}, shown{step: r.step}
	clear(r.consulted)
	last, err := e.g.EachSince(ctx, e.log, after, r.note)
	e.last = last
	return r.shown.matches(st), err
}

// Leave closes the emitter of a remote effect and keeps its writer's name for reuse, for at most limit sessions.
func (e *Emitter) Leave(limit int) {
	e.Close()
	e.mu.Lock()
	used := e.writer
	e.mu.Unlock()
	e.g.idle.put(used, limit)
}
