package pgstore

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By sessions_root. All writers lock the rows of a tree in the same order, and a commit locks no more than one of
	// them.
	sqlLockTree = `
		SELECT h.session
		FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
		WHERE s.root_id = $1
		ORDER BY s.key
		FOR UPDATE OF h`

	// By sessions_root.
	sqlTree = `
		SELECT` + sessionColumns + `
		FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
		WHERE s.root_id = $1
		ORDER BY s.key`

	// sqlHide takes the sessions with the keys $3 out of the tables by which sessions and calls are found. They belong
	// to the tree of the root $1 with the key $2. The rows that stay in sessions reserve their ids and own nothing.
	sqlHide = `
		WITH heads AS (
			DELETE FROM {schema}.heads WHERE session = ANY ($3::bigint[]) RETURNING *
		), calls AS (
			DELETE FROM {schema}.calls WHERE session = ANY ($3::bigint[]) RETURNING *
		), unassigned AS (
			DELETE FROM {schema}.assignments a USING calls c WHERE a.root_id = $1 AND a.id = c.id
		), kept AS (
			INSERT INTO {schema}.removed_calls (session, data) SELECT c.session, to_jsonb(c) FROM calls c
		), rows AS (
			INSERT INTO {schema}.removed (key, tree, root, id, root_id, incarnation, reason, removed_at, thread_id, data)
			SELECT s.key, $2, s.key = $2, s.id, $1, $6, $4, $5::timestamptz, s.thread_id, jsonb_build_object('head', to_jsonb(h), 'session', to_jsonb(s))
			FROM {schema}.sessions s JOIN heads h ON h.session = s.key
			WHERE s.key = ANY ($3::bigint[])
		)
		UPDATE {schema}.sessions
		SET key = DEFAULT, agent = '', user_id = '', tags = '{}', metadata = '{}', expires_at = NULL, ttl = NULL, sweep_at = NULL,
			trace_parent = '', parent_id = '', root_id = '', thread_id = '', name = '', secret = '', title = '', opening = '', opening_at = 0, words = '',
			archived_at = NULL, created_at = '-infinity'
		WHERE key = ANY ($3::bigint[])`

	sqlPostpone = `UPDATE {schema}.sessions SET sweep_at = $2::timestamptz WHERE key = $1`

	// By sessions_sweep.
	selectStale = `SELECT s.sweep_at, s.id FROM {schema}.sessions s`

	// By removed_roots.
	selectRemoved = `SELECT r.key, r.id, r.incarnation, r.reason, r.removed_at FROM {schema}.removed r`
)

// Remove implements driver.Sweeper. It writes one row for each session of the tree and for each of their calls,
// regardless of their other data.
func (s *Store) Remove(ctx context.Context, root string, why driver.Removal) (removed *driver.Removed, err error) {
	if err := driver.CheckRemoval(why); err != nil {
		return nil, err
	}
	var refused error
	err = s.try(ctx, "remove", once, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			removed, refused = nil, nil
			tree, err := c.lockTree(ctx, root)
			if err != nil {
				return err
			}
			rows := make([]*cairn.Session, len(tree))
			for i, r := range tree {
				rows[i] = r.session
				s.known.Drop(r.session.ID)
			}
			now := tree[0].session.AsOf
			if why == driver.Deleted {
				if _, err := c.findKey(ctx, root); err != nil { // the tree may have expired
					return err
				}
			}
			if err := driver.RemovalConflict(rows, why, now); err != nil {
				if why != driver.Expired {
					return err
				}
				refused = err // the transaction must still commit the next sweep time
				_, err = c.exec(ctx, sqlPostpone, tree[0].key, timestamp(driver.SweepAt(now, rows[0], rows[1:]...)))
				return err
			}
			removed = &driver.Removed{Key: strconv.FormatInt(tree[0].key, 10), SessionID: root, Reason: why, RemovedAt: now,
				Incarnation: rows[0].Incarnation}
			return c.hide(ctx, tree, removed)
		})
	})
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	}
	return removed, nil
}

