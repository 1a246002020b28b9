package pgstore

import "context"

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
		if err := w.keepTexts(ctx, c, cut.Messages); err != nil {
			return err
		}
		if _, err := c.exec(ctx, sqlCut, w.key, cut.Messages, cut.State, cut.Checkpoint); err != nil {
			return err
		}
	}
	a, err := w.send(ctx, c)
	if err != nil || a.key == 0 { // an error counts even after the row came, since the server commits later
		return err
	}
	if err := c.execute(ctx, w.d.Statements); err != nil {
		return err
	}
	w.written(a)
	if len(w.d.Events) > 0 && a.logged == nil {
		return w.appendLast(ctx, c)
	}
	return nil
}

// send sends the delta's statement. If the tree has no log for its events yet, it makes one. The error is ErrDeleted if
// the log was dropped and c is in a transaction: only then is it known that the commit was not applied before.
func (w *write) send(ctx context.Context, c *conn) (a *answer, err error) {
	text := w.statement()
	for {
		a = &answer{}
		held, err := c.row(ctx, text.text, a.columns(), text.values(w)...)
		if err != nil || a.key != 0 || !w.appends() || !held && !w.d.New {
			return a, err
		}
		if held {
			if made, err := c.makeLog(ctx, w.d.Row.Log()); err != nil {
				return a, err
			} else if made {
				continue
			}
		}
		if c.inTransaction() {
			err = c.checkLog(ctx, w.d.Row.Log())
		}
		return a, err
	}
}

// statement returns the smallest statement that can write the delta.
func (w *write) statement() *statement {
	if w.appends() {
		return w.forms().logged
	}
	return w.forms().plain
}

// forms returns the forms of the delta's statement.
func (w *write) forms() *forms {
	d := w.d
	runs, state := d.StartRun != nil || d.EndRun != nil, d.State != nil
	many := len(d.Calls) > 0 || d.Enqueue != nil || len(d.Dequeue) > 0 || len(d.Cache) > 0 || len(d.CacheDrop) > 0
	switch {
	case d.New && (many || state || d.Checkpoint != nil || d.Usage != nil):
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
