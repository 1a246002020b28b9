package pgstore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// creations bounds how often a commit that creates its session meets another creator who then deletes it.
const creations = 10

// runLocked does the commit in a transaction that holds the session's row, so that what it depends on can be looked up
// first. All that can be refused is refused before the first write.
func (w *write) runLocked(ctx context.Context, c *conn) error {
	for range creations {
		r, err := c.findBy(ctx, sqlLockSession, w.id)
		switch {
		case err == nil:
			return w.change(ctx, c, r)
		case !errors.Is(err, cairn.ErrNotFound) || w.c.Create == nil || store.IsGone(err):
			return err
		}
		if err := w.checkCreation(); err != nil {
			return err
		}
		s := w.shape&^(allGuards|withContext) | withCreate | onlyCreate
		s |= w.queueShape(w.c.Enqueue != nil && w.c.Enqueue.ID != w.c.Dequeue, false)
		if _, err := w.attempt(ctx, c, s); err != nil {
			return w.explain(err)
		}
		if w.result != nil {
			return nil
		}
	}
	return c.gone(ctx, w.id)
}

// checkCreation refuses what only a session that is there can do.
func (w *write) checkCreation() error {
	row := w.created
	switch {
	case w.c.Rewind != "":
		return store.UnknownCheckpoint(w.id, w.c.Rewind)
	case w.c.RewindRun != "":
		return store.UnknownRun(w.id, w.c.RewindRun)
	case w.c.Dequeue != "" && (w.c.Enqueue == nil || w.c.Enqueue.ID != w.c.Dequeue):
		return notQueued(row, w.c.Dequeue)
	case w.c.EndRun != nil:
		return store.UnknownRun(w.id, w.c.EndRun.ID)
	}
	for i := range w.c.Calls {
		if w.c.Calls[i].Seen != 0 {
			return store.CallConflict(row, w.c.Calls[i].Call.ID)
		}
	}
	return nil
}

// change does the commit on a session that is there and locked.
func (w *write) change(ctx context.Context, c *conn, r *record) error {
	if done, err := w.check(ctx, c, r); done || err != nil {
		return err
	}
	if err := w.checkCalls(ctx, c, r); err != nil {
		return err
	}
	to, err := c.origin(ctx, r, w.c)
	if err != nil {
		return err
	}
	enqueue, dequeue, err := w.checkQueue(ctx, c, r)
	if err != nil {
		return err
	}
	if err := w.checkEndRun(ctx, c, r); err != nil {
		return err
	}
	if to != nil {
		if err := c.goBack(ctx, r, to); err != nil {
			return err
		}
	}
	s := w.shape&^(allGuards|withCreate|onlyCreate) | w.queueShape(enqueue, dequeue)
	if _, err := w.attempt(ctx, c, s); err != nil {
		return w.explain(err)
	}
	if w.result == nil {
		return cairn.Errorf(cairn.CodeInternal, "session %q: a commit under the row's lock did not apply", w.id)
	}
	return nil
}

// explain gives the error of a row that is there already a code. What the commit's own rows say has been looked up, so the
// rows that remain are those of a checkpoint under another step.
func (w *write) explain(err error) error {
	if contradicted(err) {
		return cairn.Errorf(cairn.CodeInvalid, "session %q has a run or checkpoint of that id: %w", w.id, err)
	}
	return err
}

func (w *write) checkEndRun(ctx context.Context, c *conn, r *record) error {
	if w.c.EndRun == nil {
		return nil
	}
	var there bool
	_, err := c.row(ctx, sqlRunThere, []any{&there}, r.key, w.c.EndRun.ID)
	if err == nil && !there {
		err = store.UnknownRun(w.id, w.c.EndRun.ID)
	}
	return err
}
