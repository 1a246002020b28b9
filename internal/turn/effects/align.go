package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// A host may begin a second attempt at a model call while the first still lives. Of their replies the one that was
// staged first stands. But what is staged and what is published are two writes, so an attempt that finds no reply may
// discard on the log one that is staged in the next moment, and die. What is in the store decides: the effects behind the
// reply publish it again. An attempt that discards reads the store behind the log, and appends only if nothing was
// written to that since, so it discards nothing of a step that got any further.

// takeBack prepares the step's first effect: unless its reply is there, what dead attempts at it published is
// discarded.
func (fx *Effects) takeBack(ctx context.Context, l *session.Live) error {
	if l.Step.Planned() {
		return nil
	}
	return fx.DiscardAttempt(ctx, l, func(ctx context.Context) (bool, error) {
		err := fx.reread(ctx, l)
		return !l.Step.Planned(), err
	})
}

// follow prepares an effect behind the step's first: the emitter leaves out what an earlier attempt at it published.
func (fx *Effects) follow(ctx context.Context, l *session.Live) error {
	r := l.Step.Reply
	switch {
	case !l.Step.Planned():
		return behind(l.Row.ID, l.Step.Number)
	case r == nil || r.Sequence == 0: // the reply was committed before
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

// reread makes of the step under way what the store has of it by now, unless it is not under way any more.
func (fx *Effects) reread(ctx context.Context, l *session.Live) error {
	snap, err := fx.Store.Read(ctx, l.Row.ID, store.Want{Staged: true})
	if err != nil {
		return err
	}
	row := snap.Session
	if err := (store.Guard{Token: l.Row.Lease.Token}).CheckToken(row); err != nil {
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
