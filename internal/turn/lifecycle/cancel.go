package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// CancelCalls adds to a commit what cancels the wait of the session seen. Answered calls get their results. The others
// are closed as not executed, or as stopped if their tool has asked a question or an active run may have executed them.
// No answer is accepted any more. Children that the calls consulted have ended. The message of results belongs to the
// run that the commit begins or ends, if any.
func (r *Runs) CancelCalls(ctx context.Context, c *driver.Commit, seen *cairn.Session, messages []cairn.Message, calls []cairn.PendingCall,
	why string) error {
	children, err := r.childEnds(ctx, seen, messages)
	if err != nil {
		return err
	}
	reply, open := transcript.Unanswered(messages)
	results := &cairn.Message{Role: cairn.RoleTool, Origin: cairn.OriginWithdrawn}
	for _, use := range open {
		result := transcript.NotExecuted(use, "not executed: "+why)
		for i := range calls {
			row := &calls[i]
			if inbox.ToolCall(row) != use.CallID || row.Status == cairn.CallSettled || row.Status == cairn.CallDropped {
				continue
			}
			w := driver.CallWrite{Call: inbox.Drop(*row, why, seen.AsOf), Seen: row.Version}
			if row.Kind == cairn.CallEffect {
				result, w.Call = closedEffect(row, use, why, seen.AsOf)
			} else if row.Kind.Asked() { // by its tool
				result = transcript.Stopped(use)
			} else if row.Status == cairn.CallAnswered {
				if answer := inbox.Result(row); answer != nil {
					result, w.Call = answer, inbox.Settle(*row)
				} else if seen.Status == cairn.SessionActive { // a run had begun to execute what was approved
					result, w.Call = transcript.Stopped(use), inbox.Settle(*row)
				}
			}
			c.Calls = append(c.Calls, w)
		}
		if child := children[use.CallID]; child.SessionID != "" {
			if result.Code == cairn.ErrNotExecuted {
				result = transcript.Stopped(use)
			}
			result.Child = child
		}
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: result})
		e := step.CallEntry(use.Tool, result)
		if child, ran := children[use.CallID]; ran && child.SessionID != "" {
			e = step.RanAgent(e, child.Agent)
		}
		c.Spend(e)
	}
	for i := range calls {
		if row := &calls[i]; row.Kind == cairn.CallBudget && (row.Status == cairn.CallOpen || row.Status == cairn.CallAnswered) {
			c.Calls = append(c.Calls, driver.CallWrite{Call: inbox.Drop(*row, why, seen.AsOf), Seen: row.Version})
		}
	}
	if c.EndRun != nil {
		c.EndRun.Usage = c.EndRun.Usage.Add(c.Usage)
	}
	if len(results.Parts) > 0 {
		results.ID = fmt.Sprintf("%s/withdrawn%d", reply.ID, len(messages))
		runID := ""
		if run := cmp.Or(c.StartRun, c.EndRun); run != nil {
			runID = run.ID
		}
		c.Messages = append(c.Messages, stamp([]cairn.Message{*results}, runID)...)
	}
	c.Suspend = &driver.Suspend{}
	return nil
}

// CancelWait ends the wait of a paused session and, before it, the sub-agents that it waits for. The suspended run, which
// stop names, ends as stop says, or as the stop that is recorded already unless stop aborts. It returns an EndingError if
// a sub-agent still runs, and ErrNotRunning or ErrAlreadyRunning if the session is no longer paused, or is paused in
// another run. If another process ends the wait concurrently, there is no error.
func (r *Runs) CancelWait(ctx context.Context, id string, stop cairn.Stop) error {
	for joined := false; ; {
		err := r.cancelWaitOnce(ctx, id, stop, &joined)
		if !errors.Is(err, cairn.ErrStale) { // a call was answered concurrently
			return err
		}
	}
}

