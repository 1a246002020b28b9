package pgstore

import (
	"context"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Calls implements driver.Store.
func (s *Store) Calls(ctx context.Context, q driver.CallQuery) (driver.Page[cairn.PendingCall], error) {
	text, args, err := callStatement(&q)
	if err != nil {
		return driver.Page[cairn.PendingCall]{}, err
	}
	return readPage(ctx, &s.database, "list calls", text, args, driver.PageSize(q.Limit), readCall, driver.CallCursor, func(call *cairn.PendingCall) string { return call.RootID })
}

// The sources of a list of calls.
const (
	fromCalls = selectCall + `
	FROM {schema}.calls c JOIN {schema}.sessions s ON s.key = c.session`

	// fromAssignments looks up the calls one by one, in the order of the assignments. For a join the planner estimates
	// few matches, and would read all calls first.
	fromAssignments = selectCall + `
	FROM {schema}.assignments a
		CROSS JOIN LATERAL (SELECT * FROM {schema}.calls c WHERE c.root_id = a.root_id AND c.id = a.id OFFSET 0) c
		JOIN {schema}.sessions s ON s.key = c.session`
)

// callStatement returns the statement for one page and one more call, which shows that there is another page. The open
// calls that a reviewer may answer are merged from two lists, each served by an index: those assigned to the reviewer
// and those without reviewers.
func callStatement(q *driver.CallQuery) (text string, args []any, err error) {
	createdAt, root, id, err := q.Begin()
	if err != nil {
		return "", nil, err
	}
	f := &filter{}
	open := len(q.Statuses) == 1 && q.Statuses[0] == cairn.CallOpen
	var lists []string
	add := func(from, order string, more func()) {
		f.where = nil
		f.addCall(q, open)
		more()
		if root != "" {
			f.add("("+order+") > (?::timestamptz, ?, ?)", createdAt, root, id)
		}
		lists = append(lists, f.page(from, order, driver.PageSize(q.Limit)))
	}
	const order = "c.created_at, c.root_id, c.id"
	switch {
	case q.Reviewer == "":
		add(fromCalls, order, func() {})
	case open:
		add(fromCalls, order, func() { f.add("c.reviewers = '[]'") })
		add(fromAssignments, "a.created_at, a.root_id, a.id", func() { f.add("a.reviewer = ?", q.Reviewer) })
	default:
		add(fromCalls, order, func() { f.add("(c.reviewers = '[]' OR c.reviewers @> to_jsonb(?::text))", q.Reviewer) })
	}
	if len(lists) == 1 {
		return lists[0], f.args, nil
	}
	text = "(" + strings.Join(lists, "\n\t) UNION ALL (") + "\n\t)\n\tORDER BY 5, 1, 2\n\tLIMIT " + f.arg(driver.PageSize(q.Limit)+1)
	return text, f.args, nil
}

// addCall adds the conditions of a query except for its reviewer and cursor. The conditions for open, claimed and
// unsettled calls are those of the partial indexes, so that the planner can use them.
func (f *filter) addCall(q *driver.CallQuery, open bool) {
	switch {
	case open:
		f.add("c.status = 'open'")
	case len(q.Statuses) > 0:
		f.add("c.status = ANY (?::text[])", asTexts(q.Statuses))
	}
	if q.Unsettled() {
		f.add("c.kind = 'effect' AND c.status <> 'settled'")
	}
	f.addTenant("c.root_id", q.Tenant)
	f.addText("c.root_id = ?", q.RootID)
	f.addText("c.id = ?", q.ID)
	f.addText("c.session = (SELECT key FROM {schema}.sessions WHERE id = ?)", q.SessionID)
	f.addText("c.step_id = ?", q.StepID)
	f.addText("c.user_id = ?", q.UserID)
	f.addText("c.agent = ?", q.Agent)
	f.addText("c.tool = ?", q.Tool)
	f.addText("c.kind = ?", string(q.Kind))
	if q.Claimed != "" {
		f.add("c.claimed_by <> '' AND c.claimed_by = ? AND c.claimed_until > statement_timestamp()", q.Claimed)
	}
	if !q.DueBefore.IsZero() {
		f.add("c.deadline < ?::timestamptz", ceiling(q.DueBefore))
	}
}
