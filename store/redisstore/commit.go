package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var writes = sync.Pool{New: func() any { return &write{} }}

// Commit implements driver.Store. It is one round trip if this process knows the session's row or creates the session.
func (s *Store) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	err := c.ValidateFor(driver.Abilities{MaxEvent: s.opts.MaxEvent})
	if err == nil && c.Create != nil {
		err = cairn.CheckSessionID(id)
	}
	if err != nil {
		return nil, err
	}
	w := writes.Get().(*write)
	w.db, w.log, w.id, w.c = &s.database, s.log, id, c
	defer func() {
		*w = write{}
		writes.Put(w)
	}()
	if row, known := s.known.Get(id); row != nil {
		w.known = known
		w.at = &w.known
	} else if c.Create == nil {
		return w.work(ctx, false)
	}
	if w.d = plan.Try(c, w.seen()); w.d != nil {
		if row, err := w.apply(ctx); row != nil || err != nil {
			return row, err
		}
	} else {
		w.at = nil
	}
	return w.work(ctx, true)
}

// work plans and writes the commit on w.at, a row that a script has just returned, or on a row that it reads if w.at is
// nil. doubt says that the conditions of an earlier write did not hold.
func (w *write) work(ctx context.Context, doubt bool) (*cairn.Session, error) {
	for ; ; doubt = true {
		if w.at == nil {
			run, step := w.keys()
			err := w.look(ctx, plan.Needs{Happened: true, RunID: run, StepID: step}, nil)
			if err != nil && (w.c.Create == nil || !absent(err)) {
				return nil, err
			}
		}
		seen := w.seen()
		seen.Doubt = doubt && w.at != nil
		d, err := plan.Work(w.c, seen, func(n plan.Needs) error { return w.look(ctx, n, seen) })
		switch {
		case errors.Is(err, errMoved):
			continue
		case w.at != nil:
			w.db.remember(w.at)
		}
		if err != nil {
			return seen.Row, err
		}
		if d == nil {
			w.thereAlready(seen.Row)
			return seen.Row, nil
		}
		w.d = d
		if row, err := w.apply(ctx); row != nil || err != nil {
			return row, err
		}
	}
}

// apply writes the delta. A nil row without an error means that its conditions did not hold; w.at is then the row that
// the server has, or nil.
func (w *write) apply(ctx context.Context) (row *cairn.Session, err error) {
	w.fillAfter()
	if w.simple() {
		var done bool
		if row, done, err = w.step(ctx); !done && err == nil {
			w.refused(nil)
		}
	} else {
		row, err = w.rows(ctx)
	}
	if err != nil && len(w.d.Events) > 0 {
		w.log.listener.hub.Wake(w.d.Row.Log()) // it is unknown whether they were appended
	}
	return row, err
}
