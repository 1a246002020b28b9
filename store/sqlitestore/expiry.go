package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
)

// sqlOverdue says from when on it is worth looking whether a root has expired.
const sqlOverdue = `SELECT sweep_at FROM sessions WHERE id = ?1`

// overdueAt returns the error for a session of a root that may have expired from the time sweep on; nil if that has not
// come. A session that is held has not expired.
func (c *conn) overdueAt(s *cairn.Session, root string, sweep int64) error {
	if sweep == 0 {
		return nil
	}
	now := c.clock()
	if sweep > micros(now) || s != nil && s.Running(now) {
		return nil
	}
	return &backend.Overdue{Roots: []string{root}}
}

// overdueOf returns the error for those of a list that belong to roots that may have expired, or nil.
func overdueOf[T any](c *conn, list []T, root func(*T) string) error {
	found, seen := &backend.Overdue{}, map[string]bool{}
	for i := range list {
		id := root(&list[i])
		if seen[id] {
			continue
		}
		seen[id] = true
		var at int64
		if _, err := c.row(sqlOverdue, func(cols *columns) { at = cols.int64() }, id); err != nil {
			return err
		}
		if at > 0 && at <= micros(c.clock()) {
			found.Roots = append(found.Roots, id)
		}
	}
	if len(found.Roots) > 0 {
		return found
	}
	return nil
}

// looking repeats an operation as long as that finds roots that may have expired. It removes those that have.
func (s *Store) looking(ctx context.Context, do func() error) error {
	return backend.Look(ctx, func(ctx context.Context, root string) error {
		_, err := s.remove(ctx, root, store.Expired)
		return err
	}, do)
}

// gone returns the error for a session that is not there: it was removed, or there is none.
func gone(c *conn, id string) error {
	err := store.NotFound(id)
	_, broken := c.row(sqlGone, func(cols *columns) {
		err = store.Gone(id, store.Removed{Key: fmt.Sprint(cols.int64()), SessionID: cols.text(), Incarnation: cols.text(),
			Reason: store.Removal(cols.text()), RemovedAt: cols.time()})
	}, id)
	if broken != nil {
		return broken
	}
	return err
}

const (
	sqlGone = `SELECT tree, root_id, incarnation, reason, removed_at FROM removed WHERE id = ?1`

	sqlRestored = `UPDATE heads SET version = ?2, updated_at = ?3 WHERE session = ?1`

	sqlRestoredRoot = `UPDATE sessions SET expires_at = ?2, sweep_at = ?3 WHERE key = ?1`
)

// callColumns are those of calls but for the key, which may have been given to another call.
const callColumns = `session, root_id, id, step_id, user_id, agent, tool, kind, status, assigned, claimed_by, claimed_until,
	deadline, created_at, version, data`

// sqlRestore puts the sessions of a removed tree, by the key of its root, where sessions and calls are found.
var sqlRestore = []string{
	`INSERT INTO sessions SELECT * FROM removed_sessions WHERE key IN (SELECT key FROM removed WHERE tree = ?1)`,
	`INSERT INTO heads SELECT * FROM removed_heads WHERE session IN (SELECT key FROM removed WHERE tree = ?1)`,
	`INSERT INTO calls (` + callColumns + `)
		SELECT ` + callColumns + ` FROM removed_calls WHERE session IN (SELECT key FROM removed WHERE tree = ?1)`,
	`INSERT INTO assignments (reviewer, created_at, root_id, id, call)
		SELECT a.reviewer, a.created_at, a.root_id, a.id, c.key
		FROM removed r
			JOIN removed_assignments a ON a.root_id = r.id
			JOIN calls c ON c.root_id = a.root_id AND c.id = a.id
		WHERE r.key = ?1`,
	`DELETE FROM removed_assignments WHERE root_id = (SELECT id FROM removed WHERE key = ?1)`,
	`DELETE FROM removed_calls WHERE session IN (SELECT key FROM removed WHERE tree = ?1)`,
	`DELETE FROM removed_heads WHERE session IN (SELECT key FROM removed WHERE tree = ?1)`,
	`DELETE FROM removed_sessions WHERE key IN (SELECT key FROM removed WHERE tree = ?1)`,
	`DELETE FROM removed WHERE tree = ?1`,
}

// Restore implements store.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (row *cairn.Session, err error) {
	err = s.writer.write(ctx, true, func(c *conn) error {
		there, err := find(c, root)
		var removed *store.GoneError
		switch {
		case err == nil && there.session.RootID != root:
			return store.NotRoot(there.session)
		case err == nil:
			return store.Conflict(cairn.CodeExists, there.session, "session %q is there", root)
		case !errors.As(err, &removed):
			return err
		case removed.Removed.SessionID != root:
			return store.NotRoot(&cairn.Session{ID: root, RootID: removed.Removed.SessionID})
		}
		for _, text := range sqlRestore {
			if _, err := c.exec(text, removed.Removed.Key); err != nil {
				return err
			}
		}
		row, err = revive(c, root, s.clock())
		return err
	})
	if err != nil {
		return nil, fault("restore", err)
	}
	return row, nil
}

// revive updates the row of a root that was put back to that of a restored root.
func revive(c *conn, root string, now time.Time) (*cairn.Session, error) {
	tree, err := findTree(c, root)
	if err != nil {
		return nil, err
	}
	rows := make([]*cairn.Session, len(tree))
	for i, r := range tree {
		rows[i] = r.session
	}
	row := rows[0]
	store.Revive(row, now)
	if _, err := c.exec(sqlRestored, tree[0].key, row.Version, micros(row.UpdatedAt)); err != nil {
		return nil, err
	}
	_, err = c.exec(sqlRestoredRoot, tree[0].key, micros(row.ExpiresAt), micros(store.SweepAt(now, row, rows[1:]...)))
	return row, err
}
