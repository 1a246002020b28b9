package lifecycle

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// FailCorrupt fails the run of a session that no process drives and whose stored data cannot be read: no lease holder
// could continue it. What can be read stays. An error means that the run was not failed: the session's row cannot be
// read either, a process drives it, or it has no run to fail.
func (r *Runs) FailCorrupt(ctx context.Context, id string, cause error) error {
	row, err := driver.Load(ctx, r.Store, id)
	if err != nil {
		return err
	}
	c := &driver.Commit{Guard: driver.Guard{Version: row.Version}, Status: cairn.SessionFailed, Suspend: &driver.Suspend{}, DropStaged: true}
	switch {
	case row.Crashed(row.AsOf):
		c.Guard.Lapsed = true
		c.Lease = driver.LeaseChange{Action: driver.LeaseTake, Owner: r.Owner} // fences off the old process, which may be alive
	case row.Status == cairn.SessionActive && row.Lease.Owner == r.Owner && r.Cache.Get(id) == nil: // taken by this process, which cannot drive it
		c.Guard.Token = row.Lease.Token
		c.Lease = driver.LeaseChange{Action: driver.LeaseRelease}
	case row.Status == cairn.SessionPaused:
		c.Guard.Idle = true
	default:
		return driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q has no run to fail, it is %s", id, row.Status)
	}
	// Sub-agents end first, but one that still runs does not keep a session open that nothing can continue.
	ended, err := r.endBelow(ctx, row, cairn.Stop{Kind: cairn.StopAbort, Reason: "the session cannot be read"}, Leaving)
	if err != nil {
		r.Logger.Warn("sub-agents of an unreadable session not ended before it", "session", id, "error", err)
	}
	if ended != nil {
		row, c.Guard.Version = ended, ended.Version
	}
	run, err := driver.FindRun(ctx, r.Store, id, row.RunID)
	if err != nil {
		run = &cairn.Run{ID: row.RunID, Agent: row.Agent, Kind: cairn.RunExecute, Turn: row.Turn}
	}
	run.Status, run.Reason, run.Error, run.Suspended = cairn.RunFailed, cairn.ReasonError, cairn.AsError(cause), nil
	run.Steps, run.Usage = row.Step, row.RunUsage
	c.EndRun = run
	if open, err := r.Store.Calls(ctx, driver.CallQuery{SessionID: id, Statuses: []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered}}); err == nil {
		for _, call := range open.Items {
			c.Calls = append(c.Calls, driver.CallWrite{Call: inbox.Drop(call, "the session cannot be read", row.AsOf), Seen: call.Version})
		}
	}
	_ = r.TakeAdditions(ctx, c, row, run.ID) // it takes none if the queue cannot be read
	var before []cairn.Event
	if row.Status == cairn.SessionActive {
		before = append(before, discarded(row))
		if staged, err := driver.StagedOf(ctx, r.Store, id, step.ID(row.RunID, row.Step+1)); err == nil {
			left, _ := LeftEffects(c, staged, row, "the session cannot be read") // none that cannot be read either
			before = append(before, left...)
		}
	}
	after, finish, err := r.commitEnd(ctx, row, c, before...)
	if err != nil {
		return err
	}
	defer finish()
	r.Evict(row.RootID)
	r.Logger.Error("cannot read a session; failed its run", "session", id, "run", run.ID, "error", cause)
	// What could not be ended before, and what an old process began until the commit took its lease.
	if err := r.ReapChildren(ctx, after, time.Time{}); err != nil {
		r.Logger.Warn("sub-agents of an unreadable session still wait", "session", id, "error", err)
	}
	return nil
}
