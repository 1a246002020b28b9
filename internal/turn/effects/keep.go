package effects

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// failUnstorable fails a run because the store rejects its step, together with the steps deferred before it. The store
// would reject them from every process that took over the run.
func (fx *Effects) failUnstorable(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step, cause error) (turn.Committed, error) {
	fx.Logger.Error("a step cannot be kept; its run fails", "session", l.Row.ID, "run", l.Run.ID, "step", st.Number, "error", cause)
	failed := journal.Storable(cairn.AsError(cause))
	l.Emit.Event(journal.StepDiscarded(l.Row.Step+1, failed))
	if err := l.Emit.Flush(ctx); err != nil {
		return turn.Committed{}, err
	}
	if err := fx.ReapChildren(ctx, l.Row, time.Time{}); err != nil {
		return turn.Committed{}, err
	}
	lost := spent(l, st)
	for {
		run := *l.Run
		run.Status, run.Reason, run.Error, run.Steps, run.Usage = cairn.RunFailed, cairn.ReasonError, failed, l.Row.Step, l.Row.RunUsage
		c := &store.Commit{Guard: store.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version}, EndRun: &run, Status: cairn.SessionFailed,
			Lease: store.LeaseChange{Action: store.LeaseRelease}, DropStaged: true}
		if l.Row.SuspendedStep != "" {
			if err := fx.CancelCalls(ctx, c, l.Row, l.Messages, l.Calls, "the run failed"); err != nil {
				return turn.Committed{}, err
			}
		}
		if err := fx.TakeAdditions(ctx, c, l.Row, run.ID); err != nil {
			return turn.Committed{}, err
		}
		c.Usage, run.Usage = c.Usage.Add(lost), run.Usage.Add(lost)
		owed, err := fx.recordStop(ctx, l, &run)
		if err != nil {
			return turn.Committed{}, err
		}
		c.Events, c.LogSequence = fx.Ends(l.Row, c), l.Emit.Position()
		var row *cairn.Session
		err = fx.persist(ctx, func() (err error) {
			row, err = fx.Write(ctx, l.Row.ID, l.Row, c)
			return err
		})
		if errors.Is(err, cairn.ErrStale) { // another process has appended to the session concurrently
			l.Deferred = session.Deferred{}
			if _, err = fx.rebase(ctx, l, nil); err == nil {
				continue
			}
		}
		if err != nil {
			return turn.Committed{}, err
		}
		l.Sees(row, fx.Now())
		l.Spoiled = true
		defer fx.Owed.Deliver(ctx, owed)
		return fx.ended(ctx, l, &run, nil), nil
	}
}

// spent returns what the models were paid for the step and for those deferred before it, none of which is kept.
func spent(l *session.Live, st *step.Step) cairn.Usage {
	sum := l.Deferred.Usage.Add(st.Spent)
	if st.Reply != nil {
		sum = sum.Add(st.Reply.Usage)
	}
	return ofModels(l, sum)
}
