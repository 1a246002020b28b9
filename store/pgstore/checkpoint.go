package pgstore

import (
	"context"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
)

const selectCheckpoint = `
	SELECT cp.id, cp.step_id, cp.run_id, cp.turn, cp.step, cp.number, cp.parent_id, cp.message_count, cp.state_position,
		cp.log_sequence, cp.created_at
	FROM {schema}.sessions s JOIN {schema}.checkpoints cp ON cp.session = s.key`

const (
	// By checkpoints_id.
	sqlCheckpoint = selectCheckpoint + `
		WHERE s.id = $1 AND cp.id = $2`

	// By the key of checkpoints.
	sqlCheckpoints = selectCheckpoint + `
		WHERE s.id = $1 AND cp.number > $2
		ORDER BY cp.number
		LIMIT $3`

	sqlCheckpointsNewest = selectCheckpoint + `
		WHERE s.id = $1 AND cp.number < $2
		ORDER BY cp.number DESC
		LIMIT $3`

	// What comes after a place in the session's past, by the keys of the tables.
	sqlCut = `
		WITH messages AS (DELETE FROM {schema}.messages WHERE session = $1 AND number >= $2),
			state AS (DELETE FROM {schema}.state WHERE session = $1 AND position > $3)
		DELETE FROM {schema}.checkpoints WHERE session = $1 AND number > $4`

	// All but the newest $2 checkpoints, and what comes before the keyframe that the oldest one kept builds on.
	sqlPrune = `
		WITH oldest AS (
			SELECT cp.session, cp.number, cp.state_position
			FROM {schema}.checkpoints cp
			WHERE cp.session = $1
			ORDER BY cp.number DESC
			OFFSET $2::bigint - 1 LIMIT 1
		), pruned AS (
			DELETE FROM {schema}.checkpoints cp USING oldest o
			WHERE cp.session = o.session AND cp.number < o.number
			RETURNING cp.number
		), cut AS (
			DELETE FROM {schema}.state t USING oldest o
			WHERE t.session = o.session AND EXISTS (SELECT FROM pruned) AND t.position < (
				SELECT k.position FROM {schema}.state k
				WHERE k.session = o.session AND k.position <= o.state_position AND k.keyframe
				ORDER BY k.position DESC
				LIMIT 1)
		)
		SELECT count(*) FROM pruned`
)

func readCheckpoint(rows pgx.Rows, session string) (cairn.Checkpoint, error) {
	cp := cairn.Checkpoint{SessionID: session}
	err := rows.Scan(&cp.ID, &cp.StepID, &cp.RunID, &cp.Turn, &cp.Step, &cp.Number, &cp.ParentID, &cp.MessageCount,
		&cp.StatePosition, &cp.LogSequence, &cp.CreatedAt)
	cp.CreatedAt = cp.CreatedAt.UTC()
	return cp, err
}

// checkpoint returns a checkpoint of a session, or nil if it has no such checkpoint.
func (c *conn) checkpoint(ctx context.Context, session, id string) (cp *cairn.Checkpoint, err error) {
	err = c.query(ctx, sqlCheckpoint, func(rows pgx.Rows) error {
		read, err := readCheckpoint(rows, session)
		cp = &read
		return err
	}, session, id)
	return cp, err
}

// findCheckpoint is checkpoint whose error is ErrNotFound if there is none.
func (c *conn) findCheckpoint(ctx context.Context, session, id string) (*cairn.Checkpoint, error) {
	cp, err := c.checkpoint(ctx, session, id)
	if err == nil && cp == nil {
		err = store.UnknownCheckpoint(session, id)
	}
	return cp, err
}

// Checkpoints implements store.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Checkpoint], error) {
	return readHistory(ctx, s, "list checkpoints", id, q, sqlCheckpoints, sqlCheckpointsNewest,
		func(rows pgx.Rows) (cairn.Checkpoint, error) { return readCheckpoint(rows, id) },
		func(cp *cairn.Checkpoint) string { return strconv.FormatInt(cp.Number, 10) })
}

// Prune implements store.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (pruned int, err error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "%d: at least one checkpoint is kept", keep)
	}
	err = s.try(ctx, "prune", again, func(ctx context.Context, c *conn) error {
		// Under the row's lock, so that no rewind moves the oldest one kept.
		return c.transact(ctx, func(c *conn) error {
			r, err := c.lock(ctx, id)
			if err != nil {
				return err
			}
			_, err = c.row(ctx, sqlPrune, []any{&pruned}, r.key, keep)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return pruned, nil
}
