package pgstore

import (
	"context"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// List implements driver.Store.
func (s *Store) List(ctx context.Context, q driver.SessionQuery) (driver.Page[cairn.Session], error) {
	text, args, err := listStatement(&q)
	if err != nil {
		return driver.Page[cairn.Session]{}, err
	}
	if len(q.Removed) > 0 {
		return readPage(ctx, &s.database, "list removed sessions", text, args, driver.PageSize(q.Limit), func(rows pgx.Rows) (cairn.Session, error) {
			r := &storedRow{}
			var reason string
			var at time.Time
			err := r.read(rows, &reason, &at)
			r.session.Removal, r.session.RemovedAt = reason, at.UTC()
			return *r.session, err
		}, driver.SessionCursor, nil)
	}
	return readPage(ctx, &s.database, "list sessions", text, args, driver.PageSize(q.Limit), func(rows pgx.Rows) (cairn.Session, error) {
		r := &storedRow{}
		err := r.read(rows)
		return *r.session, err
	}, driver.SessionCursor, func(s *cairn.Session) string { return s.RootID })
}

// listStatement returns the statement for one page.
func listStatement(q *driver.SessionQuery) (text string, args []any, err error) {
	cursor, err := q.Begin()
	if err != nil {
		return "", nil, err
	}
	f := sessionFilter(q)
	if cursor.ID != "" {
		f.add("(s.created_at, s.id) < (?::timestamptz, ?)", cursor.CreatedAt, cursor.ID)
	}
	from := "SELECT" + sessionColumns + "\n\tFROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key"
	if len(q.Removed) > 0 { // reads all of them, or those of a root by removed_root_id, or of a thread by removed_thread
		from = "SELECT" + sessionColumns + `, r.reason, r.removed_at
			FROM {schema}.removed r, jsonb_populate_record(NULL::{schema}.sessions, r.data -> 'session') s,
				jsonb_populate_record(NULL::{schema}.heads, r.data -> 'head') h`
		f.add("r.reason = ANY (?::text[])", asTexts(q.Removed))
		f.addText("r.thread_id = ?", q.ThreadID)
		f.addText("r.root_id = ?", q.RootID)
	}
	return f.page(from, "s.created_at DESC, s.id DESC", driver.PageSize(q.Limit)), f.args, nil
}

// addTenant adds a condition on the tenant of the id in a column, in the words of the indexes by tenant; nil is any.
func (f *filter) addTenant(column string, tenant *string) {
	if tenant != nil {
		f.add("left("+column+", greatest(strpos("+column+", '::') - 1, 0)) = ?", *tenant)
	}
}

func sessionFilter(q *driver.SessionQuery) *filter {
	f := &filter{}
	f.addTenant("s.id", q.Tenant)
	f.addText("s.user_id = ?", q.UserID)
	f.addText("s.agent = ?", q.Agent)
	f.addText("s.thread_id = ?", q.ThreadID)
	f.addText("s.parent_id = ?", q.ParentID)
	f.addText("s.root_id = ?", q.RootID)
	if q.RootsOnly {
		f.add("s.parent_id = ''")
	}
	if q.Archived != nil { // in the words of sessions_current and sessions_archived
		f.add("s.parent_id = ''")
		f.add(map[bool]string{false: "s.archived_at IS NULL", true: "s.archived_at IS NOT NULL"}[*q.Archived])
	}
	// Lists of values are one argument each, so that their length does not change the statement.
	if len(q.Statuses) > 0 {
		f.add("h.status = ANY (?::text[])", asTexts(q.Statuses))
	}
	if len(q.Tags) > 0 {
		f.add("s.tags @> ?::text[]", q.Tags)
	}
	// The server has no statistics on metadata: it estimates that any filter on it matches few rows, and reads all
	// sessions. For a CASE it estimates that half of them match, and reads the newest sessions first.
	if len(q.Metadata) > 0 {
		f.add("CASE WHEN s.metadata @> ?::jsonb THEN TRUE ELSE FALSE END", metadataText(q.Metadata))
	}
	if list := driver.Words(q.Search); len(list) > 0 { // a word contains nothing that needs quoting
		condition := "s.words @@ ?::tsquery"
		if q.UserID+q.ThreadID+q.ParentID+q.RootID == "" && len(q.Removed) == 0 {
			// The planner assumes that the beginning of a word is frequent, and would read the newest sessions until it
			// has found a page of matches. All matches are therefore read first, by sessions_words.
			condition = "s.key = ANY (ARRAY(SELECT w.key FROM {schema}.sessions w WHERE w.words @@ ?::tsquery))"
		}
		f.add(condition, "'"+strings.Join(list, "':* & '")+"':*")
	}
	if !q.CreatedAfter.IsZero() {
		f.add("s.created_at >= ?::timestamptz", ceiling(q.CreatedAfter))
	}
	if !q.CreatedBefore.IsZero() {
		f.add("s.created_at < ?::timestamptz", ceiling(q.CreatedBefore))
	}
	if !q.UpdatedAfter.IsZero() {
		f.add("h.updated_at >= ?::timestamptz", ceiling(q.UpdatedAfter))
	}
	if !q.UpdatedBefore.IsZero() {
		f.add("h.updated_at < ?::timestamptz", ceiling(q.UpdatedBefore))
	}
	return f
}

// By sessions_root.
const sqlCountTree = `SELECT count(*) FROM {schema}.sessions WHERE root_id = $1`

// CountTree implements driver.TreeCounter.
func (s *Store) CountTree(ctx context.Context, root string) (n int, err error) {
	err = s.try(ctx, "count a tree", reads, func(ctx context.Context, c *conn) error {
		_, err := c.row(ctx, sqlCountTree, []any{&n}, root)
		return err
	})
	return n, err
}
