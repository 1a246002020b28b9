package pgstore

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// database is the base of the store: the connections to a schema, and the retries of an operation. The verbs are
// methods of the Store that embeds it.
type database struct {
	opts     Options
	pool     *pgxpool.Pool
	ownsPool bool
	texts    texts
	origin   string // prefix of its messages to other stores, to recognize its own
	known    backend.Known[*knownSession]
	closed   atomic.Bool

	// expire removes the tree of a root that has expired; it is Store.Remove.
	expire func(ctx context.Context, root string) error

	// intercept, if set, may make a statement fail before it is sent. Only tests set it.
	intercept atomic.Pointer[func(text string) error]
}

// dial makes a connection like those of the pool, outside of it.
func (d *database) dial(ctx context.Context) (*pgx.Conn, error) {
	config := d.pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// knownSession is a session as a commit left it or a read found it. It is immutable.
type knownSession struct {
	key         int64
	row         *cairn.Session
	checkpoints int64 // number ever written
}

// repeat determines when an operation may be retried.
type repeat int

const (
	reads repeat = iota // always, as it changes nothing
	again               // even if it may have been applied, as it is idempotent
	once                // only if it was certainly not applied
)

const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond

	// answerWithin is how long a write whose context is done waits for the server to report its outcome.
	answerWithin = 5 * time.Second
)

// try runs an operation on a connection. It retries while the server cannot be reached, for up to RetryFor, and
// whenever the operation found sessions that may have expired.
func (d *database) try(ctx context.Context, doing string, how repeat, do func(context.Context, *conn) error) error {
	return d.looking(ctx, func() error {
		return d.reach(ctx, doing, how, func() error { return d.once(ctx, how, do) })
	})
}

// reach runs an operation and retries it while the server cannot be reached.
func (d *database) reach(ctx context.Context, doing string, how repeat, do func() error) error {
	began := time.Time{}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := do()
		if err == nil {
			return nil
		}
		if d.closed.Load() {
			return errClosed
		}
		transient := undone(err) || how != once && lost(err)
		if !transient || ctx.Err() != nil {
			return fault(doing, err)
		}
		if state(err) == stateReadOnly {
			d.pool.Reset() // after a failover the old connections lead to a replica
		}
		if began.IsZero() {
			began = time.Now()
		}
		if time.Since(began) >= d.opts.RetryFor {
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

// once runs an operation a single time. A write is not abandoned while the server executes it, so that a caller that
// cancels it learns its outcome.
func (d *database) once(ctx context.Context, how repeat, do func(context.Context, *conn) error) error {
	if d.closed.Load() {
		return errClosed
	}
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if how == reads {
		return do(ctx, &conn{db: d, q: c})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answerWithin, cancel) })()
	return do(patient, &conn{db: d, q: c})
}

// looking repeats an operation while it finds roots that may have expired. It removes those that have.
func (d *database) looking(ctx context.Context, do func() error) error {
	return backend.Look(ctx, d.expire, do)
}
