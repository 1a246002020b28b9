package pgstore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// Commit implements driver.Store. It is one statement and one round trip if the session is known, and one more of each
// if it is not. A commit that is refused, rewinds, or changes a queue that has turns in it takes more.
func (s *Store) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := s.prepare(id, c)
	if err != nil {
		return nil, err
	}
	err = s.looking(ctx, func() error {
		return s.reach(ctx, "commit", w.repeat(), func() error { return s.commit(ctx, w) })
	})
	s.publish(w, err)
	if err != nil {
		return nil, err
	}
	if w.left != nil {
		s.known.Put(w.left.row, w.left)
	}
	return w.result, nil
}

// commit applies the commit on the known row if there is one. Without a known row, or if it is out of date, it reads
// the row first. If it then meets another writer, or consists of several statements, it locks the session's row.
func (s *Store) commit(ctx context.Context, w *write) error {
	w.result, w.left = nil, nil // left over from an attempt whose transaction failed
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

// commitKnown applies the commit on the known row, or on none if the commit creates the session. Without a result, the
// row has changed or the commit depends on more than the row.
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

// publish announces the events of a commit, whose error is err.
func (s *Store) publish(w *write, err error) {
	switch {
	case len(w.c.Events) == 0 || w.c.Outbox:
	case err != nil:
		if w.d != nil && !refused(err) {
			s.log.announce(w.d.Row.Log(), 0, nil, false, err)
		}
	case w.left != nil:
		s.log.announce(w.d.Row.Log(), w.last, w.d.Finished(), true, nil)
	default: // applied before
		s.log.announce(w.result.Log(), w.result.LogSequence, w.c.Events, false, nil)
	}
}

// refused reports whether an error says that a commit was not written. After any other error it may have been.
func refused(err error) bool {
	var known *cairn.Error
	return errors.As(err, &known) && known.Code != cairn.ErrUnavailable
}
