package pgstore

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

const (
	// sqlStage locks the head, so that no commit changes the token in the meantime.
	sqlStage = `
		WITH head AS (
			SELECT h.session
			FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
			WHERE s.id = $1 AND h.lease_token = $2 AND h.lease_token > 0 AND h.status = 'active'
			FOR NO KEY UPDATE OF h
		), staged AS (
			INSERT INTO {schema}.staged (session, step_id, key, data)
			SELECT h.session, p.step_id, p.key, p.data
			FROM head h, unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY p (step_id, key, data, number)
			ORDER BY p.number
			ON CONFLICT DO NOTHING
		)
		SELECT TRUE FROM head`

	selectStaged = `
		SELECT t.step_id, t.key, t.data
		FROM {schema}.sessions s JOIN {schema}.staged t ON t.session = s.key
		WHERE s.id = $1`

	// By staged_key.
	sqlStaged = selectStaged + `
		ORDER BY t.number`

	sqlStagedOfStep = selectStaged + ` AND t.step_id = $2
		ORDER BY t.number`
)

// Stage implements driver.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := driver.ValidateStaged(pieces); err != nil {
		return err
	}
	var steps, keys, data []string
	for i := range pieces {
		p := &pieces[i]
		steps, keys, data = append(steps, p.StepID), append(keys, p.Key), append(data, string(p.Data))
	}
	return s.try(ctx, "stage", again, func(ctx context.Context, c *conn) error {
		var held bool
		if _, err := c.row(ctx, sqlStage, []any{&held}, id, token, steps, keys, data); err != nil || held {
			return err
		}
		return c.fenced(ctx, id, token)
	})
}

// fenced returns the error for a token that does not hold the session.
func (c *conn) fenced(ctx context.Context, id string, token int64) error {
	r, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	return plan.Lost(r.session, token)
}

func readPiece(rows pgx.Rows) (p driver.Staged, err error) {
	var data string
	err = rows.Scan(&p.StepID, &p.Key, &data)
	p.Data = json.RawMessage(data)
	return p, err
}
