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

// ownMessages reports whether all messages of the write are of the session's run, so that its turn names it.
func (w *write) ownMessages() bool {
	for i := range w.c.Messages {
		if run := runOf(&w.c.Messages[i]); run == nil || *run != w.d.Row.RunID {
			return false
		}
	}
	return true
}

// messageRuns returns the run of each message, where the turn does not name it; nil if there are none.
func (w *write) messageRuns() (runs []*string) {
	if w.ownMessages() {
		return nil
	}
	for i := range w.c.Messages {
		run := runOf(&w.c.Messages[i])
		if run != nil && runs == nil {
			runs = make([]*string, len(w.c.Messages))
		}
		if run != nil {
			runs[i] = run
		}
	}
	return runs
}
