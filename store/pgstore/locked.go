package pgstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// sqlLook reads a session's row with the other rows that commits may depend on: by runs_id, checkpoints_step, the key
// of queue and the key of calls.
const sqlLook = `
	SELECT` + sessionColumns + `, coalesce(r.sweep_at <= statement_timestamp(), FALSE),
		EXISTS (SELECT FROM {schema}.runs WHERE session = s.key AND id = $2)
			OR EXISTS (SELECT FROM {schema}.checkpoints WHERE session = s.key AND step_key = $3),
		EXISTS (SELECT FROM {schema}.runs WHERE session = s.key AND id = $4),
		ARRAY(SELECT q.id FROM {schema}.queue q WHERE q.session = s.key ORDER BY q.number),
		(SELECT jsonb_object_agg(c.id, jsonb_build_object('SessionID', CASE c.session WHEN s.key THEN s.id ELSE '' END,
				'Version', c.version))
			FROM {schema}.calls c WHERE c.root_id = s.root_id AND c.id = ANY ($5::text[]))
	FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key LEFT JOIN {schema}.sessions r ON r.id = s.root_id
	WHERE s.id = $1`

// look is what was read along with a session's row.
type look struct {
	root     string // empty if there is no session
	happened bool
	endRun   bool // the run that the commit ends exists
	queue    []string
	calls    map[string]plan.CallSeen
}

// look reads the session's row, if it exists, with what the commit may depend on.
func (w *write) look(ctx context.Context, c *conn) (*plan.Seen, *look, error) {
	var run, end string
	var step *int64
	if w.c.StartRun != nil {
		run = w.c.StartRun.ID
	}
	if w.c.Checkpoint != nil {
		step = orNull(keyOf(w.c.Checkpoint.StepID), w.c.Checkpoint.StepID != "")
	}
	if w.c.EndRun != nil {
		end = w.c.EndRun.ID
	}
	l := &look{}
	var r *storedRow
	var calls []byte
	err := c.query(ctx, sqlLook, func(rows pgx.Rows) error {
		r = &storedRow{}
		return r.read(rows, &r.over, &l.happened, &l.endRun, &l.queue, &calls)
	}, w.id, run, step, end, w.calls.id)
	if err != nil {
		return nil, nil, err
	}
	err = c.checkUsable(ctx, w.id, r)
	switch {
	case r == nil && w.c.Create != nil && err != nil && !driver.IsGone(err):
		w.key = 0
		return &plan.Seen{ID: w.id, Doubt: true}, l, nil
	case err != nil:
		return nil, nil, err
	case len(calls) > 0:
		if err := json.Unmarshal(calls, &l.calls); err != nil {
			return nil, nil, err
		}
	}
	w.key, l.root = r.key, r.session.RootID
	if !c.inTransaction() {
		c.db.remember(r)
	}
	return &plan.Seen{ID: w.id, Row: r.session, Checkpoints: r.checkpoints, Doubt: true}, l, nil
}

// answer puts what was read along with the row into seen, and reports whether a plan needs no more than that.
func (l *look) answer(n plan.Needs, c *driver.Commit, seen *plan.Seen) bool {
	seen.Happened, seen.Queue, seen.Calls = l.happened, l.queue, l.calls
	if l.endRun {
		seen.Runs = map[string]*cairn.Run{c.EndRun.ID: {ID: c.EndRun.ID}}
	}
	return c.RewindRun == "" && n.Checkpoint == "" && !n.State && (len(n.Calls) == 0 || n.Root == l.root)
}

// looksLocked bounds how often a commit that has locked the session's row, or found none, reads again because time has
// passed or another writer has created the session.
const looksLocked = 10

// runLocked applies the commit in a transaction that locks the session's row, so that what the commit depends on does
// not change after it was read.
func (w *write) runLocked(ctx context.Context, c *conn) error {
	for range looksLocked {
		if _, err := c.exec(ctx, sqlLockSession, w.id); err != nil {
			return err
		}
		err := w.work(ctx, c, func(n plan.Needs, seen *plan.Seen) error { return w.readMore(ctx, c, n, seen) })
		if contradicted(err) { // although nothing that was looked up contradicts it
			return plan.Taken(w.id, err)
		}
		if err != nil || w.result != nil {
			return err
		}
	}
	return cairn.Errorf(cairn.ErrUnavailable, "session %q: no time left to write a commit", w.id)
}

// readMore reads what only a few commits depend on.
func (w *write) readMore(ctx context.Context, c *conn, n plan.Needs, seen *plan.Seen) (err error) {
	for _, id := range n.Runs {
		err := c.query(ctx, sqlRun, func(rows pgx.Rows) error {
			run, err := readRun(rows, w.id)
			if seen.Runs == nil {
				seen.Runs = map[string]*cairn.Run{}
			}
			seen.Runs[id] = &run
			return err
		}, w.id, id)
		if err != nil {
			return err
		}
	}
	if n.Checkpoint != "" {
		if seen.Checkpoint, err = c.checkpoint(ctx, w.id, n.Checkpoint); err != nil {
			return err
		}
	}
	if n.State {
		if seen.State, err = c.sizesAt(ctx, w.key, n.Position); err != nil {
			return err
		}
	}
	if len(n.Calls) == 0 || seen.Row != nil {
		return nil
	}
	seen.Calls = map[string]plan.CallSeen{}
	return c.query(ctx, sqlCallsSeen, func(rows pgx.Rows) error {
		var id string
		var call plan.CallSeen
		err := rows.Scan(&id, &call.SessionID, &call.Version)
		seen.Calls[id] = call
		return err
	}, n.Root, n.Calls)
}

// attemptRead applies the commit on the row as it is read, or refuses it.
func (w *write) attemptRead(ctx context.Context, c *conn) error {
	return w.work(ctx, c, func(plan.Needs, *plan.Seen) error { return errMore })
}

// errMore reports that a commit depends on more than what is read along with the row.
var errMore = errors.New("more is to be read")

// work reads the session's row, plans the commit on it and applies it. more reads what else the commit depends on.
func (w *write) work(ctx context.Context, c *conn, more func(plan.Needs, *plan.Seen) error) error {
	seen, look, err := w.look(ctx, c)
	if err != nil {
		return err
	}
	w.d, err = plan.Work(w.c, seen, func(n plan.Needs) error {
		if look.answer(n, w.c, seen) {
			return nil
		}
		return more(n, seen)
	})
	switch {
	case errors.Is(err, errMore):
		return nil
	case err != nil:
		return err
	case w.d == nil: // applied before
		w.result = seen.Row
		return nil
	}
	if err = w.encodeDelta(); err != nil {
		return err
	}
	return w.apply(ctx, c)
}
