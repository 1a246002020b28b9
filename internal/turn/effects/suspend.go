package effects

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// pend returns the row of a call that starts to wait, with its kind and with what is asked, which is nil for a client
// tool. The step's commit writes it. The error is ErrInvalid for reviewers of another tenant.
func (fx *Effects) pend(l *session.Live, c *step.Call, kind cairn.CallKind, asked *define.Question) (*cairn.PendingCall, *cairn.Error) {
	row := c.Tool.Pending(kind, asked)
	named := row.Reviewers
	row.Reviewers = nil
	for _, name := range named {
		reviewer, problem := ids.Qualify(l.Row.ID, name)
		if problem != "" {
			return nil, cairn.Invalid("reviewers", "%q %s", name, problem)
		}
		if !slices.Contains(row.Reviewers, reviewer) {
			row.Reviewers = append(row.Reviewers, reviewer)
		}
	}
	row.ID, row.RootID, row.SessionID, row.Input = c.Use.CallID, l.Row.RootID, l.Row.ID, c.Use.Input
	row.RunID, row.StepID, row.WaitAtMost = l.Run.ID, l.SuspendedStep(l.Step), cmp.Or(row.WaitAtMost, cairn.Duration(fx.WaitAtMost))
	switch kind {
	case cairn.CallApproval:
		row.ApprovalID = ids.Derive("approval", l.Row.Secret, l.Row.ID, row.ID)
	case cairn.CallEffect:
		row.ToolCallID, row.Input, row.ID = c.Use.CallID, c.Input(), effectID(l, row.StepID, c.Use.CallID)
	case cairn.CallQuestion, cairn.CallConnect:
		row.Number, row.ToolCallID, row.Input = len(c.Asked)+1, c.Use.CallID, c.Input()
		// The id includes the run, because what a dead run asked under a provider's id is not in the transcript.
		row.ID = ids.Derive("question", l.Row.Secret, l.Row.ID, row.StepID, c.Use.CallID, strconv.Itoa(row.Number))
	}
	return &row, nil
}

// kindOf returns the kind of the call that waits for the answer to a question.
func kindOf(q *define.Question) cairn.CallKind {
	return cmp.Or(cairn.CallKind(q.Kind), cairn.CallQuestion)
}

// asksFirst returns what a reviewer is asked before the call's tool may run; nil if no approval is needed.
func (fx *Effects) asksFirst(ctx context.Context, l *session.Live, c *step.Call) (asks *define.Question) {
	if len(c.Rows()) > 0 || c.Tool == nil || c.Tool.Check(c.Use.Input) != nil {
		return nil
	}
	careful := fx.careful(ctx, l, c)
	if c.Tool.Wait.Kind != cairn.CallApproval {
		return careful
	}
	info, tool, input := user.InfoOf(c), c.Tool, c.Use.Input
	u := user.Code{What: "the condition of an approval", Err: cairn.ErrHook, Limit: fx.HookTimeout, Call: &info}
	asks, err := user.Lent(ctx, fx.Scope(l, l.Step.Number).Freeze("by a condition"), u, func(ctx context.Context, step *cairn.Step) (*define.Question, error) {
		return tool.AsksApproval(ctx, user.HandleOf(step, info), input)
	})
	if err != nil {
		fx.Logger.Warn("approval condition failed; requiring approval", "session", l.Row.ID, "tool", c.Use.Tool, "error", err)
		if asks == nil {
			asks = &define.Question{}
		}
	}
	if asks == nil {
		asks = careful
	}
	return asks
}

// careful returns what a reviewer is asked before an effectful call although its tool asks nothing; nil for other calls.
func (fx *Effects) careful(ctx context.Context, l *session.Live, c *step.Call) *define.Question {
	switch {
	case !c.Tool.Effectful:
		return nil
	case l.Tainted():
		return &define.Question{Prompt: whyTainted}
	case fx.inBranch(ctx, l):
		return &define.Question{Prompt: whyInBranch}
	}
	return nil
}

// inBranch reports whether a session belongs to a branch whose effectful calls ask first, or may belong to one.
func (fx *Effects) inBranch(ctx context.Context, l *session.Live) bool {
	if l.Row.RootID == l.Row.ID {
		return l.Row.Kind == cairn.ChildBranch
	}
	root, err := driver.Load(ctx, fx.Store, l.Row.RootID)
	return err != nil || root.Kind == cairn.ChildBranch
}

// whyTainted and whyInBranch are why an effectful call of a tainted session, and of a branch, needs an approval.
const (
	whyTainted  = "The model has read text that anybody may have written, and that may have made it call this tool. Approve the call only if the user wants it."
	whyInBranch = "This session is a branch of another one, which may have made the same call. Approve it only if it should take effect again."
)

// callWrites returns the step's writes to rows of calls. New rows are opened, answers that were used are settled, and
// all others are dropped unless the step stays suspended.
func (fx *Effects) callWrites(l *session.Live, st *step.Step, waits bool) []driver.CallWrite {
	list := budgetWrites(st, waits)
	for _, c := range st.Calls {
		if w, ok := effectWrite(c, waits); ok {
			list = append(list, w)
		}
		for _, p := range c.Rows() {
			switch {
			case p.Kind == cairn.CallEffect:
			case p.Version == 0: // in a stopped run the call was never visible
				if waits {
					list = append(list, driver.CallWrite{Call: *p})
				}
			case c.Result != nil && c.Result.Result.Code != cairn.ErrNotExecuted && p.Status == cairn.CallAnswered:
				list = append(list, driver.CallWrite{Call: inbox.Settle(*p), Seen: p.Version})
			case !waits && p.Status != cairn.CallDropped:
				list = append(list, driver.CallWrite{Call: inbox.Drop(*p, "the run ended", l.Row.AsOf), Seen: p.Version})
			}
		}
	}
	return list
}

// Orphan reaps the suspended sub-agents of a run that this process drove until another process took over its session.
// The other process may have looked for them before they were suspended.
func (fx *Effects) Orphan(ctx context.Context, at turn.Position) error {
	l := fx.Cache.Get(at.SessionID)
	if l == nil || l.Row.Lease.Token != at.Token || l.Step == nil {
		return nil
	}
	for _, c := range l.Step.Calls {
		if !c.AwaitsChild() {
			continue
		}
		if err := fx.orphan(ctx, turn.ToolIn{Position: at, CallID: c.Use.CallID}); err != nil {
			return err
		}
	}
	return nil
}

// orphan reaps the suspended sub-agent that a call began, unless the call's run continues, or its session is still
// suspended for it.
func (fx *Effects) orphan(ctx context.Context, of turn.ToolIn) error {
	parent, err := driver.Load(ctx, fx.Store, of.SessionID)
	if err != nil {
		return err
	}
	run, err := driver.FindRun(ctx, fx.Store, parent.ID, parent.RunID)
	child := childID(parent, of.CallID)
	switch {
	case err != nil:
		return err
	// The run takes care of the child.
	case parent.Status == cairn.SessionActive && (run.ID == of.RunID || run.Kind == cairn.RunResume):
		return nil
	case run.Suspended.Awaits(child):
		return nil
	}
	row, err := driver.Load(ctx, fx.Store, child)
	if errors.Is(err, cairn.ErrNotFound) { // the call was to a companion that existed before
		return nil
	}
	if err != nil || row.Status != cairn.SessionPaused {
		return err
	}
	if awaited, err := fx.Awaited(ctx, row); err != nil || !awaited {
		return err
	}
	return fx.ReapChild(ctx, row, lifecycle.Leaving)
}
