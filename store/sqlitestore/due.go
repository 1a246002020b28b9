package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// dueColumns are the columns that readDue reads before the time since when a session is due.
const dueColumns = ` s.id, s.root_id, h.agent, h.status, h.wait,`

const (
	// By heads_active.
	sqlCrashed = `SELECT` + dueColumns + ` h.lease_until
		FROM heads h JOIN sessions s ON s.key = h.session
		WHERE h.status = 'active' AND h.agent = ?2 AND (h.lease_until <= ?1 OR ` + leaseAhead + `) AND (h.lease_until, s.id) > (?4, ?5)
		ORDER BY h.lease_until, s.id LIMIT ?3`

	// By heads_due.
	sqlWaiting = `SELECT` + dueColumns + ` h.due_at
		FROM heads h JOIN sessions s ON s.key = h.session
		WHERE h.agent = ?2 AND h.due_at > 0 AND h.due_at BETWEEN ?4 AND ?1 AND (h.due_at, s.id) > (?4, ?5)
		ORDER BY h.due_at, s.id LIMIT ?3`

	// By heads_ready. These became due before the clock was set back.
	sqlReady = `SELECT` + dueColumns + ` h.due_at
		FROM heads h JOIN sessions s ON s.key = h.session
		WHERE h.agent = ?2 AND h.due_at > 0 AND (h.status <> 'paused' OR h.wait ->> '$.open' IS NULL OR h.wait ->> '$.ending' IS NOT NULL
				OR h.wait ->> '$.outbox' IS NOT NULL)
			AND h.due_at > ?1 AND (h.due_at, s.id) > (?4, ?5)
		ORDER BY h.due_at, s.id LIMIT ?3`

	// leaseAhead is cairn.Lease.Ahead at the time ?1.
	leaseAhead = `h.lease_ttl > 0 AND h.lease_until > ?1 + 2 * h.lease_ttl`

	// By both, one index lookup per agent, however many sessions it has.
	sqlDueAgents = `
		WITH RECURSIVE active(agent) AS (
			SELECT min(agent) FROM heads WHERE status = 'active'
			UNION ALL
			SELECT (SELECT min(agent) FROM heads WHERE status = 'active' AND agent > active.agent) FROM active WHERE agent IS NOT NULL),
		due(agent) AS (
			SELECT min(agent) FROM heads WHERE due_at > 0
			UNION ALL
			SELECT (SELECT min(agent) FROM heads WHERE due_at > 0 AND agent > due.agent) FROM due WHERE agent IS NOT NULL)
		SELECT agent FROM active WHERE agent IS NOT NULL
		UNION SELECT agent FROM due WHERE agent IS NOT NULL`
)

func readDue(c *columns) driver.Due {
	row := cairn.Session{ID: c.text(), RootID: c.text(), Agent: c.text(), Status: cairn.SessionStatus(c.text())}
	readWait(c, &row)
	kind := driver.DueKindOf(&row)
	if row.Status == cairn.SessionActive {
		kind = driver.DueCrashed
	}
	return driver.Due{SessionID: row.ID, RootID: row.RootID, Agent: row.Agent, Kind: kind, Since: c.time()}
}

// Due implements driver.Store.
func (s *Store) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	since, id, err := driver.ParseDueCursor(q.Cursor)
	if err != nil {
		return driver.Page[driver.Due]{}, err
	}
	now := micros(s.clock())
	var list []driver.Due
	err = s.readers.view(ctx, func(c *conn) error {
		list = nil
		agents := q.Agents
		if agents == nil {
			err := c.query(ctx, sqlDueAgents, func(cols *columns) bool {
				agents = append(agents, cols.text())
				return true
			})
			if err != nil {
				return err
			}
		}
		for _, agent := range agents {
			for _, text := range []string{sqlCrashed, sqlWaiting, sqlReady} {
				err := c.query(ctx, text, func(cols *columns) bool {
					list = append(list, readDue(cols))
					return true
				}, now, agent, driver.PageSize(q.Limit), micros(since), id)
				if err != nil {
					return err
				}
			}
		}
		return overdueOf(c, list, func(d *driver.Due) string { return d.RootID })
	})
	if err != nil {
		return driver.Page[driver.Due]{}, err
	}
	return driver.DuePage(list, q.Limit), nil
}
