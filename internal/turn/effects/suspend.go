package effects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// pend makes the row of a call that waits from now on. The step's commit writes it.
func (fx *Effects) pend(l *session.Live, c *step.Call) *cairn.PendingCall {
	row := c.Tool.Pending()
	row.ID, row.RootID, row.SessionID, row.Input = c.Use.CallID, l.Row.RootID, l.Row.ID, c.Use.Input
	row.RunID, row.StepID = l.Run.ID, l.SuspendedStep(l.Step)
	if row.Kind == cairn.CallApproval {
		row.ApprovalID = ids.Derive("approval", l.Row.Secret, l.Row.ID, row.ID)
	}
	return &row
}

// asksFirst reports whether a call has to be approved before its tool may run.
func (fx *Effects) asksFirst(ctx context.Context, l *session.Live, c *step.Call) (asks bool) {
	if c.Tool == nil || c.Tool.Waits() != cairn.CallApproval || c.Tool.Check(c.Use.Input) != nil {
		return false
	}
	info, tool, input := callInfo(c), c.Tool, c.Use.Input
	u := user.Code{What: "the condition of an approval", Err: cairn.CodeHook, Limit: fx.HookTimeout, Call: &info}
	asks, err := user.Lent(ctx, fx.newScope(l, l.Step.Number).Freeze("by a condition"), u, func(ctx context.Context, step *cairn.Step) (bool, error) {
		return tool.AsksApproval(ctx, cairn.NewCall(step, info), input)
	})
	if err != nil {
		fx.Logger.Warn("the condition of an approval failed; approval is needed", "session", l.Row.ID, "tool", c.Use.Tool, "error", err)
		return true
	}
	return asks
}

// look notes which of the companions that calls of the step wait for have been given something else to do by other calls.
func (fx *Effects) look(ctx context.Context, st *step.Step) error {
	for _, c := range st.Calls {
		id := c.AwaitsCompanion()
		if id == "" {
			continue
		}
		row, err := store.Load(ctx, fx.Store, id)
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return err
		}
		c.Moved = err != nil || row.Status != cairn.SessionPaused
	}
	return nil
}

// callWrites lists what the step's commit does to rows of calls: new ones are opened, used answers settled, and, unless
// the step goes on waiting, the others dropped.
func (fx *Effects) callWrites(l *session.Live, st *step.Step, waits bool) []store.CallWrite {
	var list []store.CallWrite
	for _, c := range st.Calls {
		p := c.Row
		switch {
		case p == nil:
		case p.Version == 0: // if the run was stopped nobody could know of the call
			if waits {
				list = append(list, store.CallWrite{Call: *p, DeadlineIn: c.AtMost()})
			}
		case c.Result != nil && c.Result.Result.Code != cairn.CodeNotExecuted && p.Status == cairn.CallAnswered:
			list = append(list, store.CallWrite{Call: inbox.Settle(*p), Seen: p.Version})
		case !waits:
			list = append(list, store.CallWrite{Call: inbox.Drop(*p, "the run ended", l.Row.AsOf), Seen: p.Version})
		}
	}
	return list
}

// WaitsFor says in words what a paused session waits for; empty if it, or one of the sub-agents it waits for, can go on.
func (fx *Effects) WaitsFor(ctx context.Context, row *cairn.Session) (string, error) {
	if row.SuspendedStep == "" || row.Ready() || overdue(row, row.AsOf) {
		return "", nil
	}
	run, err := store.FindRun(ctx, fx.Store, row.ID, row.RunID)
	if err != nil {
		return "", err
	}
	var children []string
	if run.Suspended != nil {
		children = run.Suspended.Children
	}
	for _, id := range children {
		child, err := store.Load(ctx, fx.Store, id)
		if errors.Is(err, cairn.ErrNotFound) || err == nil && child.Status != cairn.SessionPaused {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if what, err := fx.WaitsFor(ctx, child); err != nil || what == "" {
			return "", err
		}
	}
	return count(row.OpenCalls-len(children), "call", len(children), "sub-agent"), nil
}

func overdue(row *cairn.Session, now time.Time) bool {
	return !row.NextDeadline.IsZero() && !now.Before(row.NextDeadline)
}

// count puts two numbers of things into words.
func count(n int, what string, m int, other string) string {
	say := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	switch {
	case m == 0:
		return say(n, what)
	case n <= 0:
		return say(m, other)
	}
	return say(n, what) + " and " + say(m, other)
}

// Expire closes the calls of a paused session whose deadline has passed. It reports whether the session can go on.
func (fx *Effects) Expire(ctx context.Context, id string) (bool, error) {
	row, err := store.Update(ctx, fx.Store, id, func(row *cairn.Session) (*store.Commit, error) {
		now := row.AsOf
		if row.Status != cairn.SessionPaused || !overdue(row, now) {
			return nil, nil
		}
		snap, err := fx.Store.Read(ctx, id, store.ToDrive(row.MessageCount))
		if err != nil {
			return nil, err
		}
		c := &store.Commit{Suspend: &store.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls}}
		for _, call := range snap.Calls {
			switch {
			case call.Overdue(now):
				c.Calls = append(c.Calls, store.CallWrite{Call: inbox.Expire(call, now), Seen: call.Version})
				c.Suspend.OpenCalls--
			case call.Status == cairn.CallOpen:
				c.Suspend.NextDeadline = session.Earlier(c.Suspend.NextDeadline, call.Deadline)
			}
		}
		return c, nil
	})
	if err != nil {
		return false, err
	}
	return row.Ready(), nil
}