// cancelWaitOnce sets joined once the session is known to be ending.
func (r *Runs) cancelWaitOnce(ctx context.Context, id string, stop cairn.Stop, joined *bool) error {
	snap, err := r.Store.Read(ctx, id, driver.ToDrive(0))
	if err != nil {
		return err
	}
	row := snap.Session
	switch {
	case *joined && (row.Status != cairn.SessionPaused || row.RunID != stop.RunID):
		return nil
	case row.Status != cairn.SessionPaused:
		return driver.Conflict(cairn.ErrNotRunning, row, "session %q is not waiting, it is %s", id, row.Status)
	case row.RunID != stop.RunID:
		return driver.Conflict(cairn.ErrNotRunning, row, "session %q is paused in another run than %q", id, stop.RunID)
	}
	if snap.Session, err = r.endBelow(ctx, row, stop, standing(row.Ending, stop)); err != nil {
		return err
	}
	*joined = snap.Session.Ending != nil
	return r.endWait(ctx, snap, standing(snap.Session.Ending, stop))
}

// standing returns the stop of a wait that ends by stop: the recorded one, unless stop aborts.
func standing(recorded *cairn.Stop, stop cairn.Stop) cairn.Stop {
	if recorded == nil || stop.Kind == cairn.StopAbort {
		return stop
	}
	return *recorded
}

// endWait ends the wait of a paused session whose sub-agents have ended.
func (r *Runs) endWait(ctx context.Context, snap *driver.Contents, stop cairn.Stop) error {
	row := snap.Session
	if row.RunID == "" {
		return r.endBranchWait(ctx, snap)
	}
	run, err := driver.FindRun(ctx, r.Store, row.ID, row.RunID)
	if err != nil {
		return err
	}
	run.Status, run.Reason, run.Suspended = cairn.RunInterrupted, cairn.ReasonInterrupted, nil
	run.StopReason, run.StoppedBy = stop.Reason, stop.By
	if stop.Kind == cairn.StopAbort {
		run.Status, run.Reason, run.Error = cairn.RunFailed, cairn.ReasonAborted, Aborted(stop)
	}
	c := &driver.Commit{Guard: driver.Guard{Version: row.Version, Idle: true}, EndRun: run, Status: StatusAfter(run.Status), DropStaged: true}
	if err := r.CancelCalls(ctx, c, row, snap.Messages, snap.Calls, "the run was stopped"); err != nil {
		return err
	}
	after, finish, err := r.commitEnd(ctx, row, c)
	if err != nil {
		return err
	}
	defer finish()
	r.Evict(row.ID)
	r.Announce(ctx, after, run, c.Messages)
	return nil
}

// endBranchWait ends the wait of a branch that was made paused and has begun no run.
func (r *Runs) endBranchWait(ctx context.Context, snap *driver.Contents) error {
	row := snap.Session
	c := &driver.Commit{Guard: driver.Guard{Version: row.Version, Idle: true}, Status: cairn.SessionIdle}
	if err := r.CancelCalls(ctx, c, row, snap.Messages, snap.Calls, "the branch was stopped"); err != nil {
		return err
	}
	c.Usage, c.UsageEntries = cairn.Usage{}, nil // no run has made the calls
	c.Events = r.Marks(row, "", journal.Added(row.MessageCount, c.Messages)...)
	_, err := r.Write(ctx, row.ID, row, c)
	r.Evict(row.ID)
	return err
}

// Leaving is the stop of a sub-agent that its parent no longer needs.
var Leaving = cairn.Stop{Kind: cairn.StopInterrupt, Reason: "the run that consulted it ended"}

// ReapChildren ends the sub-agents that a session's runs left suspended or active. If before is not zero, it ends only
// those that began before it; of companions, those that have not changed since. It waits for none that still runs.
func (r *Runs) ReapChildren(ctx context.Context, row *cairn.Session, before time.Time) error {
	children, err := r.left(ctx, row, before)
	if err == nil {
		err = r.endAll(ctx, row, children, Leaving)
	}
	if errors.As(err, new(*EndingError)) {
		return nil
	}
	return err
}

// ReapChild ends a suspended sub-agent, or asks an active one to stop. It does not wait for one that still runs, nor for
// those below a suspended one: a worker ends the session once they have ended.
func (r *Runs) ReapChild(ctx context.Context, child *cairn.Session, stop cairn.Stop) error {
	_, err := r.endChild(ctx, child, stop)
	return err
}
