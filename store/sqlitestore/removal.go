package sqlitestore

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var sqlTree = `SELECT` + sessionColumns + `
	FROM sessions s JOIN heads h ON h.session = s.key
	WHERE s.root_id = ?1`

const (
	sqlInsertRemoved = `
		INSERT INTO removed (key, tree, root, id, root_id, incarnation, reason, removed_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`

	sqlPostpone = `UPDATE sessions SET sweep_at = ?2 WHERE key = ?1`

	sqlStale = `
		SELECT sweep_at, id FROM sessions
		WHERE sweep_at > 0 AND sweep_at <= ?1 AND (sweep_at, id) > (?2, ?3)
		ORDER BY sweep_at, id LIMIT ?4`

	sqlRemoved = `
		SELECT key, id, incarnation, reason, removed_at FROM removed
		WHERE root = 1 AND removed_at <= ?1 AND (removed_at, key) > (?2, ?3)
		ORDER BY removed_at, key LIMIT ?4`
)

// sqlHide moves the sessions of a tree, given the root's id, out of the tables in which sessions and calls are found.
var sqlHide = []string{
	`INSERT INTO removed_sessions SELECT * FROM sessions WHERE root_id = ?1`,
	`INSERT INTO removed_heads SELECT * FROM heads WHERE session IN (SELECT key FROM sessions WHERE root_id = ?1)`,
	`INSERT INTO removed_calls SELECT * FROM calls WHERE root_id = ?1`,
	`INSERT INTO removed_assignments SELECT * FROM assignments WHERE call IN (SELECT key FROM calls WHERE root_id = ?1)`,
	`DELETE FROM assignments WHERE call IN (SELECT key FROM calls WHERE root_id = ?1)`,
	`DELETE FROM calls WHERE root_id = ?1`,
	`DELETE FROM heads WHERE session IN (SELECT key FROM sessions WHERE root_id = ?1)`,
	`DELETE FROM sessions WHERE root_id = ?1`,
}

// Remove implements driver.Store. It writes a few rows for each session of the tree, however much the session owns.
func (s *Store) Remove(ctx context.Context, root string, why driver.Removal) (removed *driver.Removed, err error) {
	err = s.looking(ctx, func() error {
		removed, err = s.remove(ctx, root, why)
		return err
	})
	return removed, err
}

// remove is Remove, except that a tree to be deleted that may have expired is an error, which the caller handles.
func (s *Store) remove(ctx context.Context, root string, why driver.Removal) (*driver.Removed, error) {
	if err := driver.CheckRemoval(why); err != nil {
		return nil, err
	}
	var removed *driver.Removed
	var refused error
	err := s.writer.do(&job{ctx: ctx, durable: true, run: func(c *conn) error {
		removed, refused = nil, nil
		tree, err := findTree(c, root)
		if err != nil {
			return err
		}
		if why == driver.Deleted {
			if err := c.overdueAt(nil, root, tree[0].sweep); err != nil {
				return err
			}
		}
		rows := make([]*cairn.Session, len(tree))
		for i, r := range tree {
			rows[i] = r.session
		}
		now := s.clock()
		if err := driver.RemovalConflict(rows, why, now); err != nil {
			if why != driver.Expired {
				return err
			}
			refused = err // it has not expired: record when to look again
			_, err = c.exec(sqlPostpone, tree[0].key, micros(driver.SweepAt(now, rows[0], rows[1:]...)))
			return err
		}
		removed = &driver.Removed{Key: strconv.FormatInt(tree[0].key, 10), SessionID: root, Reason: why, RemovedAt: now,
			Incarnation: rows[0].Incarnation}
		return hide(c, tree, removed)
	}})
	switch {
	case err != nil:
		return nil, fault("remove", err)
	case refused != nil:
		return nil, refused
	}
	return removed, nil
}

// findTree returns the records of a tree's sessions, that of the root first.
func findTree(c *conn, root string) ([]*storedRow, error) {
	r, err := findAny(c, root)
	if err != nil {
		return nil, err
	}
	if r.session.RootID != root {
		return nil, driver.NotRoot(r.session)
	}
	tree := []*storedRow{r}
	err = c.query(context.Background(), sqlTree, func(cols *columns) bool {
		if other := readSession(cols); other.key != r.key {
			other.session.AsOf = r.session.AsOf
			tree = append(tree, other)
		}
		return true
	}, root)
	return tree, err
}

// hide hides the sessions of a tree and their calls.
func hide(c *conn, tree []*storedRow, removed *driver.Removed) error {
	for i, r := range tree {
		if _, err := c.exec(sqlInsertRemoved, r.key, tree[0].key, i == 0, r.session.ID, removed.SessionID, removed.Incarnation,
			string(removed.Reason), micros(removed.RemovedAt)); err != nil {
			return err
		}
	}
	for _, text := range sqlHide {
		if _, err := c.exec(text, removed.SessionID); err != nil {
			return err
		}
	}
	return nil
}

// Stale implements driver.Store.
func (s *Store) Stale(ctx context.Context, q driver.PageQuery) (driver.Page[string], error) {
	var page driver.Page[string]
	at, id, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	err = s.readers.read(ctx, func(c *conn) error {
		return c.query(ctx, sqlStale, func(cols *columns) bool {
			if len(page.Items) == q.Size() {
				page.Next = driver.SweepCursor(at, id)
				return false
			}
			at, id = cols.time(), cols.text()
			page.Items = append(page.Items, id)
			return true
		}, micros(s.clock()), micros(at), id, q.Size()+1)
	})
	if err != nil {
		return driver.Page[string]{}, err
	}
	return page, nil
}

// Removed implements driver.Store.
func (s *Store) Removed(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[driver.Removed], error) {
	var page driver.Page[driver.Removed]
	at, id, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	var key int64
	if id != "" {
		if key, err = strconv.ParseInt(id, 10, 64); err != nil {
			return page, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
		}
	}
	err = s.readers.read(ctx, func(c *conn) error {
		return c.query(ctx, sqlRemoved, func(cols *columns) bool {
			if n := len(page.Items); n == q.Size() {
				page.Next = driver.SweepCursor(page.Items[n-1].RemovedAt, page.Items[n-1].Key)
				return false
			}
			page.Items = append(page.Items, driver.Removed{Key: strconv.FormatInt(cols.int64(), 10), SessionID: cols.text(),
				Incarnation: cols.text(), Reason: driver.Removal(cols.text()), RemovedAt: cols.time()})
			return true
		}, micros(s.clock().Add(-age)), micros(at), key, q.Size()+1)
	})
	if err != nil {
		return driver.Page[driver.Removed]{}, err
	}
	return page, nil
}

// looking repeats an operation as long as it finds roots that may have expired. It removes those that have.
func (s *Store) looking(ctx context.Context, do func() error) error {
	return backend.Look(ctx, func(ctx context.Context, root string) error {
		_, err := s.remove(ctx, root, driver.Expired)
		return err
	}, do)
}
