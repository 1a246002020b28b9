package redisstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	scriptList = keyed("list", "list sessions", reads)
	scriptDue  = keyed("due", "list due sessions", frees)

	scriptHidden    = keyed("hidden", "list removed sessions", reads)
	scriptCountTree = keyed("counttree", "count a tree", reads)
)

// List implements driver.Store. It reads the narrowest index for the query and filters the rows.
func (s *Store) List(ctx context.Context, q driver.SessionQuery) (driver.Page[cairn.Session], error) {
	cursor, err := q.Begin()
	if err != nil {
		return driver.Page[cairn.Session]{}, err
	}
	if len(q.Removed) > 0 {
		return s.listRemoved(ctx, q)
	}
	index, rest := sessionIndex(&q)
	from := "+inf"
	if cursor.ID != "" {
		from = strconv.FormatInt(cursor.CreatedAt.UnixMicro(), 10)
	}
	if before := ceilMicros(q.CreatedBefore); !q.CreatedBefore.IsZero() && (cursor.ID == "" || before < cursor.CreatedAt.UnixMicro()) {
		from, cursor.ID = strconv.FormatInt(before, 10), ""
	}
	size := driver.PageSize(q.Limit)
	list := merged[cairn.Session]{
		compare: func(a, b *cairn.Session) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
		},
		first: func(n int) ([][]*cairn.Session, error) {
			return readParts(ctx, &s.database, q.RootID, scriptList, readRows, index, from, cursor.ID, n)
		},
		more: func(part int, after *cairn.Session, n int) ([]*cairn.Session, error) {
			r, err := s.run(ctx, scriptList, part, index, after.CreatedAt.UnixMicro(), after.ID, n)
			if err != nil {
				return nil, err
			}
			return readRows(r)
		},
	}
	batch := size + 1
	if rest {
		batch = max(batch, scanBatch)
	}
	page, err := readMerged(&list, size, batch, selector(&q), driver.SessionCursor)
	if err != nil {
		return page, err
	}
	if again, err := lookAt(ctx, &s.database, page.Items, func(row *cairn.Session) string {
		if row.RootID == row.ID && row.TTL == 0 && row.ExpiresAt.IsZero() {
			return ""
		}
		return row.RootID
	}); again || err != nil {
		if err != nil {
			return driver.Page[cairn.Session]{}, err
		}
		return s.List(ctx, q)
	}
	return page, nil
}

// removedTrees iterates over the removed trees that a query may select: the one of its root, those of its thread, or
// all.
func (s *Store) removedTrees(ctx context.Context, q *driver.SessionQuery) iter.Seq2[*driver.Removed, error] {
	if q.RootID != "" {
		return func(yield func(*driver.Removed, error) bool) {
			_, err := driver.Load(ctx, s, q.RootID)
			var gone *driver.GoneError
			switch {
			case errors.As(err, &gone):
				yield(&gone.Removed, nil)
			case err != nil && !errors.Is(err, cairn.ErrNotFound):
				yield(nil, err)
			}
		}
	}
	index := "removed"
	if q.ThreadID != "" {
		index = "gone:" + q.ThreadID
	}
	return driver.All(func(cursor string) (driver.Page[driver.Removed], error) {
		return s.removedIn(ctx, index, 0, driver.PageQuery{Limit: 1000, Cursor: cursor})
	})
}

// listRemoved is List of removed sessions.
func (s *Store) listRemoved(ctx context.Context, q driver.SessionQuery) (driver.Page[cairn.Session], error) {
	var rows []*cairn.Session
	for tree, err := range s.removedTrees(ctx, &q) {
		if err != nil {
			return driver.Page[cairn.Session]{}, err
		}
		bucket, ok := s.bucketOfRemoval(tree.Key)
		if !ok || !slices.Contains(q.Removed, tree.Reason) {
			continue
		}
		r, err := s.run(ctx, scriptHidden, bucket, tree.Key)
		if err != nil {
			return driver.Page[cairn.Session]{}, err
		}
		list, err := readRows(r)
		if err != nil {
			return driver.Page[cairn.Session]{}, err
		}
		for _, row := range list {
			row.Removal, row.RemovedAt = string(tree.Reason), tree.RemovedAt
		}
		rows = append(rows, list...)
	}
	return backend.SessionPage(rows, q)
}

