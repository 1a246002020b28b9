package pgstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
)

// selectCall begins a statement that reads calls: the columns are those that readCall reads.
const selectCall = `
	SELECT c.root_id, c.id, s.id, c.version, c.created_at, c.updated_at, c.user_id, c.agent, c.deadline, c.data`

const (
	// By calls_step.
	sqlCallsOfStep = selectCall + `
		FROM {schema}.sessions s
			JOIN {schema}.heads h ON h.session = s.key
			JOIN {schema}.calls c ON c.session = s.key AND c.step_id = h.suspended_step
		WHERE s.id = $1 AND h.suspended_step <> ''
		ORDER BY c.created_at, c.root_id, c.id`

	// By the key of calls.
	sqlCallsSeen = `
		SELECT id, session, version FROM {schema}.calls WHERE root_id = $1 AND id = ANY ($2::text[])`
)

// sqlPutCalls writes the rows of calls. A row that is not at the version its writer saw gets none, which the table refuses
// with the whole commit. Their assignments are made to be what the rows say.
const sqlPutCalls = `, put AS (
	INSERT INTO {schema}.calls (root_id, id, session, version, created_at, updated_at, deadline, claimed_until, claimed_by,
		step_id, user_id, agent, tool, kind, status, reviewers, data)
	SELECT s.root_id, w.id, h.session, w.seen + 1, h.updated_at, h.updated_at, coalesce(h.updated_at + w.deadline_in, w.deadline), w.claimed_until, w.claimed_by,
		w.step_id, s.user_id, s.agent, w.tool, w.kind, w.status, w.reviewers, w.data
	FROM head h
		JOIN {owner} s ON s.key = h.session,
		unnest(@call_id::text[], @call_seen::bigint[], @call_deadline::timestamptz[], @call_deadline_in::interval[], @call_claimed_until::timestamptz[],
			@call_claimed_by::text[], @call_step::text[], @call_tool::text[], @call_kind::text[], @call_status::text[],
			@call_reviewers::jsonb[], @call_data::text[])
			w (id, seen, deadline, deadline_in, claimed_until, claimed_by, step_id, tool, kind, status, reviewers, data)
	ON CONFLICT (root_id, id) DO UPDATE
	SET version = CASE WHEN calls.version = excluded.version - 1 AND calls.session = excluded.session THEN excluded.version END,
		updated_at = excluded.updated_at, deadline = excluded.deadline, claimed_until = excluded.claimed_until,
		claimed_by = excluded.claimed_by, step_id = excluded.step_id, user_id = excluded.user_id, agent = excluded.agent,
		tool = excluded.tool, kind = excluded.kind, status = excluded.status, reviewers = excluded.reviewers, data = excluded.data
	RETURNING root_id, id, created_at, status, reviewers
), wanted AS (
	SELECT DISTINCT r.reviewer, p.created_at, p.root_id, p.id
	FROM put p, jsonb_array_elements_text(p.reviewers) r (reviewer)
	WHERE p.status = 'open'
), unassigned AS (
	DELETE FROM {schema}.assignments a USING put p
	WHERE a.root_id = p.root_id AND a.id = p.id
		AND NOT EXISTS (SELECT FROM wanted w WHERE (w.reviewer, w.root_id, w.id) = (a.reviewer, a.root_id, a.id))
), assigned AS (
	INSERT INTO {schema}.assignments (reviewer, created_at, root_id, id)
	SELECT * FROM wanted
	ON CONFLICT DO NOTHING)`

// callColumns are the rows of pending calls that a commit writes, by column.
type callColumns struct {
	id, claimedBy, step, tool, kind, status, reviewers, data []string
	seen                                                     []int64
	deadline, claimedUntil                                   []*time.Time
	deadlineIn                                               []*time.Duration
}

func (x *callColumns) fill(list []store.CallWrite) error {
	for i := range list {
		call := list[i].Call
		data, err := encode("call", &call)
		if err != nil {
			return err
		}
		reviewers := "[]"
		if len(call.Reviewers) > 0 {
			if reviewers, err = encode("reviewers", call.Reviewers); err != nil {
				return err
			}
		}
		x.id, x.seen = append(x.id, call.ID), append(x.seen, list[i].Seen)
		x.deadline = append(x.deadline, timestamp(call.Deadline))
		x.deadlineIn = append(x.deadlineIn, orNull(list[i].DeadlineIn, list[i].DeadlineIn > 0))
		x.claimedBy, x.claimedUntil = append(x.claimedBy, call.ClaimedBy), append(x.claimedUntil, timestamp(call.ClaimedUntil))
		x.step, x.tool = append(x.step, call.StepID), append(x.tool, call.Tool)
		x.kind, x.status = append(x.kind, string(call.Kind)), append(x.status, string(call.Status))
		x.reviewers, x.data = append(x.reviewers, reviewers), append(x.data, data)
	}
	return nil
}

