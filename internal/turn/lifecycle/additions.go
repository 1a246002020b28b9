package lifecycle

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// TakeAdditions adds to a commit that ends the run of a session the context that was added to the run under way, see
// [driver.QueuedTurn]. The commit must be guarded by the row's version.
func (r *Runs) TakeAdditions(ctx context.Context, c *driver.Commit, row *cairn.Session, runID string) error {
	ids, messages, err := r.additions(ctx, row)
	c.Dequeue, c.Messages = append(c.Dequeue, ids...), append(c.Messages, stamp(messages, runID)...)
	return err
}

// additions returns the entries of a session's queue that are not turns, and their messages.
func (r *Runs) additions(ctx context.Context, row *cairn.Session) (ids []string, messages []cairn.Message, err error) {
	if row.Queued == 0 {
		return nil, nil, nil
	}
	queue, err := driver.Queue(ctx, r.Store, row.ID)
	for _, t := range queue {
		if t.Context {
			ids, messages = append(ids, t.ID), append(messages, t.Messages...)
		}
	}
	return ids, messages, err
}

// catchUp appends the context that was added before a run was taken over, so that its next model call has it. Behind a
// reply that the dead process kept, the step's commit appends it.
func (r *Runs) catchUp(ctx context.Context, l *session.Live) error {
	if l.Step.Reply != nil {
		return nil
	}
	ids, messages, err := r.additions(ctx, l.Row)
	if err != nil || len(ids) == 0 {
		return err
	}
	messages = stamp(messages, l.Run.ID)
	row, err := r.Write(ctx, l.Row.ID, l.Row, &driver.Commit{Guard: driver.Guard{Token: l.Row.Lease.Token, Version: l.Row.Version},
		Messages: messages, Dequeue: ids, Events: r.Marks(l.Row, l.Run.ID, journal.Added(l.Row.MessageCount, messages)...)})
	if errors.Is(err, cairn.ErrStale) { // changed concurrently: the next commit appends it
		return nil
	}
	if err != nil {
		return err
	}
	l.Sees(row, r.Now())
	l.Append(messages)
	return nil
}
