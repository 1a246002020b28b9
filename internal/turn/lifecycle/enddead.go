package lifecycle

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// EndDead ends the run of a process that died, without driving it on.
func (r *Runs) EndDead(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	how := cairn.Run{Status: cairn.RunInterrupted, Reason: cairn.ReasonInterrupted, StopReason: stop.Reason, StoppedBy: stop.By}
	if stop.Kind == cairn.StopAbort {
		how.Status, how.Reason, how.Error = cairn.RunFailed, cairn.ReasonAborted, Aborted(stop)
	}
	return r.endDead(ctx, row, how)
}

// keepsStep reports whether the step under way of a session has facts that the next lease holder uses, with an agent
// that is registered here.
func (r *Runs) keepsStep(ctx context.Context, row *cairn.Session) (bool, error) {
	if _, known := r.Agents(row.Agent, ""); !known {
		return false, nil
	}
	staged, err := driver.StagedOf(ctx, r.Store, row.ID, "")
	return step.Lasting(staged), err
}

// Abandon ends the run of a process that died, because the session is to go back to before the run's end.
func (r *Runs) Abandon(ctx context.Context, row *cairn.Session) error {
	return r.endDead(ctx, row, cairn.Run{Status: cairn.RunInterrupted, Reason: cairn.ReasonCrashed})
}

// endDead ends the run of a process that died, with the status and reasons of how. Its sub-agents end first.
func (r *Runs) endDead(ctx context.Context, row *cairn.Session, how cairn.Run) error {
	stop := cairn.Stop{Kind: cairn.StopInterrupt, Reason: how.StopReason, By: how.StoppedBy}
	if how.Status == cairn.RunFailed {
		stop.Kind = cairn.StopAbort
	}
	if _, err := r.endBelow(ctx, row, stop, Leaving); err != nil {
		return err
	}
	run, err := r.crashedRun(ctx, row)
	if err != nil {
		return err
	}
	run.Status, run.Reason, run.Error = how.Status, how.Reason, how.Error
	run.StopReason, run.StoppedBy = how.StopReason, how.StoppedBy
	stepID := step.ID(row.RunID, row.Step+1)
	staged, err := driver.StagedOf(ctx, r.Store, row.ID, stepID)
	if err != nil {
		return err
	}
	spent := step.SpentIn(staged, stepID)
	run.Usage = run.Usage.Add(spent.Usage)
	c := &driver.Commit{
		Guard: driver.Guard{Lapsed: true, Version: row.Version},
		Usage: spent.Usage, UsageEntries: spent.Entries, EndRun: run, Status: StatusAfter(how.Status), DropStaged: true,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: r.Owner}, // fences off the old process, which may be alive
	}
	if row.SuspendedStep != "" {
		snap, err := r.Store.Read(ctx, row.ID, driver.ToDrive(0))
		if err != nil {
			return err
		}
		if err := r.CancelCalls(ctx, c, snap.Session, snap.Messages, snap.Calls, "the run was stopped"); err != nil {
			return err
		}
	}
	if err := r.TakeAdditions(ctx, c, row, run.ID); err != nil {
		return err
	}
	left, err := LeftEffects(c, staged, row, "the run ended with its process")
	if err != nil {
		return err
	}
	row, finish, err := r.commitEnd(ctx, row, c, append([]cairn.Event{discarded(row)}, left...)...)
	if err != nil {
		return err
	}
	defer finish()
	// The old process may have been alive until the commit took its lease, and may have begun sub-agents until then.
	if err := r.ReapChildren(ctx, row, time.Time{}); err != nil {
		return err
	}
	r.Announce(ctx, row, run, c.Messages)
	return nil
}

// crashedRun returns the record with which a run whose process died is closed.
func (r *Runs) crashedRun(ctx context.Context, row *cairn.Session) (*cairn.Run, error) {
	run, err := driver.FindRun(ctx, r.Store, row.ID, row.RunID)
	if err != nil {
		return nil, err
	}
	run.Status, run.Reason = cairn.RunInterrupted, cairn.ReasonCrashed
	run.Steps, run.Usage = row.Step, row.RunUsage
	return run, nil
}

// commitEnd commits the end of a run that no process drives, with its events behind some others, once it is recorded, see
// [Runs.RecordEnd]. The caller calls finish last, since it may take long.
func (r *Runs) commitEnd(ctx context.Context, row *cairn.Session, c *driver.Commit, before ...cairn.Event) (after *cairn.Session, finish func(), err error) {
	left, err := r.RecordEnd(ctx, c.EndRun, row)
	if err != nil {
		return nil, nil, err
	}
	c.Events = r.Ends(row, c, before...)
	after, err = r.Write(ctx, row.ID, row, c)
	return after, func() { left(ctx) }, err
}

// Ends returns the events of a commit to a session that ends a run, behind some others: its messages, the results with
// which it closes calls, and the end.
func (r *Runs) Ends(row *cairn.Session, c *driver.Commit, before ...cairn.Event) []cairn.Event {
	list := append(before, journal.Added(row.MessageCount, c.Messages)...)
	list = append(list, journal.Results(c.EndRun.Steps, c.Messages)...)
	return r.Marks(row, c.EndRun.ID, append(list, journal.End(c.EndRun)...)...)
}

// Aborted is the error of a run that a stop has aborted.
func Aborted(stop cairn.Stop) *cairn.Error {
	if stop.Reason == "" {
		return cairn.Errorf(cairn.ErrAborted, "the run was aborted")
	}
	return cairn.Errorf(cairn.ErrAborted, "the run was aborted: %s", stop.Reason)
}
