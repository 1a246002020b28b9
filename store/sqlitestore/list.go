package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// tenantOf is the tenant of the id in a column, see cairn.SplitTenant, in the words of the indexes by tenant.
const tenantOf = `substr(%[1]s, 1, max(instr(%[1]s, '::') - 1, 0))`

// filter collects the conditions of a query with their arguments.
type filter struct {
	where []string
	args  []any
}

// add adds a condition; each ? in it takes one argument.
func (f *filter) add(condition string, args ...any) {
	f.where = append(f.where, condition)
	f.args = append(f.args, args...)
}

// addText adds a condition on one text if it is not empty.
func (f *filter) addText(condition, value string) {
	if value != "" {
		f.add(condition, value)
	}
}

// addJSON adds a condition on a list of texts, which always encodes.
func (f *filter) addJSON(condition string, list any) {
	raw, _ := json.Marshal(list)
	f.add(condition, string(raw))
}

// List implements driver.Store.
func (s *Store) List(ctx context.Context, q driver.SessionQuery) (driver.Page[cairn.Session], error) {
	text, args, err := listStatement(&q)
	removed := len(q.Removed) > 0
	if err != nil {
		return driver.Page[cairn.Session]{}, err
	}
	size := driver.PageSize(q.Limit)
	var page driver.Page[cairn.Session]
	err = s.readers.view(ctx, func(c *conn) error {
		now := s.clock()
		page = driver.Page[cairn.Session]{}
		err := c.search(ctx, text, func(cols *columns) bool {
			if len(page.Items) == size {
				page.Next = driver.SessionCursor(&page.Items[size-1])
				return false
			}
			row := readSession(cols).session
			row.AsOf = now
			if removed {
				row.Removal, row.RemovedAt = cols.text(), cols.time()
			}
			page.Items = append(page.Items, *row)
			return true
		}, args...)
		if err != nil || removed {
			return err
		}
		return overdueOf(c, page.Items, func(s *cairn.Session) string { return s.RootID })
	})
	if err != nil {
		return driver.Page[cairn.Session]{}, err
	}
	return page, nil
}

// listStatement returns the statement for one page and one more session, which shows that there is another page.
func listStatement(q *driver.SessionQuery) (text string, args []any, err error) {
	cursor, err := q.Begin()
	if err != nil {
		return "", nil, err
	}
	f := sessionFilter(q)
	if cursor.ID != "" {
		f.add("(s.created_at, s.id) < (?, ?)", micros(cursor.CreatedAt), cursor.ID)
	}
	text = `SELECT` + sessionColumns + ` FROM sessions s JOIN heads h ON h.session = s.key`
	if len(q.Removed) > 0 { // all of them are read, by removed_id
		text = `SELECT` + sessionColumns + `, r.reason, r.removed_at
			FROM removed r JOIN removed_sessions s ON s.key = r.key JOIN removed_heads h ON h.session = r.key`
		f.addJSON("r.reason IN (SELECT value FROM json_each(?))", q.Removed)
	}
	if len(f.where) > 0 {
		text += ` WHERE ` + strings.Join(f.where, ` AND `)
	}
	text += ` ORDER BY s.created_at DESC, s.id DESC LIMIT ?`
	return text, append(f.args, driver.PageSize(q.Limit)+1), nil
}

func sessionFilter(q *driver.SessionQuery) *filter {
	f := &filter{}
	// SQLite has no statistics here. The first condition is by its index, the others have a plus, so that their indexes,
	// which may have the sessions of all users, do not serve the query.
	plus := ""
	by := func(column string, value *string) {
		if value != nil {
			f.add(plus+column+" = ?", *value)
			plus = "+"
		}
	}
	text := func(column, value string) {
		if value != "" {
			by(column, &value)
		}
	}
	text("s.thread_id", q.ThreadID)
	text("s.parent_id", q.ParentID)
	text("s.root_id", q.RootID)
	text("s.user_id", q.UserID)
	if q.Tenant != nil && *q.Tenant == "" { // where there are no tenants, an agent has fewer sessions
		text("s.agent", q.Agent)
		by(fmt.Sprintf(tenantOf, "s.id"), q.Tenant)
	} else {
		by(fmt.Sprintf(tenantOf, "s.id"), q.Tenant)
		text("s.agent", q.Agent)
	}
	if q.RootsOnly || q.Archived != nil {
		f.add(plus + "s.parent_id = ''")
	}
	if q.Archived != nil { // in the words of sessions_current and sessions_archived
		f.add(map[bool]string{false: "s.archived_at = 0", true: "s.archived_at > 0"}[*q.Archived])
	}
	// Lists of values are one JSON argument each, so that their length does not change the statement.
	if len(q.Statuses) > 0 {
		f.addJSON("h.status IN (SELECT value FROM json_each(?))", q.Statuses)
	}
	if len(q.Tags) > 0 {
		f.addJSON(`NOT EXISTS (
			SELECT 1 FROM json_each(?) want WHERE want.value NOT IN (SELECT value FROM json_each(s.tags)))`, q.Tags)
	}
	f.addMetadata(q.Metadata)
	// Words contain no spaces, and no character with a special meaning here.
	for _, word := range driver.Words(q.Search) {
		f.add("instr(s.words, ?) > 0", " "+word)
	}
	if !q.CreatedAfter.IsZero() {
		f.add("s.created_at >= ?", ceilMicros(q.CreatedAfter))
	}
	if !q.CreatedBefore.IsZero() {
		f.add("s.created_at < ?", ceilMicros(q.CreatedBefore))
	}
	if !q.UpdatedAfter.IsZero() {
		f.add("h.updated_at >= ?", ceilMicros(q.UpdatedAfter))
	}
	if !q.UpdatedBefore.IsZero() {
		f.add("h.updated_at < ?", ceilMicros(q.UpdatedBefore))
	}
	return f
}

// By sessions_root.
const sqlCountTree = `SELECT count(*) FROM sessions WHERE root_id = ?1`

// CountTree implements driver.TreeCounter.
func (s *Store) CountTree(ctx context.Context, root string) (n int, err error) {
	err = s.readers.read(ctx, func(c *conn) error {
		_, err := c.row(sqlCountTree, func(cols *columns) { n = cols.int() }, root)
		return err
	})
	return n, err
}