// readRows decodes the rows that list.lua returns.
func readRows(r reply) ([]*cairn.Session, error) {
	var rows []*cairn.Session
	for _, item := range r.list(1) {
		fields, _ := item.([]any)
		row, err := readRow(reply(fields).text(0), reply(fields).list(1))
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// sessionIndex returns the index for a query, and whether the query has further conditions.
func sessionIndex(q *driver.SessionQuery) (name string, rest bool) {
	var names []string
	user := "user:"
	if q.Archived != nil {
		user = map[bool]string{false: "current:", true: "archived:"}[*q.Archived]
	}
	tenant := ""
	if q.Tenant != nil {
		tenant = *q.Tenant
	}
	for _, index := range [][2]string{{"thread:", q.ThreadID}, {"parent:", q.ParentID}, {"root:", q.RootID}, {user, q.UserID}, {"tenant:", tenant}, {"agent:", q.Agent}} {
		if index[1] != "" {
			names = append(names, index[0]+index[1])
		}
	}
	none := q.Tenant != nil && tenant == ""
	roots := q.Archived != nil && q.UserID != "" // an index that has only them
	rest = len(names) > 1 || none || (q.Archived != nil || q.RootsOnly) && !roots || len(q.Statuses)+len(q.Tags)+len(q.Metadata)+len(q.Search) > 0 || !q.UpdatedAfter.IsZero() || !q.UpdatedBefore.IsZero()
	return append(names, "all")[0], rest
}

// selector returns a function that reports whether a query, without its cursor, selects a session, and whether it
// selects no later session.
func selector(q *driver.SessionQuery) func(*cairn.Session) (yes, over bool) {
	return func(row *cairn.Session) (yes, over bool) {
		if row.CreatedAt.Before(q.CreatedAfter) {
			return false, true
		}
		return q.Selects(row), false
	}
}

// ceilMicros returns the first stored time that is not before t.
func ceilMicros(t time.Time) int64 {
	n := t.UnixMicro()
	if time.UnixMicro(n).Before(t) {
		n++
	}
	return n
}

// Due implements driver.Store.
func (s *Store) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	since, id, err := driver.ParseDueCursor(q.Cursor)
	if err != nil || q.Agents != nil && len(q.Agents) == 0 {
		return driver.Page[driver.Due]{}, err
	}
	args := []any{driver.PageSize(q.Limit), "-inf", id}
	if id != "" {
		args[1] = micros(since)
	}
	for _, agent := range q.Agents {
		args = append(args, agent)
	}
	replies, err := s.runAll(ctx, scriptDue, args...)
	if err != nil {
		return driver.Page[driver.Due]{}, err
	}
	var due []driver.Due
	for _, r := range replies {
		fields := reply(r.list(1))
		for i := 0; i+5 <= len(fields); i += 5 {
			since, err := strconv.ParseInt(fields.text(i+4), 10, 64)
			if err != nil {
				return driver.Page[driver.Due]{}, cairn.Errorf(cairn.ErrCorrupt, "session %q: invalid stored field %q", fields.text(i), "due")
			}
			due = append(due, driver.Due{SessionID: fields.text(i), RootID: fields.text(i + 1), Agent: fields.text(i + 2),
				Kind: driver.DueKind(fields.text(i + 3)), Since: fromMicros(since)})
		}
	}
	page := driver.DuePage(due, q.Limit)
	again, err := lookAt(ctx, &s.database, page.Items, func(d *driver.Due) string { return d.RootID })
	switch {
	case err != nil:
		return driver.Page[driver.Due]{}, err
	case again:
		return s.Due(ctx, q)
	}
	return page, nil
}

// CountTree implements driver.TreeCounter.
func (s *Store) CountTree(ctx context.Context, root string) (int, error) {
	r, err := s.run(ctx, scriptCountTree, s.bucketOf(root), root)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(r.text(1))
	if err != nil {
		return 0, cairn.Errorf(cairn.ErrInternal, "count a tree: unexpected response %q from the server", r.text(1))
	}
	return n, nil
}
