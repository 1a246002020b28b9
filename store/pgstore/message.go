package pgstore

import (
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/compose"
	"github.com/jackc/pgx/v5"
)

// A message says of which run it is in columns of its row: by the turn if the run is the session's, else by its id. The
// JSON in the row omits it, and omits the beginning of an id that is the run's id, a slash and more.

// runOf returns the run that a message's row names in a column, or nil if its JSON says all: if it is of no run, or has
// an id that would be taken for the end of one.
func runOf(m *cairn.Message) *string {
	if m.RunID == "" || strings.HasPrefix(m.ID, "/") {
		return nil
	}
	return &m.RunID
}

func encodeMessage(m *cairn.Message) (string, error) {
	if runOf(m) == nil {
		return compose.ShortText(m, m.ID, m.RunID)
	}
	id := m.ID
	if rest, ok := strings.CutPrefix(id, m.RunID); ok && strings.HasPrefix(rest, "/") {
		id = rest
	}
	return compose.ShortText(m, id, "")
}

func readMessage(rows pgx.Rows) (cairn.Message, error) {
	var m cairn.Message
	var created time.Time
	var run string
	short := compose.Short{Message: &m}
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
