package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// CancelCalls adds to a commit what cancels the wait of the session seen. Answered calls get their results. The others
// are closed as not executed, or as stopped if their tool has asked a question or an active run may have executed them.
// No answer is accepted any more. Children that the calls consulted end with stop. The commit begins or ends the run
// that the message of results belongs to.
func (r *Runs) CancelCalls(ctx context.Context, c *store.Commit, seen *cairn.Session, messages []cairn.Message, calls []cairn.PendingCall,
	stop cairn.Stop, why string) error {
	children, err := r.childEnds(ctx, seen, messages, stop)
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
			w := store.CallWrite{Call: inbox.Drop(*row, why, seen.AsOf), Seen: row.Version}
			if row.Kind.Asked() { // by its tool
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
			if result.Code == cairn.CodeNotExecuted {
				result = transcript.Stopped(use)
			}
			result.Child = child
			c.Usage.SubAgentRuns++
		}
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult, Result: result})
		c.Usage.ToolCalls++
		if result.IsError {
			c.Usage.ToolErrors++
		}
	}
	if c.EndRun != nil {
		c.EndRun.Usage = c.EndRun.Usage.Add(c.Usage)
	}
	if len(results.Parts) > 0 {
		results.ID = fmt.Sprintf("%s/withdrawn%d", reply.ID, len(messages))
		run := c.StartRun
		if run == nil {
			run = c.EndRun
		}
		c.Messages = append(c.Messages, stamp([]cairn.Message{*results}, run.ID)...)
	}
	c.Suspend = &store.Suspend{}
	return nil
}

// CancelWait ends the wait of a paused session and of the sub-agents that it waits for. The suspended run, which stop
// names, ends as stop says. It returns ErrNotRunning or ErrAlreadyRunning if the session is no longer paused, or is
// paused in another run.
func (r *Runs) CancelWait(ctx context.Context, id string, stop cairn.Stop) error {
	for {
		err := r.cancelWaitOnce(ctx, id, stop)
		if !errors.Is(err, cairn.ErrStale) { // a call was answered concurrently
			return err
		}
	}
}

func (r *Runs) cancelWaitOnce(ctx context.Context, id string, stop cairn.Stop) error {
	snap, err := r.Store.Read(ctx, id, store.ToDrive(0))
	if err != nil {
		return err
	}
	row := snap.Session
	if row.Status != cairn.SessionPaused {
		return store.Conflict(cairn.CodeNotRunning, row, "session %q is not waiting, it is %s", id, row.Status)
	}
	if row.RunID != stop.RunID {
		return store.Conflict(cairn.CodeNotRunning, row, "session %q waits with another run than %q", id, stop.RunID)
	}
	run, err := store.FindRun(ctx, r.Store, id, row.RunID)
	if err != nil {
		return err
	}
	consulted := run.Suspended != nil && len(run.Suspended.Children) > 0
	run.Status, run.Reason, run.StopReason, run.Suspended = cairn.RunInterrupted, cairn.ReasonInterrupted, stop.Reason, nil
	if stop.Kind == cairn.StopAbort {
		run.Status, run.Reason, run.Error = cairn.RunFailed, cairn.ReasonAborted, Aborted(stop)
	}
	if _, err := r.Publish(ctx, row); err != nil { // changes made outside of runs come first
		return err
	}
	c := &store.Commit{Guard: store.Guard{Version: row.Version, Idle: true}, EndRun: run, Status: StatusAfter(run.Status), DropStaged: true,
		Published: true}
	if err := r.CancelCalls(ctx, c, row, snap.Messages, snap.Calls, stop, "the run was stopped"); err != nil {
		return err
	}
	after, deliver, err := r.commitEnd(ctx, id, c)
	if err != nil {
		return err
	}
	defer deliver()
	r.Evict(id)
	// Only after the commit: no process would resume a session that waits for sub-agents that have ended.
	if err := r.reapChildren(ctx, after, stop, time.Time{}); err != nil {
		return err
	}
	if consulted { // if the session was deleted meanwhile, no child was found: its end is published once it is restored
		if _, err := store.Load(ctx, r.Store, id); err != nil {
			return err
		}
	}
	// A process that has begun the next run may publish this end concurrently. It is published once.
	p := pastOf(row, run)
	p.token, p.End, p.Fresh, p.Calls = nextToken(after), true, true, journal.Results(run.Steps, c.Messages)
	publish := func() error { _, err := r.reconcile(ctx, after, p); return err }
	if err := retry.Storage(ctx, r.Logger, publish); err != nil && !errors.Is(err, cairn.ErrFenced) {
		r.Logger.Warn("the log of a stopped run was not completed; a reader will do it", "session", id, "run", run.ID, "error", err)
	}
	r.Announce(ctx, after, run, c.Messages)
	return nil
}

