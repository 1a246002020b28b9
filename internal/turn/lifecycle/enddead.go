package lifecycle

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// EndDead ends the run of a process that died, without driving it on.
func (r *Runs) EndDead(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	if stop.Kind == cairn.StopAbort {
		return r.endDead(ctx, row, cairn.Run{Status: cairn.RunFailed, Reason: cairn.ReasonAborted, StopReason: stop.Reason, Error: Aborted(stop)})
	}
	return r.endDead(ctx, row, cairn.Run{Status: cairn.RunInterrupted, Reason: cairn.ReasonInterrupted, StopReason: stop.Reason})
}

// keepsStep reports whether the step under way of a session has facts that the next lease holder uses, with an agent
// that is registered here.
func (r *Runs) keepsStep(ctx context.Context, row *cairn.Session) (bool, error) {
	if _, known := r.Agents(row.Agent, ""); !known {
		return false, nil
	}
	staged, err := store.StagedOf(ctx, r.Store, row.ID, "")
	return step.Lasting(staged), err
}

// Abandon ends the run of a process that died, because the session is to go back to before the run's end.
func (r *Runs) Abandon(ctx context.Context, row *cairn.Session) error {
	return r.endDead(ctx, row, cairn.Run{Status: cairn.RunInterrupted, Reason: cairn.ReasonCrashed})
}

// endDead ends the run of a process that died, with the status and reasons of how.
func (r *Runs) endDead(ctx context.Context, row *cairn.Session, how cairn.Run) error {
	run, err := r.crashedRun(ctx, row)
	if err != nil {
		return err
	}
	run.Status, run.Reason, run.StopReason, run.Error = how.Status, how.Reason, how.StopReason, how.Error
	stepID := step.ID(row.RunID, row.Step+1)
	staged, err := store.StagedOf(ctx, r.Store, row.ID, stepID)
	if err != nil {
		return err
	}
	spent := step.SpentIn(staged, stepID)
	run.Usage = run.Usage.Add(spent)
	c := &store.Commit{
		Guard: store.Guard{Lapsed: true, Version: row.Version},
		Usage: spent, EndRun: run, Status: StatusAfter(how.Status), DropStaged: true,
		Lease: store.LeaseChange{Action: store.LeaseTake, Owner: r.Owner}, // fences off the old process, which may be alive
	}
	if row.SuspendedStep != "" {
		snap, err := r.Store.Read(ctx, row.ID, store.ToDrive(0))
		if err != nil {
			return err
		}
		if err := r.CancelCalls(ctx, c, snap.Session, snap.Messages, snap.Calls, Leaving, "the run was stopped"); err != nil {
			return err
		}
	}
	if err := r.TakeAdditions(ctx, c, row, run.ID); err != nil {
		return err
	}
	row, deliver, err := r.commitEnd(ctx, row.ID, c)
	if err != nil {
		return err
	}
	defer deliver()
	if err := r.ReapChildren(ctx, row, time.Time{}); err != nil {
		return err
	}
	if row.Step == 0 {
		if err := r.completeEnds(ctx, row, row.Turn-1); err != nil {
			return err
		}
	}
	p := pastOf(row, run)
	p.End, p.Fresh = true, true
	if _, err = r.reconcile(ctx, row, p); err != nil {
		return err
	}
	r.Announce(ctx, row, run, c.Messages)
	return nil
}

// crashedRun returns the record with which a run whose process died is closed.
func (r *Runs) crashedRun(ctx context.Context, row *cairn.Session) (*cairn.Run, error) {
	run, err := store.FindRun(ctx, r.Store, row.ID, row.RunID)
	if err != nil {
		return nil, err
	}
	run.Status, run.Reason = cairn.RunInterrupted, cairn.ReasonCrashed
	run.Steps, run.Usage = row.Step, row.RunUsage
	return run, nil
}

// commitEnd commits the end of a run that no process drives, once the stop that it owes to work elsewhere is recorded,
// see [owed.Stops.Record]. deliver delivers that stop; it is called last, since it may take long.
func (r *Runs) commitEnd(ctx context.Context, id string, c *store.Commit) (row *cairn.Session, deliver func(), err error) {
	stop, err := r.Owed.Record(ctx, c.EndRun, id)
	if err != nil {
		return nil, nil, err
	}
	row, err = r.Store.Commit(ctx, id, c)
	return row, func() { r.Owed.Deliver(ctx, stop) }, err
}

// Aborted is the error of a run that a stop has aborted.
func Aborted(stop cairn.Stop) *cairn.Error {
	if stop.Reason == "" {
		return cairn.Errorf(cairn.CodeAborted, "the run was aborted")
	}
	return cairn.Errorf(cairn.CodeAborted, "the run was aborted: %s", stop.Reason)
}

// StatusAfter returns the status of a session whose run has ended with a status.
func StatusAfter(s cairn.RunStatus) cairn.SessionStatus {
	switch s {
	case cairn.RunCompleted:
		return cairn.SessionCompleted
	case cairn.RunFailed:
		return cairn.SessionFailed
	case cairn.RunInterrupted:
		return cairn.SessionInterrupted
	}
	return cairn.SessionPaused
}
