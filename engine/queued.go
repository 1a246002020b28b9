package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// waitQueued waits for the run that carries the messages of a queued turn.
func (r *Run) waitQueued(ctx context.Context) (*cairn.Result, error) {
	id, err := r.carrier(ctx)
	if err != nil {
		return nil, err
	}
	if id != "" {
		if record, err := driver.FindRun(ctx, r.in.store, r.session, id); err != nil || record.Status != cairn.RunRunning {
			return ended(record, err)
		}
	}
	if err := r.followQueued(ctx); err != nil {
		return nil, err
	}
	if id, err = r.carrier(ctx); err != nil {
		return nil, err
	}
	return ended(driver.FindRun(ctx, r.in.store, r.session, id))
}

// followQueued returns when the run that carries the messages of a queued turn has ended. Only the end counts, so it
// reads what is left of a log that was trimmed.
func (r *Run) followQueued(ctx context.Context) error {
	for start := r.start; ; {
		var err error
		for _, err = range r.queuedEvents(ctx, start) {
			if err != nil {
				break
			}
		}
		if !errors.Is(err, cairn.ErrTrimmed) {
			return err
		}
		first, _, err := r.in.log.Bounds(ctx, ids.Log(r.root, r.incarnation))
		if err != nil {
			return err
		}
		start = max(start+1, first-1)
		if over, err := r.over(ctx); over || err != nil {
			return err
		}
	}
}

// over reports whether the run that carries the messages of a queued turn has ended.
func (r *Run) over(ctx context.Context) (bool, error) {
	id, err := r.carrier(ctx)
	if id == "" || err != nil {
		return false, err
	}
	record, err := driver.FindRun(ctx, r.in.store, r.session, id)
	return err == nil && record.Status != cairn.RunRunning, err
}

// carrier returns the id of the run that carries the messages of a queued turn; empty while they are in the queue. The
// error is ErrAborted if they were removed from the queue.
func (r *Run) carrier(ctx context.Context) (string, error) {
	if began, err := r.began(ctx); began || err != nil {
		return r.id, err
	}
	snap, err := r.in.store.Read(ctx, r.session, driver.Want{Queue: true, Messages: r.message != "", From: r.from})
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(snap.Queue, func(t store.QueuedTurn) bool { return t.ID == r.id }) {
		return "", nil
	}
	for i := range snap.Messages {
		if m := &snap.Messages[i]; m.ID == r.message {
			return m.RunID, nil
		}
	}
	if began, err := r.began(ctx); began || err != nil { // since the first look
		return r.id, err
	}
	return "", cairn.Errorf(cairn.ErrAborted, "session %q: turn %s was removed from the queue", r.session, r.id)
}

// carriedBy returns the id of the handle's run: its own id, unless its messages have joined another run.
func (r *Run) carriedBy(ctx context.Context) (string, error) {
	if !r.queued {
		return r.id, nil
	}
	id, err := r.carrier(ctx)
	return cmp.Or(id, r.id), err
}

// began reports whether the turn became a run of its own.
func (r *Run) began(ctx context.Context) (bool, error) {
	_, err := driver.FindRun(ctx, r.in.store, r.session, r.id)
	if errors.Is(err, cairn.ErrNotFound) && !driver.IsGone(err) {
		return false, nil
	}
	return err == nil, err
}

// queuedEvents yields the events of a queued turn behind a position of the log, and those of the runs before it if its
// messages may join them.
func (r *Run) queuedEvents(ctx context.Context, start int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		outer := ctx
		ctx, cancel := context.WithCancelCause(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { r.watchQueue(ctx, cancel) })
		defer watching.Wait()
		defer cancel(nil)
		begun := r.message != ""
		for ev, err := range r.in.follow(ctx, r.session, r.root, r.incarnation, start) {
			if err != nil {
				if cause := context.Cause(ctx); outer.Err() == nil && errors.Is(cause, cairn.ErrAborted) {
					err = cause
				}
				yield(cairn.Event{}, err)
				return
			}
			own := ev.SessionID == r.session
			begun = begun || own && ev.RunID == r.id && ev.Type != cairn.EventQueued && ev.Type != cairn.EventDequeued
			if !begun && ev.Type != cairn.EventDequeued || begun && r.message == "" && own && ev.RunID != r.id {
				continue
			}
			if begun && !yield(ev, nil) {
				return
			}
			if !own || ev.Type != cairn.EventRunEnd && (ev.Type != cairn.EventDequeued || ev.RunID != r.id) {
				continue
			}
			switch id, err := r.carrier(ctx); {
			case err != nil && ctx.Err() == nil:
				yield(cairn.Event{}, err)
				return
			case err == nil && ev.Ends(id):
				return
			}
		}
	}
}

// watchQueue cancels the reader of a queued turn once the turn is no longer in the queue. The log may not say so: a
// separate one is late, and a store that has lost its last writes has lost the event with the turn.
func (r *Run) watchQueue(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		id, err := r.carrier(ctx)
		if errors.Is(err, cairn.ErrAborted) {
			cancel(err)
		}
		if id != "" || errors.Is(err, cairn.ErrAborted) {
			return
		}
	}
}
