package sqlitestore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const sqlHappened = `
	SELECT EXISTS (SELECT 1 FROM runs WHERE session = ?1 AND id = ?2)
		OR EXISTS (SELECT 1 FROM checkpoints WHERE session = ?1 AND step_id = ?3 AND step_id <> '')`

// write is one commit.
type write struct {
	s  *Store
	id string
	c  *driver.Commit
	// guess is the delta of the commit if the session is still as known says; nil if nothing useful is known.
	guess *plan.Delta
	known *storedRow
	// doubt says that a unique index refused the commit, so that everything is read.
	doubt bool
	// texts are the commit's messages in stored form, and ahead is the append of its events as guess has them, both
	// encoded before other writers have to wait. ahead is nil if an event gets the time of the commit.
	texts []string
	ahead *appending

	calls  map[string]callRow // the existing rows, by the call's id
	result *cairn.Session
	after  *storedRow // the session's row after the commit; nil if nothing is written
	told   *appending // the append of the commit's events; nil if it has none
}

// abilities are what commits to the store may have.
func (s *Store) abilities() driver.Abilities {
	return driver.Abilities{Dialect: dialect, MaxEvent: s.opts.MaxEvent}
}

// Commit implements driver.Store. A session that this process wrote recently is not read: the write is conditional on
// its cached row.
func (s *Store) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.ValidateFor(s.abilities()); err != nil {
		return nil, err
	}
	for i := range c.Statements {
		if err := oneCommand(c.Statements[i].SQL); err != nil {
			return nil, err
		}
	}
	texts, err := messageTexts(c.Messages)
	if err != nil {
		return nil, err
	}
	w := &write{s: s, id: id, c: c, texts: texts}
	if err := w.plan(); err != nil {
		return nil, err
	}
	err = w.do(ctx)
	if constraint(err) {
		w.doubt, w.guess = true, nil
		if err = w.do(ctx); constraint(err) {
			err = plan.Taken(id, err)
		}
	}
	if err != nil {
		return nil, fault("commit", err)
	}
	return w.result, nil
}

// plan plans the commit from the cached row. A commit that needs reads, or a comparison with the time, is planned by
// run.
func (w *write) plan() error {
	row, r := w.s.known.Get(w.id)
	if row == nil || len(w.c.Calls) > 0 {
		return nil
	}
	d := plan.Try(w.c, &plan.Seen{ID: w.id, Row: row, Checkpoints: r.checkpoints})
	if d == nil || d.Lapsed || d.LeaseUntil.Kept {
		return nil
	}
	w.guess, w.known = d, r
	if len(d.Events) == 0 || slices.ContainsFunc(d.Events, func(ev cairn.Event) bool { return ev.Time.IsZero() }) {
		return nil
	}
	w.ahead = &appending{log: d.Row.Log(), events: d.Finished()}
	return w.ahead.encode(w.s.log.tails.get(w.ahead.log))
}

// do has the writer run the commit.
func (w *write) do(ctx context.Context) error {
	return w.s.looking(ctx, func() error {
		return w.s.writer.do(&job{ctx: ctx, durable: true, single: len(w.c.Statements) > 0, run: w.run, after: w.settled})
	})
}

// settled is called when the commit is on disk.
func (w *write) settled() {
	w.remember()
	if w.told != nil {
		w.s.log.publish(w.told)
	}
}

// remember caches the row of a session that a run holds, for that is committed to soon.
func (w *write) remember() {
	switch {
	case w.after == nil:
	case w.after.session.Status != cairn.SessionActive:
		w.s.known.Drop(w.id)
	default:
		own := *w.after
		own.session = backend.CopyRow(own.session) // the caller owns the original
		w.s.known.Put(own.session, &own)
	}
}

// run does the commit within a transaction. It checks everything before the first write, except for what unique indexes
// check.
func (w *write) run(c *conn) error {
	w.result, w.after, w.told = nil, nil, nil
	now := w.s.clock()
	if w.guess != nil {
		done, err := w.apply(c, w.guess, w.known, now)
		if done || err != nil && !errors.Is(err, cairn.ErrDeleted) { // a dropped log may be that of an outdated row
			return err
		}
	}
	before, err := find(c, w.id)
	if err != nil && (!errors.Is(err, cairn.ErrNotFound) || w.c.Create == nil || driver.IsGone(err)) {
		return err
	}
	seen := &plan.Seen{ID: w.id, Doubt: w.doubt || len(w.c.Calls) > 0}
	if err == nil {
		seen.Row, seen.Checkpoints = before.session, before.checkpoints
	}
	d, err := plan.Work(w.c, seen, func(n plan.Needs) error { return w.answer(c, before, n, seen) })
	switch {
	case err != nil:
		return err
	case d == nil:
		w.result = seen.Row
		return nil
	}
	if done, err := w.apply(c, d, before, now); done || err != nil {
		return err
	}
	return &backend.Overdue{Roots: []string{seen.Row.RootID}} // only expiry is left: the row was read just now
}

