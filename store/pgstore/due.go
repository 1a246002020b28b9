package pgstore

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By heads_active.
	sqlCrashed = `
		SELECT s.id, s.root_id, h.agent, 'crashed' AS due, h.lease_until AS since
		FROM {schema}.heads h JOIN {schema}.sessions s ON s.key = h.session
		WHERE h.status = 'active' AND h.agent = a.agent AND h.lease_until >= $2::timestamptz AND NOT (` + leaseHeld + `)
			AND (h.lease_until, s.id) > ($2::timestamptz, $3::text)
		ORDER BY h.lease_until, s.id
		LIMIT $4`

	// By heads_due.
	sqlWaiting = `
		SELECT s.id, s.root_id, h.agent, h.due, h.due_at AS since
		FROM {schema}.heads h JOIN {schema}.sessions s ON s.key = h.session
		WHERE h.agent = a.agent AND h.due_at BETWEEN $2::timestamptz AND statement_timestamp()
			AND (h.due_at, s.id) > ($2::timestamptz, $3::text)
		ORDER BY h.due_at, s.id
		LIMIT $4`

	// By heads_ready. These became due before the clock was set back.
	sqlReady = `
		SELECT s.id, s.root_id, h.agent, h.due, h.due_at AS since
		FROM {schema}.heads h JOIN {schema}.sessions s ON s.key = h.session
		WHERE h.agent = a.agent AND h.due IN ('ending', 'ready', 'queued', 'outbox') AND h.due_at > greatest($2::timestamptz, statement_timestamp())
			AND (h.due_at, s.id) > ($2::timestamptz, $3::text)
		ORDER BY h.due_at, s.id
		LIMIT $4`

	sqlAgents = `unnest($1::text[]) a (agent)`

	// By both.
	sqlDueAgents = `(
			SELECT agent FROM {schema}.heads WHERE status = 'active' AND $1::text[] IS NULL
			UNION SELECT agent FROM {schema}.heads WHERE due_at IS NOT NULL) a`
)

// dueStatement lists the due sessions of each agent by one of the statements above.
func dueStatement(agents, what string) string {
	return `SELECT d.* FROM ` + agents + `, LATERAL (` + what + `) d`
}

// Due implements driver.Store.
func (s *Store) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	after, id, err := driver.ParseDueCursor(q.Cursor)
	if err != nil {
		return driver.Page[driver.Due]{}, err
	}
	var list []driver.Due
	read := func(rows pgx.Rows) error {
		var d driver.Due
		var kind string
		err := rows.Scan(&d.SessionID, &d.RootID, &d.Agent, &kind, &d.Since)
		d.Kind, d.Since = driver.DueKind(kind), d.Since.UTC()
		list = append(list, d)
		return err
	}
	agents := sqlAgents
	if q.Agents == nil {
		agents = sqlDueAgents
	}
	args := []any{q.Agents, after, id, driver.PageSize(q.Limit)}
	err = s.try(ctx, "look for due sessions", reads, func(ctx context.Context, c *conn) error {
		list = nil
		err := c.view(ctx, reading{dueStatement(agents, sqlCrashed), args, read}, reading{dueStatement(agents, sqlWaiting), args, read},
			reading{dueStatement(agents, sqlReady), args, read})
		if err == nil {
			err = overdueOf(ctx, c, list, func(d *driver.Due) string { return d.RootID })
		}
		return err
	})
	if err != nil {
		return driver.Page[driver.Due]{}, err
	}
	return driver.DuePage(list, q.Limit), nil
}
