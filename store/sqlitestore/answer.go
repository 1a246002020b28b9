package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/plan"
)

// answer reads what a plan needs to know of a session. r is the session's record; nil if there is none.
func (w *write) answer(c *conn, r *storedRow, n plan.Needs, seen *plan.Seen) (err error) {
	if n.Happened {
		if _, err := c.row(sqlHappened, func(cols *columns) { seen.Happened = cols.int64() != 0 }, r.key, n.RunID, n.StepID); err != nil {
			return err
		}
	}
	for _, id := range n.Runs {
		_, err := c.row(sqlRun, func(cols *columns) {
			run := readRun(cols, w.id)
			if seen.Runs == nil {
				seen.Runs = map[string]*cairn.Run{}
			}
			seen.Runs[id] = &run
		}, r.key, id)
		if err != nil {
			return err
		}
	}
	if n.Checkpoint != "" {
		if _, err := c.row(sqlCheckpoint, func(cols *columns) { seen.Checkpoint = readCheckpoint(cols, w.id) }, r.key, n.Checkpoint); err != nil {
			return err
		}
	}
	if n.State {
		if seen.State, err = sizesAt(c, r.key, n.Position); err != nil {
			return err
		}
	}
	if n.Queue {
		err = c.query(context.Background(), sqlQueued, func(cols *columns) bool {
			seen.Queue = append(seen.Queue, cols.text())
			return true
		}, r.key)
		if err != nil {
			return err
		}
	}
	return w.seeCalls(c, r, n, seen)
}

// seeCalls reads those of the calls that a commit writes that exist.
func (w *write) seeCalls(c *conn, r *storedRow, n plan.Needs, seen *plan.Seen) error {
	if len(n.Calls) == 0 {
		return nil
	}
	w.calls, seen.Calls = map[string]callRow{}, map[string]plan.CallSeen{}
	for _, id := range n.Calls {
		row := callRow{call: &cairn.PendingCall{}}
		var session int64
		var at plan.CallSeen
		found, err := c.row(sqlCallSeen, func(cols *columns) {
			row.key, session, at.Version, row.call.CreatedAt = cols.int64(), cols.int64(), cols.int64(), cols.time()
		}, n.Root, id)
		switch {
		case err != nil:
			return err
		case !found:
			continue
		case r != nil && session == r.key:
			at.SessionID = w.id
		}
		w.calls[id], seen.Calls[id] = row, at
	}
	return nil
}
