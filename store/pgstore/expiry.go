package pgstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/jackc/pgx/v5"
)

const (
	// By sessions_id, twice.
	sqlStanding = `
		SELECT s.key, s.root_id, coalesce(r.sweep_at <= statement_timestamp(), FALSE)
		FROM {schema}.sessions s LEFT JOIN {schema}.sessions r ON r.id = s.root_id
		WHERE s.id = $1 AND s.root_id <> ''`

	// By sessions_id.
	sqlOverdue = `SELECT id FROM {schema}.sessions WHERE id = ANY ($1::text[]) AND sweep_at <= statement_timestamp()`

	// By removed_id.
	sqlGone = `SELECT tree, root_id, incarnation, reason, removed_at FROM {schema}.removed WHERE id = $1`

	// By removed_tree. Concurrent restores and purges of a tree take turns.
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

	sqlRestored = `UPDATE {schema}.heads SET version = $2, updated_at = $3::timestamptz WHERE session = $1`

	sqlRestoredRoot = `
		UPDATE {schema}.sessions SET expires_at = $2::timestamptz, sweep_at = $3::timestamptz WHERE key = $1`
)

// looking repeats an operation as long as that finds roots that may have expired. It removes those that have.
func (s *Store) looking(ctx context.Context, do func() error) error {
	return backend.Look(ctx, func(ctx context.Context, root string) error {
		_, err := s.Remove(ctx, root, store.Expired)
		return err
	}, do)
}

// standing is where a session is found, and whether it may have expired.
type standing struct {
	key  int64 // 0 for none
	root string
	over bool
}

func (st *standing) read(rows pgx.Rows) error { return rows.Scan(&st.key, &st.root, &st.over) }

// check returns why a session cannot be read, or nil.
func (st *standing) check(ctx context.Context, c *conn, id string) error {
	switch {
	case st.key == 0:
		return c.gone(ctx, id)
	case st.over:
		return &backend.Overdue{Roots: []string{st.root}}
	}
	return nil
}

// owned runs a statement about a session, whose id is its first argument, in one round trip with the question whether
// there is such a session.
func (c *conn) owned(ctx context.Context, id, text string, each func(pgx.Rows) error, args ...any) error {
	var st standing
	err := c.view(ctx, reading{sqlStanding, []any{id}, st.read}, reading{text, append([]any{id}, args...), each})
	if err == nil {
		err = st.check(ctx, c, id)
	}
	return err
}

// findKey returns the key of a session; the error is ErrNotFound if there is none, and overdue if it may have expired.
func (c *conn) findKey(ctx context.Context, id string) (int64, error) {
	var st standing
	err := c.query(ctx, sqlStanding, st.read, id)
	if err == nil {
		err = st.check(ctx, c, id)
	}
	return st.key, err
}

// overdueOf returns the error for those of a list that belong to roots that may have expired, or nil.
func overdueOf[T any](ctx context.Context, c *conn, list []T, root func(*T) string) error {
	if len(list) == 0 {
		return nil
	}
	var roots []string
	for i := range list {
		roots = append(roots, root(&list[i]))
	}
	slices.Sort(roots)
	found := &backend.Overdue{}
	err := c.query(ctx, sqlOverdue, func(rows pgx.Rows) error {
		var id string
		err := rows.Scan(&id)
		found.Roots = append(found.Roots, id)
		return err
	}, slices.Compact(roots))
	if err == nil && len(found.Roots) > 0 {
		err = found
	}
	return err
}

// gone returns the error for a session that is not there: it was removed, or there is none.
func (c *conn) gone(ctx context.Context, id string) error {
	var tree int64
	var reason string
	var r store.Removed
	found, err := c.row(ctx, sqlGone, []any{&tree, &r.SessionID, &r.Incarnation, &reason, &r.RemovedAt}, id)
	switch {
	case err != nil:
		return err
	case !found:
		return store.NotFound(id)
	}
	r.Key, r.Reason, r.RemovedAt = strconv.FormatInt(tree, 10), store.Removal(reason), r.RemovedAt.UTC()
	return store.Gone(id, r)
}

// Restore implements store.Sweeper.
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
		var gone *store.GoneError
		switch {
		case !late && errors.Is(err, cairn.ErrNotFound) && !store.IsGone(err): // or another process restored it between two looks
			continue
		case err == nil && there.session.RootID != root:
			return nil, store.NotRoot(there.session)
		case err == nil:
			return nil, store.Conflict(cairn.CodeExists, there.session, "session %q is there", root)
		case !errors.As(err, &gone):
			return nil, err
		case gone.Removed.SessionID != root:
			return nil, store.NotRoot(&cairn.Session{ID: root, RootID: gone.Removed.SessionID})
		}
		tree, err := strconv.ParseInt(gone.Removed.Key, 10, 64)
		if err != nil {
			return nil, cairn.Errorf(cairn.CodeCorrupt, "stored key %q of a removal does not decode", gone.Removed.Key)
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
			c.s.known.Drop(id)
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

// revive updates the row of a root that was put back to that of a restored root.
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
	store.Revive(row, now)
	if _, err := c.exec(ctx, sqlRestored, tree[0].key, row.Version, timestamp(row.UpdatedAt)); err != nil {
		return nil, err
	}
	at := store.SweepAt(now, row, rows[1:]...)
	_, err = c.exec(ctx, sqlRestoredRoot, tree[0].key, timestamp(row.ExpiresAt), timestamp(at.Truncate(time.Microsecond)))
	return row, err
}