func (x *callColumns) argument(name string) (any, bool) {
	switch name {
	case "call_id":
		return x.id, true
	case "call_seen":
		return x.seen, true
	case "call_deadline":
		return x.deadline, true
	case "call_deadline_in":
		return x.deadlineIn, true
	case "call_claimed_until":
		return x.claimedUntil, true
	case "call_claimed_by":
		return x.claimedBy, true
	case "call_step":
		return x.step, true
	case "call_tool":
		return x.tool, true
	case "call_kind":
		return x.kind, true
	case "call_status":
		return x.status, true
	case "call_reviewers":
		return x.reviewers, true
	case "call_data":
		return x.data, true
	}
	return nil, false
}

// checkCalls returns the conflict of the first write of a call that is based on another version than the one there is.
func (w *write) checkCalls(ctx context.Context, c *conn, r *record) error {
	if len(w.c.Calls) == 0 {
		return nil
	}
	type seen struct{ session, version int64 }
	there := map[string]seen{}
	err := c.query(ctx, sqlCallsSeen, func(rows pgx.Rows) error {
		var id string
		var s seen
		err := rows.Scan(&id, &s.session, &s.version)
		there[id] = s
		return err
	}, r.session.RootID, w.calls.id)
	if err != nil {
		return err
	}
	for i := range w.c.Calls {
		id := w.c.Calls[i].Call.ID
		now, found := there[id]
		if now.version != w.c.Calls[i].Seen || found && now.session != r.key || slices.Contains(w.calls.id[:i], id) {
			return store.CallConflict(r.session, id)
		}
	}
	return nil
}

func readCall(rows pgx.Rows) (cairn.PendingCall, error) {
	var call, columns cairn.PendingCall
	var deadline *time.Time
	if err := readJSON(rows, "call", &call, &columns.RootID, &columns.ID, &columns.SessionID, &columns.Version, &columns.CreatedAt,
		&columns.UpdatedAt, &columns.UserID, &columns.Agent, &deadline); err != nil {
		return call, err
	}
	call.RootID, call.ID, call.SessionID, call.Version = columns.RootID, columns.ID, columns.SessionID, columns.Version
	call.CreatedAt, call.UpdatedAt = columns.CreatedAt.UTC(), columns.UpdatedAt.UTC()
	call.UserID, call.Agent = columns.UserID, columns.Agent
	call.Deadline, call.ClaimedUntil = instant(deadline), kept(call.ClaimedUntil)
	return call, nil
}

// kept is a time as a column of the database would keep it.
func kept(t time.Time) time.Time { return instant(timestamp(t)) }

// Calls implements store.Store.
func (s *Store) Calls(ctx context.Context, q store.CallQuery) (store.Page[cairn.PendingCall], error) {
	text, args, err := callStatement(&q)
	if err != nil {
		return store.Page[cairn.PendingCall]{}, err
	}
	return readPage(ctx, s, "list calls", text, args, store.PageSize(q.Limit), readCall, store.CallCursor, func(call *cairn.PendingCall) string { return call.RootID })
}

// Where the calls of a list come from.
const (
	fromCalls = selectCall + `
	FROM {schema}.calls c JOIN {schema}.sessions s ON s.key = c.session`

	fromAssignments = selectCall + `
	FROM {schema}.assignments a
		JOIN {schema}.calls c ON c.root_id = a.root_id AND c.id = a.id
		JOIN {schema}.sessions s ON s.key = c.session`
)

// callStatement returns the statement for one page and one call more, which tells that there is another page. The open
// calls that a reviewer may answer are two lists merged: those assigned to them and those assigned to nobody. An index
// serves each.
func callStatement(q *store.CallQuery) (text string, args []any, err error) {
	createdAt, root, id, err := store.ParseCallCursor(q.Cursor)
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
		lists = append(lists, f.page(from, order, store.PageSize(q.Limit)))
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
	text = "(" + strings.Join(lists, "\n\t) UNION ALL (") + "\n\t)\n\tORDER BY 5, 1, 2\n\tLIMIT " + f.arg(store.PageSize(q.Limit)+1)
	return text, f.args, nil
}

// addCall adds everything of a query but its reviewer and cursor. That a call is open or claimed is said in the words of
// the indexes that hold only such calls.
func (f *filter) addCall(q *store.CallQuery, open bool) {
	switch {
	case open:
		f.add("c.status = 'open'")
	case len(q.Statuses) > 0:
		f.add("c.status = ANY (?::text[])", asTexts(q.Statuses))
	}
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
