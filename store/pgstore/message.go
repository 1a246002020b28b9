package pgstore

import (
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/jackc/pgx/v5"
)

// The row of a message names the message's run in a column: by its turn if the run is the session's, and otherwise by
// its id. The JSON in the row omits the run. If the message's id begins with the run's id and a slash, the JSON omits
// that run id from it as well.

// runOf returns the run that a message's row names in a column. It returns nil if the JSON is complete: the message
// belongs to no run, or its id begins with a slash and would be mistaken for a shortened one.
func runOf(m *cairn.Message) *string {
	if m.RunID == "" || strings.HasPrefix(m.ID, "/") {
		return nil
	}
	return &m.RunID
}

func encodeMessage(m *cairn.Message) (string, error) {
	if runOf(m) == nil {
		return fastjson.ShortText(m, m.ID, m.RunID)
	}
	id := m.ID
	if rest, ok := strings.CutPrefix(id, m.RunID); ok && strings.HasPrefix(rest, "/") {
		id = rest
	}
	return fastjson.ShortText(m, id, "")
}

func readMessage(rows pgx.Rows) (cairn.Message, error) {
	var m cairn.Message
	var created time.Time
	var run string
	short := fastjson.Short{Message: &m}
	err := readJSON(rows, "message", &short, &created, &run)
	short.Finish()
	if m.CreatedAt.IsZero() {
		m.CreatedAt = created.UTC()
	}
	if run != "" {
		m.RunID = run
		if strings.HasPrefix(m.ID, "/") {
			m.ID = run + m.ID
		}
	}
	return m, err
}