// withdraw adds to a commit what takes back the wait of a session that was seen: what was answered is told, the rest is closed as not
// executed, and nobody can answer any more. The commit begins or ends the run that the message belongs to.
func (fx *Effects) withdraw(c *store.Commit, seen *cairn.Session, messages []cairn.Message, calls []cairn.PendingCall, why string) {
	reply, open := transcript.Unanswered(messages)
	results := &cairn.Message{Role: cairn.RoleTool, Origin: cairn.OriginWithdrawn}
	for _, use := range open {
		result := transcript.NotExecuted(use, "not executed: "+why)
		for i := range calls {
			row := &calls[i]
			if row.ID != use.CallID || row.Status == cairn.CallSettled || row.Status == cairn.CallDropped {
				continue
			}
			w := store.CallWrite{Call: inbox.Drop(*row, why, seen.AsOf), Seen: row.Version}
			if row.Status == cairn.CallAnswered {
				if told := inbox.Result(row); told != nil {
					result, w.Call = told, inbox.Settle(*row)
				}
			}
			c.Calls = append(c.Calls, w)
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
		c.Messages = append(c.Messages, fx.stamp([]cairn.Message{*results}, run.ID)...)
	}
	c.Suspend = &store.Suspend{}
}

// Withdraw ends the wait of a paused session and of the sub-agents it waits for: the run that is suspended ends as a stop
// request says. The error is ErrNotRunning or ErrAlreadyRunning if the session is no longer paused.
func (fx *Effects) Withdraw(ctx context.Context, id string, stop cairn.Stop) error {
	for {
		err := fx.tryWithdraw(ctx, id, stop)
		if !errors.Is(err, cairn.ErrStale) { // else somebody has just answered
			return err
		}
	}
}

func (fx *Effects) tryWithdraw(ctx context.Context, id string, stop cairn.Stop) error {
	snap, err := fx.Store.Read(ctx, id, store.ToDrive(0))
	if err != nil {
		return err
	}
	row := snap.Session
	if row.Status != cairn.SessionPaused {
		return store.Conflict(cairn.CodeNotRunning, row, "session %q is not waiting, it is %s", id, row.Status)
	}
	run, err := store.FindRun(ctx, fx.Store, id, row.RunID)
	if err != nil {
		return err
	}
	var began int64 // sub-agents that were waited for
	if run.Suspended != nil {
		began = int64(len(run.Suspended.Children))
	}
	run.Status, run.Reason, run.StopReason, run.Suspended = cairn.RunInterrupted, cairn.ReasonInterrupted, stop.Reason, nil
	if stop.Kind == cairn.StopAbort {
		run.Status, run.Reason, run.Error = cairn.RunFailed, cairn.ReasonAborted, abortError(stop)
	}
	c := &store.Commit{Guard: store.Guard{Version: row.Version, Idle: true}, EndRun: run, Status: sessionStatus(run.Status), DropStaged: true,
		Usage: cairn.Usage{SubAgentRuns: began}}
	fx.withdraw(c, row, snap.Messages, snap.Calls, "the run was stopped")
	after, err := fx.Store.Commit(ctx, id, c)
	if err != nil {
		return err
	}
	fx.Evict(id)
	// Only now: nobody would go on with a session that waits for sub-agents that were ended.
	if err := fx.withdrawChildren(ctx, after, stop, time.Time{}); err != nil {
		return err
	}
	// Whoever has begun the next run by now may be telling of this end, too: it is told once.
	p := pastOf(row, run)
	p.token, p.End, p.Fresh, p.Calls = nextToken(after), true, true, journal.Results(run.Steps, c.Messages)
	if _, err := fx.reconcile(ctx, after, p); err != nil && !errors.Is(err, cairn.ErrFenced) {
		fx.Logger.Warn("the log of a stopped run was not completed; a reader will do it", "session", id, "run", run.ID, "error", err)
	}
	fx.tellClosed(ctx, after, run, c.Messages)
	return nil
}

// leaveChildren ends the sub-agents that a session's runs left waiting or at work; those from before a time, unless that is
// zero.
func (fx *Effects) leaveChildren(ctx context.Context, row *cairn.Session, before time.Time) error {
	return fx.withdrawChildren(ctx, row, leaving, before)
}

// leaving is why a sub-agent ends whose parent does not need it any more.
var leaving = cairn.Stop{Kind: cairn.StopInterrupt, Reason: "the run that consulted it ended"}

// withdrawChildren ends the sub-agents that a session waited for; of those from before a time, unless that is zero.
func (fx *Effects) withdrawChildren(ctx context.Context, row *cairn.Session, stop cairn.Stop, before time.Time) error {
	q := store.SessionQuery{ParentID: row.ID, Statuses: []cairn.SessionStatus{cairn.SessionPaused, cairn.SessionActive}}
	for {
		page, err := fx.Store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			child := &page.Items[i]
			since := child.CreatedAt
			if child.Kind == cairn.ChildCompanion { // it may have been consulted again since
				since = child.UpdatedAt
			}
			if !before.IsZero() && !since.Before(before) || !fx.Awaits(row, child) {
				continue
			}
			if err := fx.withdrawChild(ctx, child, stop); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// withdrawChild ends the wait of a sub-agent. One that is at work, on a host perhaps that knows nothing of its parent's end,
// is asked to stop: its next step hears of it.
func (fx *Effects) withdrawChild(ctx context.Context, child *cairn.Session, stop cairn.Stop) (err error) {
	for {
		stop.RunID = child.RunID
		switch child.Status {
		case cairn.SessionPaused:
			err = fx.Withdraw(ctx, child.ID, stop)
		case cairn.SessionActive:
			if child.Crashed(child.AsOf) {
				err = fx.Settle(ctx, child, stop)
				break
			}
			if err = fx.Store.RequestStop(ctx, child.ID, stop); err == nil {
				fx.RequestStop(child.ID, stop)
				err = fx.passBelow(ctx, child, stop)
			}
		default:
			return nil
		}
		if !errors.Is(err, cairn.ErrNotRunning) && !errors.Is(err, cairn.ErrAlreadyRunning) && !errors.Is(err, cairn.ErrStale) {
			return err
		}
		if child, err = store.Load(ctx, fx.Store, child.ID); err != nil { // it has got on meanwhile
			return err
		}
	}
}

// Forsake ends the wait of the sub-agents of a run that this process drove until somebody else took its session. Whoever did
// that may have looked for them before they began to wait.
func (fx *Effects) Forsake(ctx context.Context, at turn.Position) error {
	l := fx.cache.Get(at.SessionID)
	if l == nil || l.Row.Lease.Token != at.Token || l.Step == nil {
		return nil
	}
	for _, c := range l.Step.Calls {
		if !c.AwaitsChild() {
			continue
		}
		if err := fx.forsake(ctx, turn.ToolIn{Position: at, CallID: c.Use.CallID}); err != nil {
			return err
		}
	}
	return nil
}

// forsake ends the wait of the sub-agent that a call has begun, unless the call's run goes on, or its session still waits.
func (fx *Effects) forsake(ctx context.Context, of turn.ToolIn) error {
	parent, err := store.Load(ctx, fx.Store, of.SessionID)
	if err != nil {
		return err
	}
	run, err := store.FindRun(ctx, fx.Store, parent.ID, parent.RunID)
	child := childID(parent, of.CallID)
	switch {
	case err != nil:
		return err
	case parent.Status == cairn.SessionActive && (run.ID == of.RunID || run.Kind == cairn.RunResume): // that looks after it
		return nil
	case run.Suspended != nil && slices.Contains(run.Suspended.Children, child):
		return nil
	}
	row, err := store.Load(ctx, fx.Store, child)
	if errors.Is(err, cairn.ErrNotFound) { // the call was to a companion that there was before
		return nil
	}
	if err != nil || row.Status != cairn.SessionPaused || !fx.Awaits(parent, row) {
		return err
	}
	return fx.withdrawChild(ctx, row, leaving)
}

// Awaits reports whether a session that consults a child waits for its answer. A companion that works by itself waits on
// its own account.
func (fx *Effects) Awaits(parent, child *cairn.Session) bool {
	if child.Kind != cairn.ChildCompanion {
		return true
	}
	a, ok := fx.Agents(parent.Agent)
	if !ok {
		return false
	}
	kind, ok := a.Companion(child.Agent)
	return ok && kind.Mode == cairn.Blocking
}
