package effects

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/periods"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// A budget has no counter of its own. What it counts follows from rows that commits write anyway: the usage of sessions and
// of runs. What people have added to it follows from the answered calls of the tree. So a takeover, another host and a
// repeated effect see the same figures. A session without sub-agents reads nothing for it, except when it is resumed or
// at a limit.

// limitError suspends a run before a model call until a person has answered the call of row.
type limitError struct{ row *cairn.PendingCall }

func (e *limitError) Error() string { return e.row.Prompt }

// whyBudget is the reason of a run that ended because a person did not raise its budget.
const whyBudget = "its budget is used up"

// afford returns an error if a budget does not allow the model call of a request: a limitError, or ErrBudget.
func (fx *Effects) afford(ctx context.Context, a *cairn.Agent, l *session.Live, to *step.Reply, req *cairn.Request) error {
	accounts, err := fx.accounts(ctx, a, l)
	if err != nil || len(accounts) == 0 && !fx.Periods.Applies() {
		return err
	}
	owner, err := fx.owner(ctx, l)
	if err != nil {
		return err
	}
	estimate := fx.estimate(a, l, req)
	uncommitted := budget.Of(l.Spent().Add(to.Usage).Usage)
	for i := range accounts {
		acc := &accounts[i]
		spent, err := fx.spent(ctx, l, acc, uncommitted)
		if err != nil {
			return err
		}
		if acc.Session == l.Row.ID && to.Before == nil {
			to.Before = &spent
		}
		if budget.Exceeded(acc.Budget, spent, budget.Amount{}, estimate) == nil {
			continue
		}
		raised, err := fx.raised(ctx, l, acc)
		if err != nil {
			return err
		}
		if r := budget.Exceeded(acc.Budget, spent, raised, estimate); r != nil {
			return fx.limit(l, acc.Budget, acc.Report(r))
		}
	}
	return fx.reserve(ctx, l, to, owner, estimate)
}

// owner returns whose budgets of periods apply to a session, after it has recorded what a person has added to one.
func (fx *Effects) owner(ctx context.Context, l *session.Live) (owner periods.Owner, err error) {
	if !fx.Periods.Applies() {
		return owner, nil
	}
	err = fx.persist(ctx, func() (err error) { owner, err = fx.Periods.Owner(ctx, l.Row); return err })
	if err == nil && l.Step.Budget != nil {
		err = fx.Periods.Raise(ctx, owner, l.Run.ID, l.Step.Budget, l.Now(fx.Now()))
	}
	return owner, err
}

// reserve reserves a model call with the budgets of periods. The error is that of afford.
func (fx *Effects) reserve(ctx context.Context, l *session.Live, to *step.Reply, owner periods.Owner, estimate budget.Amount) error {
	if !fx.Periods.Applies() {
		return nil
	}
	denied, warnings, err := fx.Periods.Reserve(ctx, periods.Call{Session: l.Row.ID, Run: l.Run.ID, Began: l.Run.StartedAt, Owner: owner,
		Used: budget.Of(l.Row.RunUsage.Add(l.Spent().Add(to.Usage).Usage)), Estimate: estimate, Now: l.Now(fx.Now())})
	for _, r := range warnings {
		l.Emit.Event(journal.BudgetWarning(l.Step.Number, r))
	}
	if denied != nil {
		return fx.limit(l, &denied.Rule.Budget, denied.Report)
	}
	return err
}

// limit returns the error for a model call that a report does not allow.
func (fx *Effects) limit(l *session.Live, b *cairn.Budget, r *cairn.BudgetReport) error {
	if b.OnLimit == cairn.BudgetFails {
		return cairn.Errorf(cairn.ErrBudget, "%s", budget.Words(r))
	}
	row := &cairn.PendingCall{RunID: l.Run.ID, StepID: l.Step.ID, Status: cairn.CallOpen, Schema: budget.Schema}
	row.ID = ids.Derive("budget", l.Row.Secret, l.Row.ID, l.Step.ID)
	row.RootID, row.SessionID, row.Kind, row.Tool, row.ToolCallID = l.Row.RootID, l.Row.ID, cairn.CallBudget, cairn.BudgetTool, row.ID
	row.Input, row.WaitAtMost = json.RawMessage("{}"), cairn.Duration(fx.WaitAtMost)
	row.Prompt = budget.Words(r) + " Raise the budget, or end the turn?"
	if now := l.Now(fx.Now()); r.Rule != "" && (fx.WaitAtMost == 0 || r.Until.Before(now.Add(fx.WaitAtMost))) {
		row.Deadline = r.Until.Truncate(time.Microsecond)
		row.Prompt += " It continues by itself at " + r.Until.Format(time.RFC3339) + "."
	}
	row.Payload, _ = json.Marshal(r) // finite numbers
	for _, name := range b.Reviewers {
		reviewer, problem := ids.Qualify(l.Row.ID, name)
		if problem != "" {
			return cairn.Invalid("budget.reviewers", "%q %s", name, problem)
		}
		row.Reviewers = append(row.Reviewers, reviewer)
	}
	return &limitError{row}
}

