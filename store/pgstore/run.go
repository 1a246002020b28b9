package pgstore

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/jackc/pgx/v5"
)

const selectRun = `
	SELECT r.turn, r.id, r.started_at, r.ended_at, r.start_sequence, r.first_message, r.before_checkpoint, r.before_position,
		r.data
	FROM {schema}.sessions s JOIN {schema}.runs r ON r.session = s.key`

const (
	// By runs_id.
	sqlRun = selectRun + `
		WHERE s.id = $1 AND r.id = $2`

	// By the key of runs.
	sqlRuns = selectRun + `
		WHERE s.id = $1 AND r.turn > $2::bigint
		ORDER BY r.turn
		LIMIT $3`

	sqlRunsNewest = selectRun + `
		WHERE s.id = $1 AND r.turn < $2::bigint
		ORDER BY r.turn DESC
		LIMIT $3`
)

// runData is the rest of a run: without what has a column of its own, and the session.
type runData struct {
	*cairn.Run

	// These stand in the way of the run's fields of the same names.
	ID            struct{} `json:"id,omitzero"`
	SessionID     struct{} `json:"session_id,omitzero"`
	Turn          struct{} `json:"turn,omitzero"`
	StartSequence struct{} `json:"start_sequence,omitzero"`
	FirstMessage  struct{} `json:"first_message,omitzero"`
	Before        struct{} `json:"before,omitzero"`
	StartedAt     struct{} `json:"started_at,omitzero"`
	EndedAt       struct{} `json:"ended_at,omitzero"`
}

func encodeRun(run *cairn.Run) (string, error) { return encode("run", &runData{Run: run}) }

func readRun(rows pgx.Rows, session string) (cairn.Run, error) {
	run := cairn.Run{SessionID: session}
	var ended *time.Time
	err := readJSON(rows, "run", &runData{Run: &run}, &run.Turn, &run.ID, &run.StartedAt, &ended, &run.StartSequence,
		&run.FirstMessage, &run.Before.CheckpointID, &run.Before.StatePosition)
	run.StartedAt, run.EndedAt = run.StartedAt.UTC(), instant(ended)
	return run, err
}

// Runs implements store.Store.
func (s *Store) Runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	return readHistory(ctx, s, "list runs", id, q, sqlRuns, sqlRunsNewest,
		func(rows pgx.Rows) (cairn.Run, error) { return readRun(rows, id) },
		func(run *cairn.Run) string { return strconv.Itoa(run.Turn) })
}

// readHistory reads one page of a session's runs or checkpoints. The statements take the session's id, the number of
// the last item given and how many to read; the cursor is that number.
func readHistory[T any](ctx context.Context, s *Store, doing, id string, q store.PageQuery, oldest, newest string,
	read func(pgx.Rows) (T, error), cursor func(*T) string) (store.Page[T], error) {
	last, err := backend.NumberCursor(q)
	if err != nil {
		return store.Page[T]{}, err
	}
	text := oldest
	if q.Newest {
		text = newest
	}
	return readPageBy(ctx, s, doing, q.Size(), read, cursor, nil, func(ctx context.Context, c *conn, each func(pgx.Rows) error) error {
		return c.owned(ctx, id, text, each, last, q.Size()+1)
	})
}
