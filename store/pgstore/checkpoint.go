package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// checkpointColumns are those that readCheckpoint reads.
	checkpointColumns = `
	cp.id, cp.step_id, cp.run, cp.turn, cp.step, cp.number, coalesce(cp.parent, ` + checkpointBefore + `, ''),
		cp.message_count, cp.state_position, cp.log_sequence, cp.created_at, coalesce(r.id, '')`

	selectCheckpoint = `
	SELECT` + checkpointColumns + `
	FROM {schema}.sessions s JOIN {schema}.checkpoints cp ON cp.session = s.key
		LEFT JOIN {schema}.runs r ON r.session = cp.session AND r.turn = cp.turn`

	// checkpointBefore is the id of the checkpoint before cp, by the keys of checkpoints and runs.
	checkpointBefore = `(
		SELECT CASE WHEN b.run IS NULL THEN replace(b.id, '*', substr(br.id, strpos(br.id, '_') + 1)) ELSE b.id END
		FROM {schema}.checkpoints b LEFT JOIN {schema}.runs br ON br.session = b.session AND br.turn = b.turn
		WHERE b.session = cp.session AND b.number < cp.number
		ORDER BY b.number DESC
		LIMIT 1)`
)

const (
	// By checkpoints_id.
	sqlCheckpoint = selectCheckpoint + `
		WHERE s.id = $1 AND cp.id_key = $2`

	// sqlCut removes the history after a point in the session's past, by the keys of the tables.
	sqlCut = `
		WITH messages AS (DELETE FROM {schema}.messages WHERE session = $1 AND number >= $2::bigint),
			state AS (DELETE FROM {schema}.state WHERE session = $1 AND position > $3)
		DELETE FROM {schema}.checkpoints WHERE session = $1 AND number > $4::bigint`
)

// names are the ids of a checkpoint as its row stores them.
type names struct {
	id, stepID string
	run        *string // nil for the run of the checkpoint's turn
	key        int64
	stepKey    int64
}

// ofStep returns the key of the step, or nil if the checkpoint belongs to no step.
func (n *names) ofStep() *int64 {
	if n.stepID == "" {
		return nil
	}
	return &n.stepKey
}

// namesOf returns the names of a session's new checkpoint. A star replaces the part that they share with the id of the
// session's run, unless the checkpoint is of another run or its names contain a star.
func namesOf(cp *cairn.Checkpoint, row *cairn.Session) names {
	n := names{id: cp.ID, stepID: cp.StepID, key: keyOf(cp.ID), stepKey: keyOf(cp.StepID)}
	if row.RunID == "" || cp.RunID != row.RunID || strings.Contains(cp.ID, "*") || strings.Contains(cp.StepID, "*") {
		n.run = &cp.RunID
		return n
	}
	if common := ownPart(cp.RunID); common != "" {
		n.id, n.stepID = strings.ReplaceAll(cp.ID, common, "*"), strings.ReplaceAll(cp.StepID, common, "*")
	}
	return n
}

// restore sets the ids of a checkpoint whose RunID is the run of its turn.
func (n *names) restore(cp *cairn.Checkpoint) {
	if n.run != nil {
		cp.ID, cp.StepID, cp.RunID = n.id, n.stepID, *n.run
		return
	}
	common := ownPart(cp.RunID)
	cp.ID, cp.StepID = strings.ReplaceAll(n.id, "*", common), strings.ReplaceAll(n.stepID, "*", common)
}

// ownPart returns the part of an id after its kind.
func ownPart(id string) string { return id[strings.IndexByte(id, '_')+1:] }

// keyOf returns the key that a checkpoint or a step is looked up by: 64 bits of the SHA-256 of its id.
func keyOf(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func readCheckpoint(rows pgx.Rows, session string) (cairn.Checkpoint, error) {
	cp := cairn.Checkpoint{SessionID: session}
	var n names
	err := rows.Scan(&n.id, &n.stepID, &n.run, &cp.Turn, &cp.Step, &cp.Number, &cp.ParentID, &cp.MessageCount,
		&cp.StatePosition, &cp.LogSequence, &cp.CreatedAt, &cp.RunID)
	n.restore(&cp)
	cp.CreatedAt = cp.CreatedAt.UTC()
	return cp, err
}

// checkpoint returns a checkpoint of a session, or nil if the session has no such checkpoint.
func (c *conn) checkpoint(ctx context.Context, session, id string) (cp *cairn.Checkpoint, err error) {
	err = c.query(ctx, sqlCheckpoint, func(rows pgx.Rows) error {
		read, err := readCheckpoint(rows, session)
		cp = &read
		return err
	}, session, keyOf(id))
	return cp, err
}

// findCheckpoint is checkpoint, except that the error is ErrNotFound if the checkpoint does not exist.
func (c *conn) findCheckpoint(ctx context.Context, session, id string) (*cairn.Checkpoint, error) {
	cp, err := c.checkpoint(ctx, session, id)
	if err == nil && cp == nil {
		err = driver.UnknownCheckpoint(session, id)
	}
	return cp, err
}
