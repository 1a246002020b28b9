package effects

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// failUnstorable fails a run because the store rejects its step, together with the steps deferred before it. The store
// would reject them from every process that took over the run.
func (fx *Effects) failUnstorable(ctx context.Context, l *session.Live, cause error) (run *cairn.Run, finish func(context.Context), err error) {
	fx.Logger.Error("cannot store a step; failing its run", "session", l.Row.ID, "run", l.Run.ID, "step", l.Step.Number, "error", cause)
	failed := journal.Storable(cairn.AsError(cause))
	l.Emit.Event(journal.StepDiscarded(l.Row.Step+1, failed))
	if err := fx.endChildren(ctx, l); err != nil {
		return nil, nil, err
	}
	lost := ofModels(l, l.Spent())
	var none []cairn.Op
	row, finish, err := fx.onTop(ctx, l, &none, func() (*driver.Commit, error) {
		end := *l.Run
		run = &end
		run.Status, run.Reason, run.Error, run.Steps, run.Usage = cairn.RunFailed, cairn.ReasonError, failed, l.Row.Step, l.Row.RunUsage
		c := &driver.Commit{Guard: driver.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version}, EndRun: run, Status: cairn.SessionFailed,
			Lease: driver.LeaseChange{Action: driver.LeaseRelease}, DropStaged: true}
		if l.Row.SuspendedStep != "" {
			if err := fx.CancelCalls(ctx, c, l.Row, l.Messages, l.Calls(), "the run failed"); err != nil {
				return nil, err
			}
		}
		if err := fx.TakeAdditions(ctx, c, l.Row, run.ID); err != nil {
			return nil, err
		}
		c.Spend(lost.Entries...)
		run.Usage = run.Usage.Add(lost.Usage)
		left := lifecycle.CloseEffects(c, l.Step.Effects(), l.Row, "the step could not be stored")
		c.Events, c.LogSequence = fx.Ends(l.Row, c, left...), l.Emit.Position()
		return c, nil
	})
	if err != nil {
		return nil, nil, err
	}
	l.Spoils(row, fx.Now())
	return run, finish, nil
}
