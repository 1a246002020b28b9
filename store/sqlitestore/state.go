package sqlitestore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlInsertState = `INSERT INTO state (place, keyframe, data) VALUES (?1, ?2, ?3)`

	// Read until the first keyframe.
	sqlStateChain = `
		SELECT keyframe, data FROM state
		WHERE ` + upToNumber + `
		ORDER BY place DESC`

	sqlStateSizes = `
		SELECT ` + placeNumber + `, keyframe, octet_length(data) FROM state
		WHERE ` + upToNumber + `
		ORDER BY place DESC`
)

func insertState(c *conn, key int64, piece *plan.StatePiece) error {
	place, err := placeOf(key, piece.Position)
	if err != nil {
		return err
	}
	_, err = c.exec(sqlInsertState, place, piece.Keyframe, string(piece.Data))
	return err
}

// stateAt returns a session's state at a position: the last keyframe and the changes since.
func stateAt(ctx context.Context, c *conn, key, position int64) (json.RawMessage, error) {
	var keyframe json.RawMessage
	var changes [][]cairn.Op
	err := c.query(ctx, sqlStateChain, func(cols *columns) bool {
		if cols.int64() != 0 {
			keyframe = json.RawMessage(cols.text())
			return false
		}
		var list []cairn.Op
		cols.json("state change", &list)
		changes = append(changes, list)
		return true
	}, key, position)
	if err != nil {
		return nil, err
	}
	if keyframe == nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state has no keyframe at or before position %d", position)
	}
	if len(changes) == 0 {
		if !json.Valid(keyframe) {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state at position %d is not valid JSON", position)
		}
		return keyframe, nil
	}
	slices.Reverse(changes)
	return driver.FoldState(keyframe, changes)
}

// sizesAt returns the sizes that belong to a state position; nil if the position is not kept.
func sizesAt(c *conn, key, position int64) (at *cairn.StatePosition, err error) {
	err = c.query(context.Background(), sqlStateSizes, func(cols *columns) bool {
		from, keyframe, size := cols.int64(), cols.int64() != 0, cols.int64()
		switch {
		case at == nil && from != position:
			return false
		case at == nil:
			at = &cairn.StatePosition{Position: position}
		}
		if keyframe {
			at.KeyframeBytes = size
		} else {
			at.ChangeBytes += size
		}
		return !keyframe
	}, key, position)
	return at, err
}
