package sqlitestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlCallsOfStep = `
		SELECT data FROM calls
		WHERE session = ?1 AND step_id = ?2
		ORDER BY created_at, root_id, id`

	sqlCallSeen = `SELECT key, session, version, created_at FROM calls WHERE root_id = ?1 AND id = ?2`

	sqlInsertCall = `
		INSERT INTO calls (session, root_id, id, created_at, step_id, user_id, agent, tool, kind, status, assigned,
			claimed_by, claimed_until, deadline, version, data)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
		RETURNING key`

	sqlUpdateCall = `
		UPDATE calls
		SET step_id = ?2, user_id = ?3, agent = ?4, tool = ?5, kind = ?6, status = ?7, assigned = ?8, claimed_by = ?9,
			claimed_until = ?10, deadline = ?11, version = ?12, data = ?13
		WHERE key = ?1`

	sqlAssign = `
		INSERT INTO assignments (reviewer, created_at, root_id, id, call) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT DO NOTHING`

	sqlUnassign = `DELETE FROM assignments WHERE call = ?1`
)

// callRow is the row of a pending call that a commit writes.
type callRow struct {
	key  int64              // 0 for a new one
	call *cairn.PendingCall // nil for a new one until fill
	data string
}

// fill sets the row to that of a call.
func (r *callRow) fill(call *cairn.PendingCall) (err error) {
	r.call = call
	r.data, err = backend.EncodeCall(call)
	return err
}

// write writes the row of a call of a session.
func (r *callRow) write(c *conn, session int64) error {
	call := r.call
	fields := []any{call.StepID, call.UserID, call.Agent, call.Tool, string(call.Kind), string(call.Status),
		len(call.Reviewers) > 0, call.ClaimedBy, micros(call.ClaimedUntil), micros(call.Deadline), call.Version, r.data}
	if r.key == 0 {
		_, err := c.row(sqlInsertCall, func(cols *columns) { r.key = cols.int64() },
			append([]any{session, call.RootID, call.ID, micros(call.CreatedAt)}, fields...)...)
		if err != nil {
			return err
		}
		c.wrote = true
	} else {
		if _, err := c.exec(sqlUpdateCall, append([]any{r.key}, fields...)...); err != nil {
			return err
		}
		if _, err := c.exec(sqlUnassign, r.key); err != nil {
			return err
		}
	}
	if call.Status != cairn.CallOpen {
		return nil
	}
	for _, reviewer := range call.Reviewers {
		if _, err := c.exec(sqlAssign, reviewer, micros(call.CreatedAt), call.RootID, call.ID, r.key); err != nil {
			return err
		}
	}
	return nil
}

// readCalls runs a statement whose first column is the data of calls.
func readCalls(ctx context.Context, c *conn, text string, args ...any) (list []cairn.PendingCall, err error) {
	err = c.query(ctx, text, func(cols *columns) bool {
		list = append(list, readCall(cols))
		return true
	}, args...)
	return list, err
}

func readCall(cols *columns) (call cairn.PendingCall) {
	cols.json("call", &call)
	call.Tenant, _ = cairn.SplitTenant(call.RootID)
	return call
}

// Calls implements driver.Store.
func (s *Store) Calls(ctx context.Context, q driver.CallQuery) (driver.Page[cairn.PendingCall], error) {
	text, args, err := callStatement(&q, s.clock())
	if err != nil {
		return driver.Page[cairn.PendingCall]{}, err
	}
	size := driver.PageSize(q.Limit)
	var page driver.Page[cairn.PendingCall]
	err = s.readers.view(ctx, func(c *conn) error {
		page = driver.Page[cairn.PendingCall]{}
		err := c.search(ctx, text, func(cols *columns) bool {
			if len(page.Items) == size {
				page.Next = driver.CallCursor(&page.Items[size-1])
				return false
			}
			page.Items = append(page.Items, readCall(cols))
			return true
		}, args...)
		if err != nil {
			return err
		}
		return overdueOf(c, page.Items, func(call *cairn.PendingCall) string { return call.RootID })
	})
	if err != nil {
		return driver.Page[cairn.PendingCall]{}, err
	}
	return page, nil
}

