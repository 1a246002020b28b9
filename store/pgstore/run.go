package pgstore

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// runColumns are those that readRun reads.
const runColumns = `
	r.turn, r.id, r.started_at, r.ended_at, r.start_sequence, r.first_message, r.before_checkpoint, r.before_position,
		CASE r.text_at WHEN 0 THEN '' ELSE coalesce((
			SELECT m.data FROM {schema}.messages m WHERE m.session = r.session AND m.number = r.text_at - 1), '') END, r.data`

const selectRun = `
	SELECT` + runColumns + `
	FROM {schema}.sessions s JOIN {schema}.runs r ON r.session = s.key`

// By runs_id, and by the key of messages.
const sqlRun = selectRun + `
		WHERE s.id = $1 AND r.id = $2`

const (
	// The runs whose texts are in the messages from number $2 on: they follow those whose texts are in earlier ones. By the
	// keys of runs and messages.
	sqlRunsSaid = `
		SELECT` + runColumns + `
		FROM {schema}.runs r
		WHERE r.session = $1 AND r.text_at > $2::bigint AND r.turn > coalesce((
			SELECT b.turn FROM {schema}.runs b
			WHERE b.session = $1 AND b.text_at BETWEEN 1 AND $2::bigint
			ORDER BY b.turn DESC
			LIMIT 1), 0) AND r.turn < 1::bigint << 31`

	// By the key of runs.
	sqlKeepTexts = `
		UPDATE {schema}.runs r SET text_at = 0, data = u.data
		FROM unnest($2::bigint[], $3::text[]) u (turn, data)
		WHERE r.session = $1 AND r.turn = u.turn`
)

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

// encodeRun returns the data of a run. textAt is [plan.Delta.TextAt].
func encodeRun(run *cairn.Run, textAt int) (string, error) {
	return backend.EncodeJSON("run", &runData{Run: plan.WithoutText(run, textAt)})
}

// keepTexts gives the runs their texts that are in the messages from a number on.
func (w *write) keepTexts(ctx context.Context, c *conn, from int) error {
	var turns []int64
	var data []string
	err := c.query(ctx, sqlRunsSaid, func(rows pgx.Rows) error {
		run, err := readRun(rows, w.id)
		if err != nil {
			return err
		}
		text, err := encodeRun(&run, 0)
		turns, data = append(turns, int64(run.Turn)), append(data, text)
		return err
	}, w.key, from)
	if err == nil && len(turns) > 0 {
		_, err = c.exec(ctx, sqlKeepTexts, w.key, turns, data)
	}
	return err
}

func readRun(rows pgx.Rows, session string) (cairn.Run, error) {
	run := cairn.Run{SessionID: session}
	var ended *time.Time
	var said string
	err := readJSON(rows, "run", &runData{Run: &run}, &run.Turn, &run.ID, &run.StartedAt, &ended, &run.StartSequence,
		&run.FirstMessage, &run.Before.CheckpointID, &run.Before.StatePosition, &said)
	if said != "" && err == nil {
		err = backend.ReadText(&run, said)
	}
	run.StartedAt, run.EndedAt = run.StartedAt.UTC(), instant(ended)
	return run, err
}
