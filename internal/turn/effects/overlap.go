package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// A host may begin a second attempt at a model call while the first is still running. Of their replies, the one staged
// first stands. But staging and publishing are two writes: an attempt that finds no reply may discard the step on the
// log just as another attempt stages its reply, and then die. The store decides: the effects after the reply publish
// the staged reply again. An attempt that discards reads the store after the log, and its append succeeds only if the
// log has not grown since. So it discards nothing of a step that got further.

// discardAttempts prepares the step's first effect. Unless the reply is staged, it discards what dead attempts at the
// effect published.
func (fx *Effects) discardAttempts(ctx context.Context, l *session.Live) error {
	if l.Step.Planned() {
		return nil
	}
	return fx.DiscardAttempt(ctx, l, func(ctx context.Context) (bool, error) {
		err := fx.reread(ctx, l)
		return !l.Step.Planned(), err
	})
}

// follow prepares an effect after the step's first: it makes the emitter leave out what an earlier attempt at the
// effect published.
func (fx *Effects) follow(ctx context.Context, l *session.Live) error {
	r := l.Step.Reply
	switch {
	case !l.Step.Planned():
		return behind(l.Row.ID, l.Step.Number)
	case r == nil || r.Sequence == 0: // an earlier run committed the reply
		_, err := l.Emit.SkipPublished(ctx, l.Row.LogSequence, l.Step)
		return err
	}
	for {
		whole, err := l.Emit.SkipPublished(ctx, r.Sequence, l.Step)
		if err != nil || whole {
			return err
		}
		if err := fx.reread(ctx, l); err != nil {
			return err
		}
		if err := l.Emit.Redo(ctx, l.Step); !errors.Is(err, cairn.ErrStale) {
			return err
		}
	}
}

// reread restores the step under way from what the store has of it now. It fails if the step is not under way any more.
func (fx *Effects) reread(ctx context.Context, l *session.Live) error {
	snap, err := fx.Store.Read(ctx, l.Row.ID, driver.Want{Staged: true})
	if err != nil {
		return err
	}
	row := snap.Session
	if err := (driver.Guard{Token: l.Row.Lease.Token}).CheckToken(row); err != nil {
		return err
	}
	facts, err := step.Decode(snap.Staged, l.Step.ID, row.Lease.Token)
	if err != nil {
		return err
	}
	ended, _ := step.Standing(facts, &step.Ended{})
	if row.RunID != l.Run.ID || row.Status != cairn.SessionActive || row.Step != l.Row.Step || ended != nil {
		return journal.Outrun(row.ID, l.Step.Number)
	}
	return l.Restore(snap.Staged)
}

// behind is the error of an effect whose store lacks what earlier effects left, for example because a server was
// replaced by another one. No host can cure that: the run is driven again, under another lease, from what the store
// has.
func behind(session string, step int) error {
	return cairn.Errorf(cairn.ErrStoreBehind, "session %q: the store is missing earlier effects of step %d", session, step)
}
