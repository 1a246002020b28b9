package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// querier runs statements: the pool, one of its connections or a transaction.
type querier interface {
	Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// conn runs the statements of a store on a connection or in a transaction.
type conn struct {
	db *database
	q  querier
}

// inTransaction reports whether the writes may still be rolled back.
func (c *conn) inTransaction() bool {
	_, is := c.q.(pgx.Tx)
	return is
}

// check asks the tests' hook whether a statement may be sent.
func (c *conn) check(text string) error {
	if hook := c.db.intercept.Load(); hook != nil {
		return (*hook)(text)
	}
	return nil
}

// exec runs a statement that returns no rows and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if err := c.check(text); err != nil {
		return 0, err
	}
	tag, err := c.q.Exec(ctx, c.db.texts.of(text), args...)
	return tag.RowsAffected(), err
}

// query runs a statement and calls each for each of its rows.
func (c *conn) query(ctx context.Context, text string, each func(pgx.Rows) error, args ...any) error {
	if err := c.check(text); err != nil {
		return err
	}
	rows, err := c.q.Query(ctx, c.db.texts.of(text), args...)
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

// row runs a statement that returns at most one row and reports whether it returned one.
func (c *conn) row(ctx context.Context, text string, into []any, args ...any) (found bool, err error) {
	err = c.query(ctx, text, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(into...)
	}, args...)
	return found, err
}

// transact runs an operation in a transaction.
func (c *conn) transact(ctx context.Context, do func(c *conn) error) error {
	tx, err := c.q.(interface {
		Begin(context.Context) (pgx.Tx, error)
	}).Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(&conn{db: c.db, q: tx}); err != nil {
		// If the server does not answer, the connection is closed, which has the same effect.
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

// view runs statements that see the same point in time, in one round trip.
func (c *conn) view(ctx context.Context, list ...reading) (err error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	for _, r := range list {
		if err := c.check(r.text); err != nil {
			return err
		}
		b.Queue(c.db.texts.of(r.text), r.args...)
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
