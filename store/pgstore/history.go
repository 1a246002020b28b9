package pgstore

import (
	"context"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By the keys of runs and messages.
	sqlRuns = selectRun + `
		WHERE s.id = $1 AND r.turn > $2::bigint
		ORDER BY r.turn
		LIMIT $3`

	sqlRunsNewest = selectRun + `
		WHERE s.id = $1 AND r.turn < $2::bigint
		ORDER BY r.turn DESC
		LIMIT $3`
)

// Runs implements driver.Store.
func (s *Store) Runs(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Run], error) {
	return readHistory(ctx, &s.database, "list runs", id, q, sqlRuns, sqlRunsNewest,
		func(rows pgx.Rows) (cairn.Run, error) { return readRun(rows, id) },
		func(run *cairn.Run) string { return strconv.Itoa(run.Turn) })
}

// readHistory reads one page of a session's runs or checkpoints. The statements take the session's id, the number of
// the last listed item and how many items to read; the cursor is that number.
func readHistory[T any](ctx context.Context, d *database, doing, id string, q driver.PageQuery, oldest, newest string,
	read func(pgx.Rows) (T, error), cursor func(*T) string) (driver.Page[T], error) {
	last, err := backend.NumberCursor(q)
	if err != nil {
		return driver.Page[T]{}, err
	}
	text := oldest
	if q.Newest {
		text = newest
	}
	return readPageBy(ctx, d, doing, q.Size(), read, cursor, nil, func(ctx context.Context, c *conn, each func(pgx.Rows) error) error {
		return c.owned(ctx, id, text, each, last, q.Size()+1)
	})
}

const (
	// By the key of checkpoints.
	sqlCheckpoints = selectCheckpoint + `
		WHERE s.id = $1 AND cp.number > $2::bigint
		ORDER BY cp.number
		LIMIT $3`

	sqlCheckpointsNewest = selectCheckpoint + `
		WHERE s.id = $1 AND cp.number < $2::bigint
		ORDER BY cp.number DESC
		LIMIT $3`

	// sqlPrune deletes all but the newest $2 checkpoints. The oldest one that remains keeps the id of its parent. It
	// also deletes the state before the keyframe that this checkpoint builds on.
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
		), orphaned AS (
			UPDATE {schema}.checkpoints cp SET parent = ` + checkpointBefore + `
			FROM oldest o
			WHERE cp.session = o.session AND cp.number = o.number AND EXISTS (SELECT FROM pruned)
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

// Checkpoints implements driver.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	return readHistory(ctx, &s.database, "list checkpoints", id, q, sqlCheckpoints, sqlCheckpointsNewest,
		func(rows pgx.Rows) (cairn.Checkpoint, error) { return readCheckpoint(rows, id) },
		func(cp *cairn.Checkpoint) string { return strconv.FormatInt(cp.Number, 10) })
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (pruned int, err error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "must be at least 1, not %d", keep)
	}
	err = s.try(ctx, "prune", again, func(ctx context.Context, c *conn) error {
		// Hold the row's lock, so that no rewind changes which checkpoint is the oldest one kept.
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
