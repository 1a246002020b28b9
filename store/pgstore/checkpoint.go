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
			state AS (DELETE FROM {schema}.state WHERE session = $1 AND position > $3),
			checkpoints AS (DELETE FROM {schema}.checkpoints WHERE session = $1 AND number > $4)
		UPDATE {schema}.heads
		SET epoch = epoch + 1, message_count = $2, state_position = $3, checkpoint_id = $5, keyframe_bytes = $6, change_bytes = $7
		WHERE session = $1`

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

// findCheckpoint returns a checkpoint of a session; the error is ErrNotFound if it has no such checkpoint.
func (c *conn) findCheckpoint(ctx context.Context, session, id string) (cp *cairn.Checkpoint, err error) {
	err = c.query(ctx, sqlCheckpoint, func(rows pgx.Rows) error {
		read, err := readCheckpoint(rows, session)
		cp = &read
		return err
	}, session, id)
	if err == nil && cp == nil {
		err = store.UnknownCheckpoint(session, id)
	}
	return cp, err
}

// origin is a place in a session's past.
type origin struct {
	checkpointID string
	number       int64 // of the checkpoint, 0 for none
	messages     int
	state        cairn.StatePosition
}

// origin returns where a commit takes the session back to, or nil if it does not.
func (c *conn) origin(ctx context.Context, r *record, commit *store.Commit) (o *origin, err error) {
	switch {
	case commit.Rewind != "":
		cp, err := c.findCheckpoint(ctx, r.session.ID, commit.Rewind)
		if err != nil {
			return nil, err
		}
		o = &origin{checkpointID: cp.ID, number: cp.Number, messages: cp.MessageCount}
		o.state.Position = cp.StatePosition
	case commit.RewindRun != "":
		if o, err = c.beforeRun(ctx, r, commit.RewindRun); err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	o.state, err = c.sizesAt(ctx, r.key, o.state.Position)
	return o, err
}

// beforeRun returns where the session was before its latest run began.
func (c *conn) beforeRun(ctx context.Context, r *record, runID string) (*origin, error) {
	o := &origin{}
	var known bool
	found, err := c.row(ctx, sqlBeforeRun, []any{&o.messages, &o.checkpointID, &o.state.Position, &o.number, &known}, r.key, runID)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, store.UnknownRun(r.session.ID, runID)
	case runID != r.session.RunID, !known, o.messages > r.session.MessageCount, o.checkpointID != "" && o.number == 0:
		return nil, store.RunGone(r.session, runID)
	}
	return o, nil
}

// goBack takes a session that is locked back to o.
func (c *conn) goBack(ctx context.Context, r *record, o *origin) error {
	_, err := c.exec(ctx, sqlCut, r.key, o.messages, o.state.Position, o.number, o.checkpointID, o.state.KeyframeBytes, o.state.ChangeBytes)
	return err
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
			r, err := c.findBy(ctx, sqlLockSession, id)
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
