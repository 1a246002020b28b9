package sqlitestore

import (
	"context"
	"math"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

const runColumns = ` turn, id, started_at, start_sequence, first_message, before_checkpoint, before_position, data`

const (
	sqlInsertRun = `INSERT INTO runs (session,` + runColumns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`

	sqlUpdateRun = `UPDATE runs SET data = ?3 WHERE session = ?1 AND id = ?2`

	sqlRun = `SELECT` + runColumns + ` FROM runs WHERE session = ?1 AND id = ?2`

	// Where the session was before a run: the number of its checkpoint, 0 if that is gone, and whether the state of then
	// can still be put together.
	sqlBeforeRun = `
		SELECT r.first_message, r.before_checkpoint, r.before_position,
			coalesce((SELECT number FROM checkpoints WHERE session = ?1 AND id = r.before_checkpoint), 0),
			EXISTS (SELECT 1 FROM state WHERE session = ?1 AND position = r.before_position)
		FROM runs r
		WHERE r.session = ?1 AND r.id = ?2`

	sqlRuns = `SELECT` + runColumns + ` FROM runs WHERE session = ?1 AND turn > ?2 ORDER BY turn LIMIT ?3`

	sqlRunsNewest = `SELECT` + runColumns + ` FROM runs WHERE session = ?1 AND turn < ?2 ORDER BY turn DESC LIMIT ?3`
)

func insertRun(c *conn, key int64, run *cairn.Run) error {
	data, err := encode("run", run)
	if err != nil {
		return err
	}
	_, err = c.exec(sqlInsertRun, key, run.Turn, run.ID, micros(run.StartedAt), run.StartSequence, run.FirstMessage,
		run.Before.CheckpointID, run.Before.StatePosition, data)
	return err
}

// endRun updates a run of a session and drops the stop request aimed at it.
func (r *record) endRun(c *conn, run *cairn.Run) error {
	data, err := encode("run", run)
	if err != nil {
		return err
	}
	n, err := c.exec(sqlUpdateRun, r.key, run.ID, data)
	if err != nil {
		return err
	}
	if n == 0 {
		return store.UnknownRun(r.session.ID, run.ID)
	}
	stop, err := decodeStop(r.stop)
	if err != nil {
		return err
	}
	if stop != nil && stop.RunID == run.ID {
		r.stop = ""
	}
	return nil
}

// readRun reads runColumns.
func readRun(c *columns, session string) cairn.Run {
	turn, id, started, sequence, first := c.int(), c.text(), c.time(), c.int64(), c.int()
	before := cairn.RunOrigin{CheckpointID: c.text(), StatePosition: max(c.int64(), 0)}
	var run cairn.Run
	c.json("run", &run)
	run.ID, run.SessionID, run.Turn = id, session, turn
	run.StartedAt, run.StartSequence, run.FirstMessage, run.Before = started, sequence, first, before
	return run
}

// findRun returns a run of a session; the error is ErrNotFound if it has no such run.
func findRun(c *conn, r *record, id string) (*cairn.Run, error) {
	var run cairn.Run
	found, err := c.row(sqlRun, func(cols *columns) { run = readRun(cols, r.session.ID) }, r.key, id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, store.UnknownRun(r.session.ID, id)
	}
	return &run, nil
}

// Runs implements store.Store.
func (s *Store) Runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	return readPage(ctx, s, id, q, sqlRuns, sqlRunsNewest, func(cols *columns) (cairn.Run, int64) {
		run := readRun(cols, id)
		return run, int64(run.Turn)
	})
}

// readPage reads one page of a session's runs or checkpoints. The statements take the session's key, the number of the
// last item given and how many to read; the cursor is that number.
func readPage[T any](ctx context.Context, s *Store, id string, q store.PageQuery, oldest, newest string,
	read func(*columns) (item T, number int64)) (store.Page[T], error) {
	text, last := oldest, int64(math.MinInt64)
	if q.Newest {
		text, last = newest, math.MaxInt64
	}
	if q.Cursor != "" {
		var err error
		if last, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return store.Page[T]{}, cairn.Invalid("cursor", "%q is not one of this list", q.Cursor)
		}
	}
	var page store.Page[T]
	err := s.readers.view(ctx, func(c *conn) error {
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
		return store.Page[T]{}, err
	}
	return page, nil
}
