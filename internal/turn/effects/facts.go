package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// sink returns the sink of a session's run.
func (fx *Effects) sink(l *session.Live) session.Sink {
	return l.Sink(local{fx})
}

// local is the sink of a run whose effects share this process's memory. It stores only facts that last.
type local struct{ fx *Effects }

func (k local) Keep(ctx context.Context, l *session.Live, f step.Fact, lasts bool) ([]step.Staged, error) {
	if !lasts {
		return nil, nil
	}
	return nil, k.fx.stage(ctx, l, f, true)
}

func (k local) Lasting(a *cairn.Agent) bool { return define.Durability(a).Stages() }

// remote is the sink of a run whose effects may each be executed by a different process.
type remote struct{ fx *Effects }

func (k remote) Keep(ctx context.Context, l *session.Live, f step.Fact, lasts bool) ([]step.Staged, error) {
	// The reply will imply that its hooks have run.
	if o, ok := f.(*step.Opening); ok && o.Writes.Empty() && !l.Step.Carried {
		return nil, nil
	}
	if err := k.fx.stage(ctx, l, f, lasts); err != nil {
		return nil, err
	}
	switch f.(type) {
	case *step.Reply, *step.Result, *step.Wait, *step.Sent:
	default: // another attempt's fact says the same
		return nil, nil
	}
	facts, err := k.fx.staged(ctx, l, l.Step.ID)
	if err != nil {
		return nil, err
	}
	if _, by := step.Standing(facts, f); by == l.Emit.Attempt() {
		return nil, nil
	}
	return facts, nil
}

func (k remote) Lasting(*cairn.Agent) bool { return true }

// Lasting reports whether what a step has done is stored before its commit, so that another process can continue in
// mid-step.
func (fx *Effects) Lasting(at turn.Position) bool {
	l, a, err := fx.hold(at)
	return err == nil && fx.sink(l).Lasting(a)
}

// put stages a fact and adds it to the step under way. If another attempt's fact with the same place stands, that one
// is added instead.
func (fx *Effects) put(ctx context.Context, l *session.Live, f step.Fact, lasts bool) error {
	stands, err := fx.sink(l).Keep(ctx, l, f, lasts)
	if err != nil {
		return err
	}
	if stands == nil {
		l.Step.Add(f)
		return nil
	}
	if _, ok := f.(*step.Reply); ok {
		return fx.adopt(ctx, l, stands)
	}
	other, _ := step.Standing(stands, f)
	l.Step.Add(other)
	return nil
}

// adopt replaces the step by what another attempt made of it. What this attempt published is discarded, and the other
// attempt's step is published.
func (fx *Effects) adopt(ctx context.Context, l *session.Live, facts []step.Staged) error {
	if err := l.Emit.Flush(ctx); err != nil {
		return err
	}
	l.Step = l.NewStep(l.Step.Number)
	l.Step.AddAll(facts)
	return fx.follow(ctx, l)
}

// stage writes a fact of the step under way to the store. Before the end of a step it flushes the step's events: the
// process that continues publishes nothing of it. Before a reply it flushes the reply's events, so that the log's
// position after the reply is known. With a reply that lasts it also stages the opening, which belongs to the
// same step. With the first start of an effectful call it stages the reply, unless that is staged.
func (fx *Effects) stage(ctx context.Context, l *session.Live, f step.Fact, lasts bool) error {
	lease := l.Row.Lease.Token
	if lasts {
		lease = 0
	}
	var pieces []driver.Staged
	add := func(f step.Fact) error {
		piece, err := step.Encode(l.Step.ID, lease, l.Emit.Attempt(), f)
		pieces = append(pieces, piece)
		return err
	}
	r, reply := f.(*step.Reply)
	if _, ended := f.(*step.Ended); reply || ended {
		if err := l.Emit.Flush(ctx); err != nil {
			return err
		}
	}
	alone := l.Alone()
	if _, sent := f.(*step.Sent); sent && alone != nil {
		if err := l.Emit.Flush(ctx); err != nil {
			return err
		}
		whole := *alone // parallel calls may stage it, too
		r, reply = &whole, true
	}
	if reply {
		r.Sequence = l.Emit.Position()
		if o := l.Step.Opening; o != nil && lasts && !o.Writes.Empty() {
			if err := add(o); err != nil {
				return err
			}
		}
	}
	if f != step.Fact(r) && reply {
		if err := add(r); err != nil {
			return err
		}
	}
	if err := add(f); err != nil {
		return err
	}
	err := fx.persist(ctx, func() error { return fx.Store.Stage(ctx, l.Row.ID, l.Row.Lease.Token, pieces...) })
	if err == nil && reply && alone != nil && f != step.Fact(r) {
		l.KeepsAlone(nil)
	}
	return err
}

// staged returns the facts of a step that the store has and that are valid under the session's lease.
func (fx *Effects) staged(ctx context.Context, l *session.Live, stepID string) ([]step.Staged, error) {
	list, err := driver.StagedOf(ctx, fx.Store, l.Row.ID, stepID)
	if err != nil {
		return nil, err
	}
	return step.Decode(list, stepID, l.Row.Lease.Token)
}

// unkeepable reports whether a store or log rejects a value, or a statement of a tool, for good: retrying cannot
// succeed.
func unkeepable(err error) bool {
	return errors.Is(err, cairn.ErrInvalid) || errors.Is(err, cairn.ErrTooLarge) || driver.IsStatementFailed(err)
}