// lockTree returns the records of a tree's sessions, the root's first. No other writer changes them until the
// transaction ends.
func (c *conn) lockTree(ctx context.Context, root string) ([]*storedRow, error) {
	if _, err := c.exec(ctx, sqlLockTree, root); err != nil {
		return nil, err
	}
	var tree []*storedRow
	err := c.query(ctx, sqlTree, func(rows pgx.Rows) error {
		r := &storedRow{}
		tree = append(tree, r)
		return r.read(rows)
	}, root)
	if err != nil {
		return nil, err
	}
	for i, r := range tree {
		if r.session.ID == root {
			tree[0], tree[i] = r, tree[0]
			return tree, nil
		}
	}
	r, err := c.find(ctx, root)
	if err == nil {
		err = driver.NotRoot(r.session)
	}
	return nil, err
}

// hide hides the sessions of a locked tree and their calls.
func (c *conn) hide(ctx context.Context, tree []*storedRow, removed *driver.Removed) error {
	keys := make([]int64, len(tree))
	for i, r := range tree {
		keys[i] = r.key
	}
	_, err := c.exec(ctx, sqlHide, removed.SessionID, keys[0], keys, string(removed.Reason), removed.RemovedAt, removed.Incarnation)
	return err
}

// staleRoot is a root that may have expired.
type staleRoot struct {
	at time.Time
	id string
}

// Stale implements driver.Sweeper.
func (s *Store) Stale(ctx context.Context, q driver.PageQuery) (driver.Page[string], error) {
	text, args, err := staleStatement(q)
	if err != nil {
		return driver.Page[string]{}, err
	}
	roots, err := readPage(ctx, &s.database, "list stale sessions", text, args, q.Size(), func(rows pgx.Rows) (r staleRoot, err error) {
		err = rows.Scan(&r.at, &r.id)
		return r, err
	}, func(r *staleRoot) string { return driver.SweepCursor(r.at, r.id) }, nil)
	page := driver.Page[string]{Next: roots.Next}
	for _, r := range roots.Items {
		page.Items = append(page.Items, r.id)
	}
	return page, err
}

// staleStatement returns the statement for one page.
func staleStatement(q driver.PageQuery) (text string, args []any, err error) {
	at, id, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return "", nil, err
	}
	f := &filter{}
	f.add("s.sweep_at <= statement_timestamp()")
	if id != "" {
		f.add("(s.sweep_at, s.id) > (?::timestamptz, ?)", at, id)
	}
	return f.page(selectStale, "s.sweep_at, s.id", q.Size()), f.args, nil
}

// Removed implements driver.Sweeper.
func (s *Store) Removed(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[driver.Removed], error) {
	text, args, err := removedStatement(age, q)
	if err != nil {
		return driver.Page[driver.Removed]{}, err
	}
	return readPage(ctx, &s.database, "list removed sessions", text, args, q.Size(), func(rows pgx.Rows) (r driver.Removed, err error) {
		var key int64
		var reason string
		err = rows.Scan(&key, &r.SessionID, &r.Incarnation, &reason, &r.RemovedAt)
		r.Key, r.Reason, r.RemovedAt = strconv.FormatInt(key, 10), driver.Removal(reason), r.RemovedAt.UTC()
		return r, err
	}, func(r *driver.Removed) string { return driver.SweepCursor(r.RemovedAt, r.Key) }, nil)
}

// removedStatement returns the statement for one page.
func removedStatement(age time.Duration, q driver.PageQuery) (text string, args []any, err error) {
	at, id, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return "", nil, err
	}
	f := &filter{}
	f.add("r.root AND r.removed_at <= statement_timestamp() - ?::interval", age)
	if id != "" {
		key, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return "", nil, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
		}
		f.add("(r.removed_at, r.key) > (?::timestamptz, ?::bigint)", at, key)
	}
	return f.page(selectRemoved, "r.removed_at, r.key", q.Size()), f.args, nil
}
