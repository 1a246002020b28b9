package sqlitestore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// dueColumns are the columns that readDue reads before the time since when a session is due.
const dueColumns = ` s.id, s.root_id, s.agent, h.status, h.wait,`

const (
	sqlCrashed = `SELECT` + dueColumns + ` h.lease_until
		FROM heads h JOIN sessions s ON s.key = h.session
		WHERE h.status = 'active' AND h.lease_until <= ?1
		ORDER BY h.lease_until, s.id LIMIT ?2`

	sqlWaiting = `SELECT` + dueColumns + ` h.due_at
		FROM heads h JOIN sessions s ON s.key = h.session
		WHERE h.due_at > 0 AND h.due_at <= ?1
		ORDER BY h.due_at LIMIT ?2`
)

// dueAt returns the time from which a session, whose record was before, is due in its stored form.
func (r *record) dueAt(before *record) int64 {
	switch kind := store.DueKindOf(r.session); {
	case kind == "":
		return 0
	case kind == store.DueDeadline:
		return micros(r.session.NextDeadline)
	case kind == store.DueKindOf(before.session):
		return before.wait.Due
	}
	return micros(r.session.UpdatedAt)
}

func readDue(c *columns) store.Due {
	row := cairn.Session{ID: c.text(), RootID: c.text(), Agent: c.text(), Status: cairn.SessionStatus(c.text())}
	readWait(c, &row)
	kind := store.DueKindOf(&row)
	if row.Status == cairn.SessionActive {
		kind = store.DueCrashed
	}
	return store.Due{SessionID: row.ID, RootID: row.RootID, Agent: row.Agent, Kind: kind, Since: c.time()}
}

// Due implements store.Store.
func (s *Store) Due(ctx context.Context, limit int) ([]store.Due, error) {
	limit = max(limit, 0)
	now := micros(s.clock())
	var list []store.Due
	err := s.readers.view(ctx, func(c *conn) error {
		for _, text := range []string{sqlCrashed, sqlWaiting} {
			err := c.query(ctx, text, func(cols *columns) bool {
				list = append(list, readDue(cols))
				return true
			}, now, limit)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.Due) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.SessionID, b.SessionID))
	})
	return list[:min(len(list), limit)], nil
}
