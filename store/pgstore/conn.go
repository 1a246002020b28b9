package pgstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// querier is what runs statements: the pool or a transaction.
type querier interface {
	Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// conn runs the statements of a store on the pool or in a transaction.
type conn struct {
	s *Store
	q querier
}

// inTransaction reports whether the writes may still be rolled back.
func (c *conn) inTransaction() bool {
	_, is := c.q.(pgx.Tx)
	return is
}

// check asks the hook of tests whether a statement may be sent.
func (c *conn) check(text string) error {
	if hook := c.s.intercept.Load(); hook != nil {
		return (*hook)(text)
	}
	return nil
}

// exec runs a statement that returns no rows and returns how many it changed.
func (c *conn) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if err := c.check(text); err != nil {
		return 0, err
	}
	tag, err := c.q.Exec(ctx, c.s.texts.of(text), args...)
	return tag.RowsAffected(), err
}

// query runs a statement and calls each for each of its rows.
func (c *conn) query(ctx context.Context, text string, each func(pgx.Rows) error, args ...any) error {
	if err := c.check(text); err != nil {
		return err
	}
	rows, err := c.q.Query(ctx, c.s.texts.of(text), args...)
	if err != nil {
		return err
	}
	return drain(rows, each)
}

func drain(rows pgx.Rows, each func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// row runs a statement that returns at most one row, and reports whether it did.
func (c *conn) row(ctx context.Context, text string, into []any, args ...any) (found bool, err error) {
	err = c.query(ctx, text, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(into...)
	}, args...)
	return found, err
}

// repeat says when an operation may be retried.
type repeat int

const (
	reads repeat = iota // always: it changes nothing
	again               // even if it may have happened: doing it twice is doing it once
	once                // only if it has certainly not happened
)

const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond

	// answerWithin is how long a write whose context is done waits for the server to report its outcome.
	answerWithin = 5 * time.Second
)

// try runs an operation on a connection. It retries while the server cannot be reached, for up to RetryFor, and after
// the operation found sessions that may have expired.
func (s *Store) try(ctx context.Context, doing string, how repeat, do func(context.Context, *conn) error) error {
	return s.looking(ctx, func() error {
		return s.reach(ctx, doing, how, func() error { return s.once(ctx, how, do) })
	})
}

// reach runs an operation, and retries it while the server cannot be reached.
func (s *Store) reach(ctx context.Context, doing string, how repeat, do func() error) error {
	began := time.Time{}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := do()
		if err == nil {
			return nil
		}
		if s.closed.Load() {
			return errClosed
		}
		transient := undone(err) || how != once && lost(err)
		if !transient || ctx.Err() != nil {
			return fault(doing, err)
		}
		if state(err) == stateReadOnly {
			s.pool.Reset() // after a failover the old connections lead to a replica
		}
		if began.IsZero() {
			began = time.Now()
		}
		if time.Since(began) >= s.opts.RetryFor {
			return fault(doing, err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fault(doing, err)
		}
	}
}

// once runs an operation one time. A write is not abandoned while the server executes it, so that a caller that cancels
// it knows its outcome.
func (s *Store) once(ctx context.Context, how repeat, do func(context.Context, *conn) error) error {
	if s.closed.Load() {
		return errClosed
	}
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if how == reads {
		return do(ctx, &conn{s: s, q: c})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answerWithin, cancel) })()
	return do(patient, &conn{s: s, q: c})
}

// transact runs an operation in a transaction.
func (c *conn) transact(ctx context.Context, do func(c *conn) error) error {
	tx, err := c.q.(interface {
		Begin(context.Context) (pgx.Tx, error)
	}).Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(&conn{s: c.s, q: tx}); err != nil {
		// Without an answer to it the connection is closed, which has the same effect.
		tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	if err := c.check("COMMIT"); err != nil {
		tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	return tx.Commit(ctx)
}

// reading is a statement of a view with the handler of its rows.
type reading struct {
	text string
	args []any
	each func(pgx.Rows) error
}

// view runs statements that see one point in time, in one round trip.
func (c *conn) view(ctx context.Context, list ...reading) (err error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	for _, r := range list {
		if err := c.check(r.text); err != nil {
			return err
		}
		b.Queue(c.s.texts.of(r.text), r.args...)
	}
	b.Queue("COMMIT")
	results := c.q.SendBatch(ctx, &b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	if _, err := results.Exec(); err != nil {
		return err
	}
	for _, r := range list {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if err := drain(rows, r.each); err != nil {
			return err
		}
	}
	_, err = results.Exec()
	return err
}
