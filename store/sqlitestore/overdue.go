package sqlitestore

import (
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// sqlOverdue returns the time from which a root may have expired.
const sqlOverdue = `SELECT sweep_at FROM sessions WHERE id = ?1`

const sqlGone = `SELECT tree, root_id, incarnation, reason, removed_at FROM removed WHERE id = ?1`

// overdueAt returns the error for a session whose root may have expired from the time sweep on, or nil before that. A
// held session has not expired.
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

// overdueOf returns the error for the items of a list whose roots may have expired, or nil.
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

// gone returns the error for a missing session: it was removed, or it never existed.
func gone(c *conn, id string) error {
	err := driver.NotFound(id)
	_, broken := c.row(sqlGone, func(cols *columns) {
		err = driver.Gone(id, driver.Removed{Key: fmt.Sprint(cols.int64()), SessionID: cols.text(), Incarnation: cols.text(),
			Reason: driver.Removal(cols.text()), RemovedAt: cols.time()})
	}, id)
	if broken != nil {
		return broken
	}
	return err
}
