package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// write is one commit: with everything encoded that does not depend on the session, and then with a delta.
type write struct {
	id string
	c  *store.Commit

	messages   []string
	checkpoint names
	startData  string
	endData    string
	turnData   string
	calls      callColumns
	cache      cacheColumns

	// What is written, and to which session; a key of 0 makes one.
	d        *plan.Delta
	key      int64
	headData string

	result *cairn.Session
	left   *knownSession // the session as the write left it
}

// Commit implements store.Store. It is one statement and one round trip if the session is known, one more if it is
// not. A commit that is refused, rewinds, or changes a queue that has turns in it takes more.
func (s *Store) Commit(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := prepare(id, c)
	if err != nil {
		return nil, err
	}
	err = s.looking(ctx, func() error {
		return s.reach(ctx, "commit", w.repeat(), func() error { return s.commit(ctx, w) })
	})
	if err != nil {
		return nil, err
	}
	if w.left != nil {
		s.known.Put(w.left.row, w.left)
	}
	return w.result, nil
}

// prepare encodes what a commit writes.
func prepare(id string, c *store.Commit) (*write, error) {
	if err := c.ValidateFor(dialect); err != nil {
		return nil, err
	}
	w := &write{id: id, c: c}
	if c.Create != nil {
		if err := cairn.CheckSessionID(id); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{w.encodeContent, w.encodeRecords} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *write) encodeContent() (err error) {
	w.messages = make([]string, len(w.c.Messages))
	for i := range w.c.Messages {
		if w.messages[i], err = encodeMessage(&w.c.Messages[i]); err != nil {
			return err
		}
	}
	if run := w.c.StartRun; run != nil {
		if w.startData, err = encodeRun(run); err != nil {
			return err
		}
	}
	if run := w.c.EndRun; run != nil {
		w.endData, err = encodeRun(run)
	}
	return err
}

func (w *write) encodeRecords() (err error) {
	if err = w.calls.fill(w.c.Calls); err != nil {
		return err
	}
	if w.c.Enqueue != nil {
		if w.turnData, err = encode("queued turn", w.c.Enqueue); err != nil {
			return err
		}
	}
	return w.cache.fill(w.c.Cache, w.c.CacheDrop)
}

// encodeDelta encodes what depends on the session.
func (w *write) encodeDelta() (err error) {
	if w.d.Checkpoint != nil {
		w.checkpoint = namesOf(w.d.Checkpoint, w.d.Row)
	}
	w.headData, err = encodeHead(w.d.Row, w.d.Checkpoints)
	return err
}

func (w *write) repeat() repeat {
	if w.c.StartRun != nil && w.c.StartRun.ID != "" || w.c.Checkpoint != nil && w.c.Checkpoint.StepID != "" {
		return again
	}
	return once
}

// commit does the commit: on the row that is known if there is one, else, or if it is out of date, on the row that is
// read for it. A commit that meets another writer then, or is of several statements, holds the session's row.
func (s *Store) commit(ctx context.Context, w *write) error {
	w.result, w.left = nil, nil // of an attempt whose transaction did not end well
	rewinds := w.c.Rewind != "" || w.c.RewindRun != ""
	if !rewinds {
		if err := s.commitKnown(ctx, w); err != nil && !contradicted(err) || w.result != nil {
			return err
		}
	}
	return s.once(ctx, w.repeat(), func(ctx context.Context, c *conn) error {
		if !rewinds && len(w.c.Statements) == 0 {
			if err := w.attemptRead(ctx, c); err != nil && !contradicted(err) || w.result != nil {
				return err
			}
		}
		return c.transact(ctx, func(c *conn) error { return w.runLocked(ctx, c) })
	})
}

// commitKnown does the commit on the row that is known, or on none if it creates the session. Without a result the row
// has changed, or the commit depends on more than the row.
func (s *Store) commitKnown(ctx context.Context, w *write) (err error) {
	seen := plan.Seen{ID: w.id}
	_, known := s.known.Get(w.id)
	switch {
	case known != nil:
		seen.Row, seen.Checkpoints, w.key = known.row, known.checkpoints, known.key
	case w.c.Create == nil:
		return nil
	}
	if w.d = plan.Try(w.c, &seen); w.d == nil {
		return nil
	}
	if err = w.encodeDelta(); err != nil {
		return err
	}
	if s.opts.Collectors > 0 && w.joins() {
		return s.joiner.apply(ctx, w)
	}
	return s.alone(ctx, w)
}

// alone writes a delta in a statement of its own, or in a transaction with those that tools have recorded.
func (s *Store) alone(ctx context.Context, w *write) error {
	return s.once(ctx, w.repeat(), func(ctx context.Context, c *conn) error {
		if len(w.c.Statements) == 0 {
			return w.apply(ctx, c)
		}
		return c.transact(ctx, func(c *conn) error { return w.apply(ctx, c) })
	})
}

// attemptRead does the commit on the row as it is read, or refuses it.
func (w *write) attemptRead(ctx context.Context, c *conn) error {
	return w.work(ctx, c, func(plan.Needs, *plan.Seen) error { return errMore })
}

// errMore reports that a commit depends on more than what is read along with the row.
var errMore = errors.New("more is to be read")

// work reads the session's row, plans the commit on it and applies it. more reads what else it depends on.
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
	case w.d == nil: // it has happened before
		w.result = seen.Row
		return nil
	}
	if err = w.encodeDelta(); err != nil {
		return err
	}
	return w.apply(ctx, c)
}

// apply writes the delta, in a transaction if there are statements of tools. Without a result its conditions did not hold.
func (w *write) apply(ctx context.Context, c *conn) (err error) {
	if cut := w.d.Cut; cut != nil { // in a transaction
		if _, err := c.exec(ctx, sqlCut, w.key, cut.Messages, cut.State, cut.Checkpoint); err != nil {
			return err
		}
	}
	text := w.statement()
	var key int64
	var updated, now time.Time
	var until *time.Time
	err = c.query(ctx, text.text, func(rows pgx.Rows) error { return rows.Scan(&key, &updated, &until, &now) }, text.values(w)...)
	if err != nil || key == 0 { // with an error also if the row came, for the server commits after that
		return err
	}
	if err := w.execute(ctx, c); err != nil {
		return err
	}
	w.written(key, updated, until, now)
	return nil
}

// written makes the written row the result.
func (w *write) written(key int64, updated time.Time, until *time.Time, now time.Time) {
	row := w.d.At(now)
	row.UpdatedAt, row.Lease.Until = updated.UTC(), instant(until)
	if row.AsOf.Before(row.UpdatedAt) { // the server's clock was set back
		row.AsOf = row.UpdatedAt
	}
	w.result, w.left = backend.CopyRow(row), &knownSession{key, row, w.d.Checkpoints}
}

// statement returns the smallest statement that writes the delta.
func (w *write) statement() *statement {
	d := w.d
	runs, state := d.StartRun != nil || d.EndRun != nil, d.State != nil
	many := len(d.Calls) > 0 || d.Enqueue != nil || len(d.Dequeue) > 0 || len(d.Cache) > 0 || len(d.CacheDrop) > 0
	switch {
	case d.New && (many || state || d.Checkpoint != nil):
		return createAll
	case d.New:
		return createRun
	case many || d.Context:
		return commitAll
	case runs:
		return commitRun
	case state:
		return commitState
	}
	return commitStep
}
