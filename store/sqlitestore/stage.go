package sqlitestore

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlStage = `
		INSERT INTO staged (session, step_id, key, data) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO NOTHING`

	sqlStaged = `SELECT step_id, key, data FROM staged WHERE session = ?1 ORDER BY number`

	sqlStagedOfStep = `SELECT step_id, key, data FROM staged WHERE session = ?1 AND step_id = ?2 ORDER BY number`

	sqlDropStaged = `DELETE FROM staged WHERE session = ?1`
)

// Stage implements driver.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := driver.ValidateStaged(pieces); err != nil {
		return err
	}
	err := s.writer.write(ctx, true, func(c *conn) error {
		r, err := find(c, id)
		if err != nil {
			return err
		}
		if err := plan.Ended(r.session, token); err != nil {
			return err
		}
		for _, p := range pieces {
			if _, err := c.exec(sqlStage, r.key, p.StepID, p.Key, string(p.Data)); err != nil {
				return err
			}
		}
		return nil
	})
	return fault("stage", err)
}

// readStaged returns the staged pieces of one step, or of all steps if stepID is empty.
func readStaged(ctx context.Context, c *conn, key int64, stepID string) (list []driver.Staged, err error) {
	text, args := sqlStaged, []any{key}
	if stepID != "" {
		text, args = sqlStagedOfStep, append(args, stepID)
	}
	err = c.query(ctx, text, func(cols *columns) bool {
		list = append(list, driver.Staged{StepID: cols.text(), Key: cols.text(), Data: json.RawMessage(cols.text())})
		return true
	}, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}