// accounts returns the budgets that a model call of a session must fit: that of its agent, and those of the agents above
// that consult it.
func (fx *Effects) accounts(ctx context.Context, a *cairn.Agent, l *session.Live) (list []budget.Account, err error) {
	if a.Budget.Zero() && (l.Row.ParentID == "" || !fx.Budgeted()) {
		return nil, nil
	}
	if list, ok := l.Accounts(); ok {
		return list, nil
	}
	err = fx.persist(ctx, func() error {
		list = nil
		run, row := l.Run, l.Row
		for {
			if !a.Budget.Zero() {
				acc, err := fx.account(ctx, &a.Budget, row, run)
				if err != nil {
					return err
				}
				list = append(list, acc)
			}
			if row.ParentID == "" {
				return nil
			}
			if row, err = driver.Load(ctx, fx.Store, row.ParentID); err != nil {
				return err
			}
			if run, err = driver.FindRun(ctx, fx.Store, row.ID, row.RunID); err != nil {
				return err
			}
			if a, err = fx.Agent(row.Agent, run.AgentVersion); err != nil {
				return err
			}
		}
	})
	if err == nil {
		l.SetAccounts(list)
	}
	return list, err
}

// account returns what a budget of a session's agent counts while a run is in progress.
func (fx *Effects) account(ctx context.Context, b *cairn.Budget, row *cairn.Session, run *cairn.Run) (budget.Account, error) {
	acc := budget.Account{Budget: b, Session: row.ID, Run: run.ID, Began: run.StartedAt}
	if b.Per == cairn.PerTree {
		return acc, nil
	}
	acc.First, acc.Since = run.ID, run.StartedAt
	if b.Per == cairn.PerRun && run.Kind == cairn.RunResume {
		acc.Resumed = run.PreviousRunID
	}
	for b.Per == cairn.PerTurn && run.Kind == cairn.RunResume && run.PreviousRunID != "" {
		var err error
		if run, err = driver.FindRun(ctx, fx.Store, row.ID, run.PreviousRunID); err != nil {
			return acc, err
		}
		used := budget.Of(run.Usage)
		used.Time = run.EndedAt.Sub(run.StartedAt)
		acc.First, acc.Since, acc.Before = run.ID, run.StartedAt, acc.Before.Plus(used)
	}
	return acc, nil
}

// spent returns what an account has counted, with what the session l has used and not committed.
func (fx *Effects) spent(ctx context.Context, l *session.Live, acc *budget.Account, uncommitted budget.Amount) (sum budget.Amount, err error) {
	sum = uncommitted
	if acc.Session == l.Row.ID && !define.Delegates(l.Agent()) {
		sum = sum.Plus(acc.Own(l.Row))
	} else {
		var below budget.Amount
		err = fx.persist(ctx, func() (err error) { below, err = fx.committed(ctx, l.Row.RootID, acc); return err })
		sum = sum.Plus(below)
	}
	if !acc.Began.IsZero() {
		sum.Time = acc.Before.Time + max(0, l.Now(fx.Now()).Sub(acc.Began))
	}
	return sum, err
}