// apply writes a delta to the session whose record is before, nil for a new one. done is false, and nothing is written,
// if the session has changed or may have expired.
func (w *write) apply(c *conn, d *plan.Delta, before *storedRow, now time.Time) (done bool, err error) {
	row := d.At(now)
	told, end, err := w.announce(c, d)
	if err != nil {
		return false, err
	}
	after := &storedRow{session: row, checkpoints: d.Checkpoints}
	if d.New {
		before = &storedRow{}
	}
	after.key, after.stop = before.key, before.stop
	after.waits(micros(d.DueAt.On(now, fromMicros(before.wait.Due))))
	if d.New {
		after.sweep = micros(d.SweepAt.On(now, time.Time{}))
		err = after.insert(c)
		done = true
	} else {
		done, err = after.update(c, d, before, now)
	}
	if !done || err != nil {
		return false, err
	}
	if err := after.writeHistory(c, d, w.texts); err != nil {
		return false, err
	}
	if err := w.writeWait(c, after.key, d); err != nil {
		return false, err
	}
	if err := w.execute(c, d.Statements); err != nil {
		return false, err
	}
	if told != nil {
		if err := told.add(c, &end); err != nil {
			return false, err
		}
	}
	w.result, w.after, w.told = row, after, told
	return true, nil
}

// announce prepares the append of a delta's events, whose times are known by now, and sets what follows from the end of the
// log. It returns nil without events. It writes nothing; the error is ErrDeleted for a log that was dropped.
func (w *write) announce(c *conn, d *plan.Delta) (a *appending, end place, err error) {
	if len(d.Events) == 0 {
		return nil, place{}, nil
	}
	a = &appending{log: d.Row.Log(), events: d.Finished()}
	switch {
	case d == w.guess && w.ahead != nil:
		*a = *w.ahead
	default:
		if err := a.encode(w.s.log.tails.get(a.log)); err != nil {
			return nil, place{}, err
		}
	}
	if d.Fence {
		a.writer = &driver.Writer{Session: d.Row.ID, Token: d.Row.Lease.Token}
	}
	end, err = findPlace(c, a.log, a.writer)
	if err == nil {
		err = a.fits(&end)
	}
	d.Logged(end.last)
	return a, end, err
}

// writeHistory writes the rows of a session's past. texts are the messages in stored form.
func (r *storedRow) writeHistory(c *conn, d *plan.Delta, texts []string) error {
	if d.Cut != nil {
		if err := r.cut(c, d.Cut); err != nil {
			return err
		}
	}
	if d.New {
		if err := insertState(c, r.key, &plan.StatePiece{Keyframe: true, Data: d.Initial}); err != nil {
			return err
		}
	}
	if d.EndRun != nil {
		if err := updateRun(c, r.key, d.EndRun, d.TextAt); err != nil {
			return err
		}
	}
	if d.StartRun != nil {
		if err := insertRun(c, r.key, d.StartRun, 0); err != nil {
			return err
		}
	}
	for i := range d.Messages {
		if err := insertMessage(c, r.key, d.FirstMessage+i, &d.Messages[i], texts[i]); err != nil {
			return err
		}
	}
	if d.State != nil {
		if err := insertState(c, r.key, d.State); err != nil {
			return err
		}
	}
	if d.Usage != nil {
		if err := insertUsage(c, d.Usage); err != nil {
			return err
		}
	}
	if d.Checkpoint != nil {
		return insertCheckpoint(c, r.key, d.Checkpoint)
	}
	return nil
}

// writeWait writes the rows of pending work and of steps under way: calls, queue, cache, staged pieces.
func (w *write) writeWait(c *conn, key int64, d *plan.Delta) error {
	if d.DropStaged {
		if _, err := c.exec(sqlDropStaged, key); err != nil {
			return err
		}
	}
	for i := range d.Calls {
		row := w.calls[d.Calls[i].Row.ID]
		if err := row.fill(d.Calls[i].On(row.call)); err != nil {
			return err
		}
		if err := row.write(c, key); err != nil {
			return err
		}
	}
	if d.Enqueue != nil {
		turn, err := backend.EncodeJSON("queued turn", d.Enqueue)
		if err != nil {
			return err
		}
		if _, err := c.exec(sqlEnqueue, key, d.Enqueue.ID, turn); err != nil {
			return err
		}
	}
	for _, id := range d.Dequeue {
		if _, err := c.exec(sqlDequeue, key, id); err != nil {
			return err
		}
	}
	return writeCache(c, key, d)
}