// ReapChildren ends the sub-agents that a session's runs left suspended or active. If before is not zero, it ends only
// those that began before it; of companions, those that have not changed since.
func (r *Runs) ReapChildren(ctx context.Context, row *cairn.Session, before time.Time) error {
	return r.reapChildren(ctx, row, Leaving, before)
}

// Leaving is the stop of a sub-agent that its parent no longer needs.
var Leaving = cairn.Stop{Kind: cairn.StopInterrupt, Reason: "the run that consulted it ended"}

// reapChildren is ReapChildren with the stop by which the sub-agents end.
func (r *Runs) reapChildren(ctx context.Context, row *cairn.Session, stop cairn.Stop, before time.Time) error {
	q := store.SessionQuery{ParentID: row.ID, Statuses: []cairn.SessionStatus{cairn.SessionPaused, cairn.SessionActive}}
	for child, err := range r.list(ctx, q) {
		if err != nil {
			return err
		}
		since := child.CreatedAt
		if child.Kind == cairn.ChildCompanion { // it may have been consulted again
			since = child.UpdatedAt
		}
		if !before.IsZero() && !since.Before(before) {
			continue
		}
		switch awaited, err := r.Awaited(ctx, child); {
		case err != nil:
			return err
		case !awaited:
			continue
		}
		if err := r.ReapChild(ctx, child, stop); err != nil {
			return err
		}
	}
	return nil
}

// ReapChild ends a suspended sub-agent. It asks an active one to stop, which its next step notices: its host may not
// know of its parent's end.
func (r *Runs) ReapChild(ctx context.Context, child *cairn.Session, stop cairn.Stop) (err error) {
	for {
		stop.RunID = child.RunID
		switch child.Status {
		case cairn.SessionPaused:
			err = r.CancelWait(ctx, child.ID, stop)
		case cairn.SessionActive:
			var keeps bool
			if child.Crashed(child.AsOf) {
				// A companion has later turns, so it keeps what its tools did: a worker, or the next message to it, drives
				// its run to the stop.
				if child.Kind == cairn.ChildCompanion {
					keeps, err = r.keepsStep(ctx, child)
				}
				if err == nil && !keeps {
					err = r.EndDead(ctx, child, stop)
				}
				if err != nil || !keeps {
					break
				}
			}
			if err = r.Store.RequestStop(ctx, child.ID, stop); err == nil {
				r.RequestStop(child.ID, stop)
				err = r.PassBelow(ctx, child, stop)
			}
		default:
			return nil
		}
		if !errors.Is(err, cairn.ErrNotRunning) && !errors.Is(err, cairn.ErrAlreadyRunning) && !errors.Is(err, cairn.ErrStale) {
			return err
		}
		if child, err = store.Load(ctx, r.Store, child.ID); err != nil { // its status changed concurrently
			return err
		}
	}
}

// Awaited reports whether a child's parent waits for its answer, as it was when the child's run began: it does not wait
// for a companion in the background. The mode that the companion has now does not matter.
func (r *Runs) Awaited(ctx context.Context, child *cairn.Session) (bool, error) {
	if child.Kind != cairn.ChildCompanion || child.RunID == "" {
		return true, nil
	}
	run, err := store.FindRun(ctx, r.Store, child.ID, child.RunID)
	if errors.Is(err, cairn.ErrNotFound) {
		return true, nil
	}
	return err == nil && !run.Background, err
}