// The sources of a list of calls.
const (
	fromCalls = `SELECT c.data, c.created_at, c.root_id, c.id FROM calls c`
	// The join order is fixed, so that the list follows the order of the assignments.
	fromAssignments = `SELECT c.data, a.created_at, a.root_id, a.id FROM assignments a CROSS JOIN calls c ON c.key = a.call`
)

// callStatement returns the statement for one page and one more call, which shows that there is another page. The open
// calls that a reviewer may answer are two merged lists: those assigned to the reviewer and those without reviewers. An
// index serves each.
func callStatement(q *driver.CallQuery, now time.Time) (text string, args []any, err error) {
	createdAt, root, id, err := q.Begin()
	if err != nil {
		return "", nil, err
	}
	open := len(q.Statuses) == 1 && q.Statuses[0] == cairn.CallOpen
	add := func(from, position string, more func(*filter)) {
		f := callFilter(q, open, now)
		more(f)
		if root != "" {
			f.add(position+" > (?, ?, ?)", micros(createdAt), root, id)
		}
		if text != "" {
			text += ` UNION ALL `
		}
		text += from
		if len(f.where) > 0 {
			text += ` WHERE ` + strings.Join(f.where, ` AND `)
		}
		args = append(args, f.args...)
	}
	const position = "(c.created_at, c.root_id, c.id)"
	switch {
	case q.Reviewer == "":
		add(fromCalls, position, func(*filter) {})
	case open:
		add(fromCalls, position, func(f *filter) { f.add("c.assigned = 0") })
		add(fromAssignments, "(a.created_at, a.root_id, a.id)", func(f *filter) { f.add("a.reviewer = ?", q.Reviewer) })
	default:
		add(fromCalls, position, func(f *filter) {
			f.add("(c.assigned = 0 OR ? IN (SELECT value FROM json_each(c.data, '$.reviewers')))", q.Reviewer)
		})
	}
	return text + ` ORDER BY 2, 3, 4 LIMIT ?`, append(args, driver.PageSize(q.Limit)+1), nil
}

// callFilter returns the conditions of a query except for its reviewer and cursor. The conditions for open, claimed and
// unsettled calls are those of the partial indexes, so that the planner can use these.
func callFilter(q *driver.CallQuery, open bool, now time.Time) *filter {
	f := &filter{}
	switch {
	case open:
		f.add("c.status = 'open'")
	case len(q.Statuses) > 0:
		f.addJSON("c.status IN (SELECT value FROM json_each(?))", q.Statuses)
	}
	if q.Unsettled() {
		f.add("c.kind = 'effect' AND c.status <> 'settled'")
	}
	// A condition with a plus is not by an index: those of what has fewer calls serve.
	tenant, kind := "", ""
	switch {
	case q.Tenant == nil:
	case q.RootID+q.SessionID+q.UserID+q.Claimed != "" || *q.Tenant == "" && q.Agent+q.Tool != "":
		tenant = "+"
	default:
		kind = "+"
	}
	if q.Tenant != nil {
		f.add(tenant+fmt.Sprintf(tenantOf, "c.root_id")+" = ?", *q.Tenant)
	}
	f.addText("c.root_id = ?", q.RootID)
	f.addText("c.id = ?", q.ID)
	f.addText("c.session = (SELECT key FROM sessions WHERE id = ?)", q.SessionID)
	f.addText("c.step_id = ?", q.StepID)
	f.addText("c.user_id = ?", q.UserID)
	f.addText(kind+"c.agent = ?", q.Agent)
	f.addText(kind+"c.tool = ?", q.Tool)
	f.addText("c.kind = ?", string(q.Kind))
	if q.Claimed != "" {
		f.add("c.claimed_by <> '' AND c.claimed_by = ? AND c.claimed_until > ?", q.Claimed, micros(now))
	}
	if !q.DueBefore.IsZero() {
		f.add("c.deadline > 0 AND c.deadline < ?", ceilMicros(q.DueBefore))
	}
	return f
}
