package pgstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
)

const (
	// By heads_active. A lease that was released has no end: it ran out before all others.
	sqlCrashed = `
		SELECT s.id, s.root_id, s.agent, 'crashed', h.since
		FROM (
			SELECT session, lease_until AS since FROM {schema}.heads
			WHERE status = 'active' AND (lease_until IS NULL OR lease_until <= statement_timestamp())
			ORDER BY lease_until NULLS FIRST
			LIMIT $1) h
			JOIN {schema}.sessions s ON s.key = h.session`

	// By heads_due.
	sqlWaiting = `
		SELECT s.id, s.root_id, s.agent, h.due, h.since
		FROM (
			SELECT session, due, due_at AS since FROM {schema}.heads
			WHERE due_at <= statement_timestamp()
			ORDER BY due_at
			LIMIT $1) h
			JOIN {schema}.sessions s ON s.key = h.session`
)

// Due implements store.Store.
func (s *Store) Due(ctx context.Context, limit int) ([]store.Due, error) {
	limit = max(limit, 0)
	var list []store.Due
	read := func(rows pgx.Rows) error {
		var d store.Due
		var kind string
		var since *time.Time
		err := rows.Scan(&d.SessionID, &d.RootID, &d.Agent, &kind, &since)
		d.Kind, d.Since = store.DueKind(kind), instant(since)
		list = append(list, d)
		return err
	}
	err := s.try(ctx, "look for due sessions", reads, func(ctx context.Context, c *conn) error {
		list = nil
		return c.view(ctx, reading{sqlCrashed, []any{limit}, read}, reading{sqlWaiting, []any{limit}, read})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.Due) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.SessionID, b.SessionID))
	})
	return list[:min(len(list), limit)], nil
}