// committed returns what an account has counted according to the rows of its tree.
func (fx *Effects) committed(ctx context.Context, root string, acc *budget.Account) (sum budget.Amount, err error) {
	rows := map[string]*cairn.Session{}
	for row, err := range driver.All(func(cursor string) (driver.Page[cairn.Session], error) {
		return fx.Store.List(ctx, driver.SessionQuery{RootID: root, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return sum, err
		}
		rows[row.ID] = row
	}
	for _, row := range rows {
		at := row
		for at != nil && at.ID != acc.Session {
			at = rows[at.ParentID]
		}
		if at == nil {
			continue
		}
		if row.ID == acc.Session {
			sum = sum.Plus(acc.Own(row))
			continue
		}
		used, err := fx.usedSince(ctx, row, acc)
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(used)
	}
	return sum, nil
}

// usedSince returns what a session below an account's has used since the account's first run began. Only of a companion
// that is older it reads the runs.
func (fx *Effects) usedSince(ctx context.Context, row *cairn.Session, acc *budget.Account) (sum budget.Amount, err error) {
	switch {
	case !row.CreatedAt.Before(acc.Since):
		return budget.Of(row.Usage), nil
	case row.UpdatedAt.Before(acc.Since):
		return sum, nil
	}
	for run, err := range driver.All(func(cursor string) (driver.Page[cairn.Run], error) {
		return fx.Store.Runs(ctx, row.ID, driver.PageQuery{Newest: true, Cursor: cursor})
	}) {
		if err != nil || run.StartedAt.Before(acc.Since) {
			return sum, err
		}
		if run.ID == row.RunID && run.Status == cairn.RunRunning {
			run.Usage = row.RunUsage
		}
		sum = sum.Plus(budget.Of(run.Usage))
	}
	return sum, nil
}

// raised returns what people have added to an account's limits.
func (fx *Effects) raised(ctx context.Context, l *session.Live, acc *budget.Account) (sum budget.Amount, err error) {
	q := driver.CallQuery{RootID: l.Row.RootID, Kind: cairn.CallBudget, Statuses: []cairn.CallStatus{cairn.CallAnswered, cairn.CallSettled}}
	err = fx.persist(ctx, func() error {
		sum = budget.Amount{}
		for call, err := range driver.All(func(cursor string) (driver.Page[cairn.PendingCall], error) {
			q.Cursor = cursor
			return fx.Store.Calls(ctx, q)
		}) {
			if err != nil {
				return err
			}
			sum = sum.Plus(acc.Raised(call))
		}
		return nil
	})
	return sum, err
}

// warn adds the warnings of the budget of a session's agent to a step's outcome: those of which the share was reached
// since the step began.
func (fx *Effects) warn(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step, out *session.Outcome) error {
	if st.Reply == nil || st.Reply.Before == nil {
		return nil
	}
	accounts, err := fx.accounts(ctx, a, l)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(accounts, func(acc budget.Account) bool { return acc.Session == l.Row.ID })
	if i < 0 {
		return nil
	}
	acc := &accounts[i]
	now, err := fx.spent(ctx, l, acc, budget.Of(l.RunUsage(out)).Minus(budget.Of(l.Row.RunUsage)))
	if err != nil {
		return err
	}
	var raised budget.Amount
	if budget.Warnings(acc.Budget, budget.Amount{}, now, raised) == nil {
		return nil
	}
	if raised, err = fx.raised(ctx, l, acc); err != nil {
		return err
	}
	for _, r := range budget.Warnings(acc.Budget, *st.Reply.Before, now, raised) {
		out.Warnings = append(out.Warnings, journal.BudgetWarning(st.Number, acc.Report(r)))
	}
	return nil
}

// atLimit records in a reply that no model was called because a budget is used up. The step is repeated, so it keeps of
// the context only a summary, which was paid for.
func atLimit(to *step.Reply, e *limitError) {
	to.Limit = e.row
	to.Context = slices.DeleteFunc(to.Context, func(m cairn.Message) bool { return m.Summary == nil })
}

// budgetWrites returns the step's writes to rows of calls that ask to raise a budget: the call that an earlier run opened
// is settled, and that of this step is opened.
func budgetWrites(st *step.Step, waits bool) (list []driver.CallWrite) {
	if p := st.Budget; p != nil && p.Status == cairn.CallAnswered {
		list = append(list, driver.CallWrite{Call: inbox.Settle(*p), Seen: p.Version})
	}
	if p := st.Limit(); p != nil && waits {
		list = append(list, driver.CallWrite{Call: *p})
	}
	return list
}
