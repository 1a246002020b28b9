package sqlitestore

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const runColumns = `
	id, started_at, start_sequence, first_message, before_checkpoint, before_position, data`

// runText is the message that a run has its text from, or an empty text.
const runText = `
	CASE text_at WHEN 0 THEN '' ELSE coalesce((SELECT m.data FROM messages m WHERE m.place = (runs.place & ~0x7fffffff) + text_at - 1), '') END`

const (
	sqlInsertRun = `
		INSERT INTO runs (place, session,` + runColumns + `, text_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`

	sqlUpdateRun = `UPDATE runs SET data = ?3, text_at = ?4 WHERE session = ?1 AND id = ?2`

	sqlRun = `SELECT ` + placeNumber + `,` + runColumns + `,` + runText + ` FROM runs WHERE session = ?1 AND id = ?2`

	sqlRuns = `SELECT ` + placeNumber + `,` + runColumns + `,` + runText + ` FROM runs WHERE ` + overNumber + ` ORDER BY place LIMIT ?3`

	sqlRunsNewest = `SELECT ` + placeNumber + `,` + runColumns + `,` + runText + ` FROM runs WHERE ` + lessNumber + ` ORDER BY place DESC LIMIT ?3`

	// The runs whose texts are in the messages from number ?2 on: they follow those whose texts are in earlier ones.
	sqlRunsSaid = `SELECT ` + placeNumber + `,` + runColumns + `,` + runText + ` FROM runs
		WHERE ` + ofOwner + ` AND text_at > ?2 AND place > coalesce((
			SELECT place FROM runs WHERE ` + ofOwner + ` AND text_at BETWEEN 1 AND ?2 ORDER BY place DESC LIMIT 1), 0)
		ORDER BY place`
)

// runRest is a run without the fields that have columns of their own.
type runRest struct {
	*cairn.Run
	ID            string    `json:"id,omitempty"`
	SessionID     string    `json:"session_id,omitempty"`
	Turn          int       `json:"turn,omitempty"`
	StartSequence int64     `json:"start_sequence,omitempty"`
	FirstMessage  int       `json:"first_message,omitempty"`
	StartedAt     time.Time `json:"started_at,omitzero"`
}

// encodeRun returns the data of a run. textAt is [plan.Delta.TextAt].
func encodeRun(run *cairn.Run, textAt int) (string, error) {
	own := *plan.WithoutText(run, textAt)
	own.Before = cairn.RunOrigin{}
	return backend.EncodeJSON("run", &runRest{Run: &own})
}

func insertRun(c *conn, key int64, run *cairn.Run, textAt int) error {
	data, err := encodeRun(run, textAt)
	if err != nil {
		return err
	}
	place, err := placeOf(key, int64(run.Turn))
	if err != nil {
		return err
	}
	_, err = c.exec(sqlInsertRun, place, key, run.ID, micros(run.StartedAt), run.StartSequence, run.FirstMessage,
		run.Before.CheckpointID, run.Before.StatePosition, data, textAt)
	return err
}

// updateRun writes a run that has ended. Only its data and textAt change.
func updateRun(c *conn, key int64, run *cairn.Run, textAt int) error {
	data, err := encodeRun(run, textAt)
	if err != nil {
		return err
	}
	_, err = c.exec(sqlUpdateRun, key, run.ID, data, textAt)
	return err
}

// keepTexts gives the runs their texts that are in the messages from a number on.
func keepTexts(c *conn, key int64, from int) (err error) {
	var runs []cairn.Run
	err = c.query(context.Background(), sqlRunsSaid, func(cols *columns) bool {
		runs = append(runs, readRun(cols, ""))
		return true
	}, key, from)
	for i := range runs {
		if err == nil {
			err = updateRun(c, key, &runs[i], 0)
		}
	}
	return err
}

// readRun reads a run's number, runColumns and runText.
func readRun(c *columns, session string) cairn.Run {
	turn, id, started, sequence, first := c.int(), c.text(), c.time(), c.int64(), c.int()
	before := cairn.RunOrigin{CheckpointID: c.text(), StatePosition: c.int64()}
	var run cairn.Run
	c.json("run", &run)
	if said := c.text(); said != "" && c.err == nil {
		c.err = backend.ReadText(&run, said)
	}
	run.ID, run.SessionID, run.Turn = id, session, turn
	run.StartedAt, run.StartSequence, run.FirstMessage, run.Before = started, sequence, first, before
	return run
}

// findRun returns a run of a session; the error is ErrNotFound if it has no such run.
func findRun(c *conn, r *storedRow, id string) (*cairn.Run, error) {
	var run cairn.Run
	found, err := c.row(sqlRun, func(cols *columns) { run = readRun(cols, r.session.ID) }, r.key, id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, driver.UnknownRun(r.session.ID, id)
	}
	return &run, nil
}

// Runs implements driver.Store.
func (s *Store) Runs(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Run], error) {
	return readPage(ctx, s, id, q, sqlRuns, sqlRunsNewest, func(cols *columns) (cairn.Run, int64) {
		run := readRun(cols, id)
		return run, int64(run.Turn)
	})
}

// readPage reads one page of a session's runs or checkpoints. The statements take the session's key, the number of the
// last item on the page before, and how many items to read. The cursor is the number of the last item.
func readPage[T any](ctx context.Context, s *Store, id string, q driver.PageQuery, oldest, newest string,
	read func(*columns) (item T, number int64)) (driver.Page[T], error) {
	var page driver.Page[T]
	last, err := backend.NumberCursor(q)
	if err != nil {
		return page, err
	}
	text := oldest
	if q.Newest {
		text = newest
	}
	err = s.readers.view(ctx, func(c *conn) error {
		key, err := findKey(c, id)
		if err != nil {
			return err
		}
		return c.query(ctx, text, func(cols *columns) bool {
			if len(page.Items) == q.Size() {
				page.Next = strconv.FormatInt(last, 10)
				return false
			}
			var item T
			item, last = read(cols)
			page.Items = append(page.Items, item)
			return true
		}, key, last, q.Size()+1)
	})
	if err != nil {
		return driver.Page[T]{}, err
	}
	return page, nil
}
