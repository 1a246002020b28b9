package pgstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By sessions_id, twice.
	sqlFind = `
		SELECT s.key, s.root_id, coalesce(r.sweep_at <= statement_timestamp(), FALSE)
		FROM {schema}.sessions s LEFT JOIN {schema}.sessions r ON r.id = s.root_id
		WHERE s.id = $1 AND s.root_id <> ''`

	// By sessions_id.
	sqlOverdue = `SELECT id FROM {schema}.sessions WHERE id = ANY ($1::text[]) AND sweep_at <= statement_timestamp()`

	// By removed_id.
	sqlGone = `SELECT tree, root_id, incarnation, reason, removed_at FROM {schema}.removed WHERE id = $1`
)

// found is the key and root of a session, and whether it may have expired.
type found struct {
	key  int64 // 0 for none
	root string
	over bool
}

func (f *found) read(rows pgx.Rows) error { return rows.Scan(&f.key, &f.root, &f.over) }

// check returns why a session cannot be read, or nil.
func (f *found) check(ctx context.Context, c *conn, id string) error {
	switch {
	case f.key == 0:
		return c.gone(ctx, id)
	case f.over:
		return &backend.Overdue{Roots: []string{f.root}}
	}
	return nil
}

// owned runs a statement about a session, whose id is its first argument, and checks in the same round trip that the
// session exists.
func (c *conn) owned(ctx context.Context, id, text string, each func(pgx.Rows) error, args ...any) error {
	var f found
	err := c.view(ctx, reading{sqlFind, []any{id}, f.read}, reading{text, append([]any{id}, args...), each})
	if err == nil {
		err = f.check(ctx, c, id)
	}
	return err
}

// findKey returns the key of a session. The error is ErrNotFound if it does not exist, and Overdue if it may have
// expired.
func (c *conn) findKey(ctx context.Context, id string) (int64, error) {
	var f found
	err := c.query(ctx, sqlFind, f.read, id)
	if err == nil {
		err = f.check(ctx, c, id)
	}
	return f.key, err
}

// overdueOf returns the error for the items of a list that belong to roots that may have expired, or nil.
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

// gone returns the error for a session that has no row: it was removed, or it does not exist.
func (c *conn) gone(ctx context.Context, id string) error {
	var tree int64
	var reason string
	var r driver.Removed
	found, err := c.row(ctx, sqlGone, []any{&tree, &r.SessionID, &r.Incarnation, &reason, &r.RemovedAt}, id)
	switch {
	case err != nil:
		return err
	case !found:
		return driver.NotFound(id)
	}
	r.Key, r.Reason, r.RemovedAt = strconv.FormatInt(tree, 10), driver.Removal(reason), r.RemovedAt.UTC()
	return driver.Gone(id, r)
}
