package journal

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// rivals is what a remote effect knows of others that write of its step: those of the step's other calls, and other
// attempts at the effect itself, of which a host may have abandoned one that still lives. They hold the same lease, so
// no fence separates them. Instead each append names the sequence that it expects: the second writer reads what the
// other has published, leaves it out, and gives up if the step is not its own any more.
type rivals struct {
	ids  eventIDs
	step int
	// name is the attempt's alone, unlike that of its writer.
	name string
	// alone says that nothing else publishes events of the step: the effect is its first.
	alone bool
	// commits says that it is the effect that commits the step.
	commits bool
	seen    *Seen
	shown   shown
	// consulted are the agents that calls of the step have begun to consult, by call.
	consulted map[string]cairn.ChildEnd
	// lost says why the effect has to give up, which giveUp gets.
	lost   error
	giveUp context.CancelCauseFunc
}

// note takes in what another writer published of the run.
func (r *rivals) note(ev *cairn.Event) {
	if ev.SessionID == r.ids.session && ev.RunID == r.ids.run {
		r.seen.Note(ev)
		r.shown.note(ev)
		switch ev.Type {
		case cairn.EventSubagentStart:
			r.consulted[ev.CallID] = cairn.ChildEnd{SessionID: ev.ChildID, Agent: ev.Name}
		case cairn.EventStepDiscarded:
			clear(r.consulted)
		}
	}
}

// meet takes in what another writer published of the run since the effect began.
func (r *rivals) meet(ev *cairn.Event) {
	r.note(ev)
	if ev.SessionID != r.ids.session || ev.RunID != r.ids.run || ev.Step != r.step || r.lost != nil {
		return
	}
	if r.alone || ev.Type == cairn.EventStepDiscarded || ev.Type == cairn.EventStepCommitted && !r.commits {
		r.lost = Outrun(r.ids.session, r.step)
		r.giveUp(r.lost)
	}
}

// Outrun is the error of an attempt at an effect while another one has got further. The next attempt finds what that came to.
func Outrun(session string, step int) *cairn.Error {
	return cairn.Errorf(cairn.CodeUnavailable, "session %q: step %d continues without this attempt at an effect", session, step)
}

// has reports whether an event need not be published any more. Of a step that was lost nothing is.
func (r *rivals) has(ev *cairn.Event) bool { return r.seen.Has(ev) || r.lost != nil }

// expects returns the sequence that the log must be at for the next batch. A log that does not know batches could not say of
// one that was sent twice that it is there already.
func (e *Emitter) expects() int64 {
	if _, fenced := e.g.Log.(store.Fencer); e.rivals == nil || !fenced {
		return store.AnySequence
	}
	return e.Position()
}

// Lost returns why the effect has to give up, or nil.
func (e *Emitter) Lost() error {
	_, err := e.unsent()
	return err
}

// heed looks at what others have written, and leaves out of the batch, and of what waits behind it, what they published.
func (e *Emitter) heed(ctx context.Context) error {
	last, err := e.g.EachSince(ctx, e.log, e.Position(), func(ev *cairn.Event) {
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
	published := func(ev cairn.Event) bool { return e.rivals.has(&ev) }
	e.batch, e.buffer = slices.DeleteFunc(e.batch, published), slices.DeleteFunc(e.buffer, published)
	return e.rivals.lost
}

// Again reports whether the effect may be a repeated one: what it came to is published, but for what is on the log.
func (e *Emitter) Again() bool { return e.rivals != nil }

// Consulted returns which agent a call of the step has begun to consult, as others have published it.
func (e *Emitter) Consulted(callID string) (with cairn.ChildEnd, ok bool) {
	if e.rivals == nil {
		return with, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	with, ok = e.rivals.consulted[callID]
	return with, ok
}

// Attempt says what a remote effect is an attempt at.
type Attempt struct {
	Step int
	// Commits says that the effect commits the step.
	Commits bool
	// GiveUp ends the effect, with the reason, if another attempt has got further.
	GiveUp context.CancelCauseFunc
}

// Attempt returns an emitter for a remote effect of a run. The caller leaves it.
func (g *Log) Attempt(ctx context.Context, row *cairn.Session, runID string, last int64, a Attempt) *Emitter {
	e := g.Emitter(ctx, row, runID, last)
	e.rivals = &rivals{ids: e.ids, step: a.Step, name: e.writer.ID, alone: true, commits: a.Commits,
		seen: NewSeen(0), consulted: map[string]cairn.ChildEnd{}, giveUp: a.GiveUp}
	e.writer = g.idle.take(e.writer)
	return e
}

// SkipPublished makes the emitter leave out what others published of a step under way since a sequence: that of its reply. It
// reports whether the log says what the reply says: else that is to be published again, see [Emitter.Redo].
func (e *Emitter) SkipPublished(ctx context.Context, after int64, st *step.Step) (whole bool, err error) {
	r := e.rivals
	r.alone, r.seen, r.shown = false, NewSeen(0), shown{step: r.step}
	clear(r.consulted)
	last, err := e.g.EachSince(ctx, e.log, after, r.note)
	e.last = last
	return r.shown.says(st), err
}

// Leave closes the emitter of a remote effect. Names of writers are kept for at most limit sessions.
func (e *Emitter) Leave(limit int) {
	e.Close()
	e.g.idle.put(e.writer, limit)
}
