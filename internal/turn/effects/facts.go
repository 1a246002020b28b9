package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// sink keeps the facts of a step where those who need them find them, beside the memory of this process.
type sink interface {
	// keep keeps a fact of the step under way; one that lasts is for the run's next lease holder, too. If another attempt has
	// kept another one in its place, that stands: all the facts of the step are returned.
	keep(ctx context.Context, l *live, f step.Fact, lasts bool) (stands []step.Staged, err error)
	// lasting reports whether the result of a call is kept before the step's commit.
	lasting(a *cairn.Agent) bool
}

// local is the sink of a run whose effects share the memory of this process: only what lasts is stored.
type local struct{ fx *Effects }

func (k local) keep(ctx context.Context, l *live, f step.Fact, lasts bool) ([]step.Staged, error) {
	if !lasts {
		return nil, nil
	}
	return nil, k.fx.stage(ctx, l, f, true)
}

func (k local) lasting(a *cairn.Agent) bool { return a.Durability.Stages() }

// remote is the sink of a run each of whose effects may be carried out in another process.
type remote struct{ fx *Effects }

func (k remote) keep(ctx context.Context, l *live, f step.Fact, lasts bool) ([]step.Staged, error) {
	if o, ok := f.(*step.Opening); ok && o.Writes.Empty() && !l.step.Carried { // the reply will say that its hooks have run
		return nil, nil
	}
	if err := k.fx.stage(ctx, l, f, lasts); err != nil {
		return nil, err
	}
	switch f.(type) {
	case *step.Reply, *step.Result, *step.Wait:
	default: // another attempt's says the same
		return nil, nil
	}
	facts, err := k.fx.staged(ctx, l, l.step.ID)
	if err != nil {
		return nil, err
	}
	if _, by := step.Standing(facts, f); by == l.emit.Attempt() {
		return nil, nil
	}
	return facts, nil
}

func (k remote) lasting(*cairn.Agent) bool { return true }

// put adds a fact to the step under way and keeps it. Where another attempt's fact stands in its place, that is added.
func (fx *Effects) put(ctx context.Context, a *cairn.Agent, l *live, f step.Fact, lasts bool) error {
	stands, err := l.sink.keep(ctx, l, f, lasts)
	if err != nil {
		return err
	}
	if stands == nil {
		l.step.Add(f)
		return nil
	}
	if _, ok := f.(*step.Reply); ok {
		return fx.adopt(ctx, a, l, stands)
	}
	other, _ := step.Standing(stands, f)
	l.step.Add(other)
	return nil
}

// adopt makes the step what another attempt has made of it: what this one has told is taken back, and that one told.
func (fx *Effects) adopt(ctx context.Context, a *cairn.Agent, l *live, facts []step.Staged) error {
	if err := errors.Join(l.emit.Flush(ctx), fx.takeBack(ctx, l)); err != nil {
		return err
	}
	fresh := fx.newStep(l, a, l.step.Number)
	fresh.AddAll(facts)
	l.step = fresh
	if fresh.Failed() == nil {
		journal.Step(l.emit.Event, fresh)
	}
	return l.emit.Flush(ctx)
}

// stage writes a fact of the step under way to the store. Events of a reply come first, so that the log's position after it is
// known; the opening goes along with one that lasts, since it belongs to the same step.
func (fx *Effects) stage(ctx context.Context, l *live, f step.Fact, lasts bool) error {
	lease := l.row.Lease.Token
	if lasts {
		lease = 0
	}
	var pieces []store.Staged
	add := func(f step.Fact) error {
		piece, err := step.Encode(l.step.ID, lease, l.emit.Attempt(), f)
		pieces = append(pieces, piece)
		return err
	}
	if r, ok := f.(*step.Reply); ok {
		if err := l.emit.Flush(ctx); err != nil {
			return err
		}
		r.Sequence = l.emit.Position()
		if o := l.step.Opening; o != nil && lasts && !o.Writes.Empty() {
			if err := add(o); err != nil {
				return err
			}
		}
	}
	if err := add(f); err != nil {
		return err
	}
	return fx.persist(ctx, func() error { return fx.Store.Stage(ctx, l.row.ID, l.row.Lease.Token, pieces...) })
}

// staged returns the facts of a step that the store has and that count under the session's lease.
func (fx *Effects) staged(ctx context.Context, l *live, stepID string) ([]step.Staged, error) {
	list, err := store.StagedOf(ctx, fx.Store, l.row.ID, stepID)
	if err != nil {
		return nil, err
	}
	return step.Decode(list, stepID, l.row.Lease.Token)
}

// newStep returns a step of the session's run without facts.
func (fx *Effects) newStep(l *live, a *cairn.Agent, number int) *step.Step {
	return step.New(l.row.RunID, number, a.Tools, fx.companionTools(a))
}

// restore makes what was staged of the next step the step under way.
func (fx *Effects) restore(l *live, a *cairn.Agent, list []store.Staged) error {
	number := l.row.Step + len(l.deferred.steps) + 1
	st := fx.newStep(l, a, number)
	if number == l.row.Step+1 {
		l.reopen(st)
	}
	facts, err := step.Decode(list, st.ID, l.row.Lease.Token)
	if err != nil {
		return err
	}
	st.AddAll(facts)
	// Before the run's first step the hooks for its beginning may not have run; a reply says that they have.
	l.unopened = number == 1 && st.Opening == nil && (st.Reply == nil || st.Carried)
	l.step = st
	return nil
}

// reopen carries the step that waited on as the given one, as the transcript and the rows of its calls have it. It reports
// false if no step did.
func (l *live) reopen(st *step.Step) bool {
	if l.row.SuspendedStep == "" {
		return false
	}
	reply, open := transcript.Unanswered(l.messages)
	if reply == nil {
		return false
	}
	st.Carry(reply, open)
	st.Attach(l.calls)
	return true
}

// restoreDeferred takes over the steps that have ended since the last commit.
func (l *live) restoreDeferred(list []store.Staged) error {
	for n := l.row.Step + 1; ; n++ {
		facts, err := step.Decode(list, step.ID(l.run.ID, n), l.row.Lease.Token)
		if err != nil {
			return err
		}
		f, _ := step.Standing(facts, &step.Ended{})
		ended, ok := f.(*step.Ended)
		if !ok {
			return nil
		}
		if _, err := l.doc.Apply(ended.Ops); err != nil {
			return cairn.Errorf(cairn.CodeState, "step %d: the state was changed meanwhile: %w", n, err)
		}
		l.results.take(ended.Cache, ended.CacheDrop)
		l.putOff(n, ended)
	}
}

// putOff keeps a step that has ended for a later commit.
func (l *live) putOff(number int, e *step.Ended) {
	d := &l.deferred
	for i := range e.Messages {
		l.index.Add(&e.Messages[i])
	}
	d.messages = append(d.messages, e.Messages...)
	d.ops = append(d.ops, e.Ops...)
	d.usage = d.usage.Add(e.Usage)
	d.steps = append(d.steps, number)
	l.step, l.judged = nil, nil
}
