package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const checkpointColumns = `
	id, step_id, run_id, turn, step, number, parent_id, message_count, state_position, log_sequence, created_at`

const (
	sqlInsertCheckpoint = `
		INSERT INTO checkpoints (session, ` + checkpointColumns + `)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)`

	sqlCheckpoint = `SELECT` + checkpointColumns + ` FROM checkpoints WHERE session = ?1 AND id = ?2`

	sqlCheckpoints = `
		SELECT` + checkpointColumns + ` FROM checkpoints
		WHERE session = ?1 AND number > ?2
		ORDER BY number LIMIT ?3`

	sqlCheckpointsNewest = `
		SELECT` + checkpointColumns + ` FROM checkpoints
		WHERE session = ?1 AND number < ?2
		ORDER BY number DESC LIMIT ?3`

	sqlDropMessagesFrom    = `DELETE FROM messages WHERE ` + fromNumber
	sqlDropStateAfter      = `DELETE FROM state WHERE ` + overNumber
	sqlDropCheckpointAfter = `DELETE FROM checkpoints WHERE session = ?1 AND number > ?2`

	// The oldest of the newest ?2 checkpoints.
	sqlOldestKept = `
		SELECT number, state_position FROM checkpoints
		WHERE session = ?1
		ORDER BY number DESC LIMIT 1 OFFSET ?2 - 1`

	sqlDropCheckpointsBefore = `DELETE FROM checkpoints WHERE session = ?1 AND number < ?2`

	// The states before the keyframe that position ?2 builds on.
	sqlDropStateBefore = `
		DELETE FROM state
		WHERE place >= ?1 << 31 AND place < (
			SELECT place FROM state
			WHERE ` + upToNumber + ` AND keyframe = 1
			ORDER BY place DESC LIMIT 1)`
)

func insertCheckpoint(c *conn, key int64, cp *cairn.Checkpoint) error {
	_, err := c.exec(sqlInsertCheckpoint, key, cp.ID, cp.StepID, cp.RunID, cp.Turn, cp.Step, cp.Number, cp.ParentID,
		cp.MessageCount, cp.StatePosition, cp.LogSequence, micros(cp.CreatedAt))
	return err
}

// readCheckpoint reads checkpointColumns.
func readCheckpoint(c *columns, session string) *cairn.Checkpoint {
	return &cairn.Checkpoint{SessionID: session,
		ID: c.text(), StepID: c.text(), RunID: c.text(), Turn: c.int(), Step: c.int(), Number: c.int64(),
		ParentID: c.text(), MessageCount: c.int(), StatePosition: c.int64(), LogSequence: c.int64(), CreatedAt: c.time()}
}

// findCheckpoint returns a checkpoint of a session; the error is ErrNotFound if it has no such checkpoint.
func findCheckpoint(c *conn, r *storedRow, id string) (cp *cairn.Checkpoint, err error) {
	found, err := c.row(sqlCheckpoint, func(cols *columns) { cp = readCheckpoint(cols, r.session.ID) }, r.key, id)
	if err == nil && !found {
		err = driver.UnknownCheckpoint(r.session.ID, id)
	}
	return cp, err
}

// cut removes the rows after a point in the session's past.
func (r *storedRow) cut(c *conn, at *plan.Cut) error {
	if err := keepTexts(c, r.key, at.Messages); err != nil {
		return err
	}
	for _, drop := range []struct {
		text  string
		bound int64
	}{
		{sqlDropMessagesFrom, int64(at.Messages)},
		{sqlDropStateAfter, at.State},
		{sqlDropCheckpointAfter, at.Checkpoint},
	} {
		if _, err := c.exec(drop.text, r.key, drop.bound); err != nil {
			return err
		}
	}
	return nil
}

// Checkpoints implements driver.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	return readPage(ctx, s, id, q, sqlCheckpoints, sqlCheckpointsNewest,
		func(cols *columns) (cairn.Checkpoint, int64) {
			cp := readCheckpoint(cols, id)
			return *cp, cp.Number
		})
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (pruned int, err error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "must be at least 1, not %d", keep)
	}
	err = s.writer.write(ctx, false, func(c *conn) error {
		pruned = 0
		key, err := findKey(c, id)
		if err != nil {
			return err
		}
		var number, position int64
		found, err := c.row(sqlOldestKept, func(cols *columns) { number, position = cols.int64(), cols.int64() }, key, keep)
		if err != nil || !found {
			return err
		}
		n, err := c.exec(sqlDropCheckpointsBefore, key, number)
		if err != nil || n == 0 {
			return err
		}
		pruned = int(n)
		_, err = c.exec(sqlDropStateBefore, key, position)
		return err
	})
	if err != nil {
		return 0, fault("prune", err)
	}
	return pruned, nil
}
