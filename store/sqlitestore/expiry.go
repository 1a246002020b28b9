package sqlitestore

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlRestored = `UPDATE heads SET version = ?2, updated_at = ?3 WHERE session = ?1`

	sqlRestoredRoot = `UPDATE sessions SET expires_at = ?2, sweep_at = ?3 WHERE key = ?1`
)

// callColumns are the columns of calls without the key, which may have been given to another call.
const callColumns = `session, root_id, id, step_id, user_id, agent, tool, kind, status, assigned, claimed_by, claimed_until,
	deadline, created_at, version, data`

// sqlRestore moves the sessions of a removed tree, given the key of its root, back to the tables in which sessions and
// calls are found.
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

// Restore implements driver.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (row *cairn.Session, err error) {
	err = s.writer.write(ctx, true, func(c *conn) error {
		there, err := find(c, root)
		var removed *driver.GoneError
		switch {
		case err == nil && there.session.RootID != root:
			return driver.NotRoot(there.session)
		case err == nil:
			return driver.Conflict(cairn.ErrExists, there.session, "session %q already exists", root)
		case !errors.As(err, &removed):
			return err
		case removed.Removed.SessionID != root:
			return driver.NotRoot(&cairn.Session{ID: root, RootID: removed.Removed.SessionID})
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

// revive updates the row of a root that was moved back. A restored root has a new version and expiry.
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
	driver.Revive(row, now)
	if _, err := c.exec(sqlRestored, tree[0].key, row.Version, micros(row.UpdatedAt)); err != nil {
		return nil, err
	}
	_, err = c.exec(sqlRestoredRoot, tree[0].key, micros(row.ExpiresAt), micros(driver.SweepAt(now, row, rows[1:]...)))
	return row, err
}
