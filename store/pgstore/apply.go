package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// alone writes a delta in a statement of its own, or in a transaction with the statements that tools have recorded.
func (d *database) alone(ctx context.Context, w *write) error {
	return d.once(ctx, w.repeat(), func(ctx context.Context, c *conn) error {
		if len(w.c.Statements) == 0 {
			return w.apply(ctx, c)
		}
		return c.transact(ctx, func(c *conn) error { return w.apply(ctx, c) })
	})
}

// apply writes the delta, in a transaction if there are statements of tools. Without a result, its conditions did not
// hold.
func (w *write) apply(ctx context.Context, c *conn) (err error) {
	if cut := w.d.Cut; cut != nil { // the caller has begun a transaction
		if _, err := c.exec(ctx, sqlCut, w.key, cut.Messages, cut.State, cut.Checkpoint); err != nil {
			return err
		}
	}
	text := w.statement()
	var key int64
	var updated, now time.Time
	var until *time.Time
	err = c.query(ctx, text.text, func(rows pgx.Rows) error { return rows.Scan(&key, &updated, &until, &now) }, text.values(w)...)
	if err != nil || key == 0 { // an error counts even after the row came, since the server commits later
		return err
	}
	if err := c.execute(ctx, w.d.Statements); err != nil {
		return err
	}
	w.written(key, updated, until, now)
	return nil
}

// statement returns the smallest statement that can write the delta.
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
