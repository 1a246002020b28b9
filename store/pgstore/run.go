package pgstore

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/jackc/pgx/v5"
)

const selectRun = `
	SELECT r.turn, r.id, r.started_at, r.ended_at, r.start_sequence, r.first_message, r.before_checkpoint, r.before_position,
		r.data
	FROM {schema}.sessions s JOIN {schema}.runs r ON r.session = s.key`

// By runs_id.
const sqlRun = selectRun + `
		WHERE s.id = $1 AND r.id = $2`

// runData is the rest of a run: without its session and the fields that have a column of their own.
type runData struct {
	*cairn.Run

	// These shadow the run's fields of the same names.
	ID            struct{} `json:"id,omitzero"`
	SessionID     struct{} `json:"session_id,omitzero"`
	Turn          struct{} `json:"turn,omitzero"`
	StartSequence struct{} `json:"start_sequence,omitzero"`
	FirstMessage  struct{} `json:"first_message,omitzero"`
	Before        struct{} `json:"before,omitzero"`
	StartedAt     struct{} `json:"started_at,omitzero"`
	EndedAt       struct{} `json:"ended_at,omitzero"`
}

func encodeRun(run *cairn.Run) (string, error) { return backend.EncodeJSON("run", &runData{Run: run}) }

func readRun(rows pgx.Rows, session string) (cairn.Run, error) {
	run := cairn.Run{SessionID: session}
	var ended *time.Time
	err := readJSON(rows, "run", &runData{Run: &run}, &run.Turn, &run.ID, &run.StartedAt, &ended, &run.StartSequence,
		&run.FirstMessage, &run.Before.CheckpointID, &run.Before.StatePosition)
	run.StartedAt, run.EndedAt = run.StartedAt.UTC(), instant(ended)
	return run, err
}
