package pgstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By removed_tree. The lock serializes concurrent restores and purges of a tree.
	sqlLockRemoved = `SELECT id FROM {schema}.removed WHERE tree = $1 ORDER BY key FOR UPDATE`

	sqlFreeNames = `
		DELETE FROM {schema}.sessions
		WHERE id = ANY (ARRAY(SELECT id FROM {schema}.removed WHERE tree = $1))`

	sqlUnhide = `
		WITH back AS (
			DELETE FROM {schema}.removed WHERE tree = $1 RETURNING key, data
		), heads AS (
			INSERT INTO {schema}.heads SELECT (jsonb_populate_record(NULL::{schema}.heads, data -> 'head')).* FROM back
		), kept AS (
			DELETE FROM {schema}.removed_calls c USING back WHERE c.session = back.key RETURNING c.data
		), calls AS (
			INSERT INTO {schema}.calls SELECT (jsonb_populate_record(NULL::{schema}.calls, data)).* FROM kept
			RETURNING root_id, id, created_at, status, reviewers
		), assigned AS (
			INSERT INTO {schema}.assignments (reviewer, created_at, root_id, id)
			SELECT DISTINCT r.reviewer, c.created_at, c.root_id, c.id
			FROM calls c, jsonb_array_elements_text(c.reviewers) r (reviewer)
			WHERE c.status = 'open'
		)
		INSERT INTO {schema}.sessions OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(NULL::{schema}.sessions, data -> 'session')).* FROM back`

	sqlRestored = `UPDATE {schema}.heads SET version = $2, updated_at = $3::timestamptz, data = $4 WHERE session = $1`

	sqlRestoredRoot = `
		UPDATE {schema}.sessions SET expires_at = $2::timestamptz, sweep_at = $3::timestamptz WHERE key = $1`
)

// Restore implements driver.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (row *cairn.Session, err error) {
	err = s.try(ctx, "restore", once, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			row, err = c.restore(ctx, root)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}

func (c *conn) restore(ctx context.Context, root string) (*cairn.Session, error) {
	for late := false; ; late = true {
		there, err := c.find(ctx, root)
		var gone *driver.GoneError
		switch {
		case !late && errors.Is(err, cairn.ErrNotFound) && !driver.IsGone(err): // another process may have restored it between two reads
			continue
		case err == nil && there.session.RootID != root:
			return nil, driver.NotRoot(there.session)
		case err == nil:
			return nil, driver.Conflict(cairn.ErrExists, there.session, "session %q already exists", root)
		case !errors.As(err, &gone):
			return nil, err
		case gone.Removed.SessionID != root:
			return nil, driver.NotRoot(&cairn.Session{ID: root, RootID: gone.Removed.SessionID})
		}
		tree, err := strconv.ParseInt(gone.Removed.Key, 10, 64)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "decode stored key %q of a removal", gone.Removed.Key)
		}
		var ids []string
		err = c.query(ctx, sqlLockRemoved, func(rows pgx.Rows) error {
			var id string
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, tree)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 { // another process was faster
			continue
		}
		for _, id := range ids {
			c.db.known.Drop(id)
		}
		if _, err := c.exec(ctx, sqlFreeNames, tree); err != nil {
			return nil, err
		}
		if _, err := c.exec(ctx, sqlUnhide, tree); err != nil {
			return nil, err
		}
		return c.revive(ctx, root)
	}
}

// revive applies driver.Revive to the row of a root that was put back, with the next sweep time, and returns the row.
func (c *conn) revive(ctx context.Context, root string) (*cairn.Session, error) {
	tree, err := c.lockTree(ctx, root)
	if err != nil {
		return nil, err
	}
	rows := make([]*cairn.Session, len(tree))
	for i, r := range tree {
		rows[i] = r.session
	}
	row, now := rows[0], tree[0].session.AsOf
	driver.Revive(row, now)
	data, err := encodeHead(row, tree[0].checkpoints) // with the times of its outbox, see dateOutbox
	if err != nil {
		return nil, err
	}
	if _, err := c.exec(ctx, sqlRestored, tree[0].key, row.Version, timestamp(row.UpdatedAt), data); err != nil {
		return nil, err
	}
	at := driver.SweepAt(now, row, rows[1:]...)
	_, err = c.exec(ctx, sqlRestoredRoot, tree[0].key, timestamp(row.ExpiresAt), timestamp(at.Truncate(time.Microsecond)))
	return row, err
}
