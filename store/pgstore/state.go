package pgstore

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// stateFrom reads the last keyframe at or before a position p and the changes since then, by the key of state.
const stateFrom = `
	SELECT t.keyframe, t.data
	FROM p JOIN {schema}.state t ON t.session = p.session
	WHERE t.position <= p.position AND t.position >= (
		SELECT k.position FROM {schema}.state k
		WHERE k.session = p.session AND k.position <= p.position AND k.keyframe
		ORDER BY k.position DESC
		LIMIT 1)
	ORDER BY t.position`

const (
	sqlState = `
		WITH p AS MATERIALIZED (
			SELECT s.key AS session, (SELECT max(position) FROM {schema}.state WHERE session = s.key) AS position
			FROM {schema}.sessions s
			WHERE s.id = $1)` + stateFrom

	// By checkpoints_id.
	sqlStateAtCheckpoint = `
		WITH p AS (
			SELECT cp.session, cp.state_position AS position
			FROM {schema}.sessions s JOIN {schema}.checkpoints cp ON cp.session = s.key
			WHERE s.id = $1 AND cp.id_key = $2)` + stateFrom

	sqlStateAt = `
		WITH p AS (SELECT $1::bigint AS session, $2::bigint AS position)` + stateFrom

	sqlStateSizes = `
		SELECT coalesce(sum(octet_length(z.data)) FILTER (WHERE z.keyframe), 0)::bigint,
			coalesce(sum(octet_length(z.data)) FILTER (WHERE NOT z.keyframe), 0)::bigint,
			EXISTS (SELECT FROM {schema}.state WHERE session = $1 AND position = $2)
		FROM (
			WITH p AS (SELECT $1::bigint AS session, $2::bigint AS position)` + stateFrom + `) z`
)

func encodeChange(sc *driver.StateChange) (string, error) {
	if sc.Keyframe != nil {
		return string(sc.Keyframe), nil
	}
	raw, err := json.Marshal(sc.Ops)
	if err != nil {
		return "", cairn.Errorf(cairn.ErrState, "state: %w", err)
	}
	return string(raw), nil
}

// chain is a keyframe and the changes after it.
type chain struct {
	keyframe json.RawMessage
	changes  [][]cairn.Op
}

func (ch *chain) read(rows pgx.Rows) error {
	var keyframe bool
	var data string
	if err := rows.Scan(&keyframe, &data); err != nil {
		return err
	}
	if keyframe {
		ch.keyframe = json.RawMessage(data)
		return nil
	}
	var list []cairn.Op
	if err := backend.DecodeJSON("state change", data, &list); err != nil {
		return err
	}
	ch.changes = append(ch.changes, list)
	return nil
}

func (ch *chain) fold() (json.RawMessage, error) {
	switch {
	case ch.keyframe == nil:
		return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state has no keyframe")
	case len(ch.changes) > 0:
		return driver.FoldState(ch.keyframe, ch.changes)
	case !json.Valid(ch.keyframe):
		return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state is not valid JSON")
	}
	return ch.keyframe, nil
}

// sizesAt returns a position of a state with its sizes, or nil if the position is not kept.
func (c *conn) sizesAt(ctx context.Context, key, position int64) (*cairn.StatePosition, error) {
	at := &cairn.StatePosition{Position: position}
	var kept bool
	if _, err := c.row(ctx, sqlStateSizes, []any{&at.KeyframeBytes, &at.ChangeBytes, &kept}, key, position); err != nil || !kept {
		return nil, err
	}
	return at, nil
}
