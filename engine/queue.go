package engine

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Queue lists the queued turns of a session in the order in which they will begin. The ID of each is the ID of the Run
// that Execute returned. The error is ErrNotFound if there is no such session.
func (e *Engine) Queue(ctx context.Context, id string) ([]store.QueuedTurn, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	queue, err := driver.Queue(ctx, e.store, id)
	return turnsOf(queue), err
}

// turnsOf returns the turns of a queue in order: messages that were to join a turn come before other turns.
func turnsOf(queue []store.QueuedTurn) []store.QueuedTurn {
	turns := slices.DeleteFunc(queue, func(t store.QueuedTurn) bool { return t.Context })
	slices.SortStableFunc(turns, func(a, b store.QueuedTurn) int {
		switch {
		case a.Steer == b.Steer:
			return 0
		case a.Steer:
			return -1
		}
		return 1
	})
	return turns
}

// Dequeue removes a turn from a session's queue before it has begun; its Run ends with ErrAborted. The error is
// ErrNotFound if there is no such session or the turn is not queued: it has begun, its messages have joined another
// turn, or it was removed before.
func (e *Engine) Dequeue(ctx context.Context, id, runID string) error {
	if err := cairn.CheckSessionID(id); err != nil {
		return err
	}
	_, err := e.runs.Change(ctx, id, func(*cairn.Session) (*driver.Commit, error) {
		queue, err := driver.Queue(ctx, e.store, id)
		if err != nil {
			return nil, err
		}
		turns := turnsOf(queue)
		if !slices.ContainsFunc(turns, func(t store.QueuedTurn) bool { return t.ID == runID }) {
			return nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "run", Message: "session \"" + id + "\" has no queued turn \"" + runID + "\""}
		}
		return &driver.Commit{Dequeue: []string{runID}, Events: []cairn.Event{journal.Dequeued(runID)}}, nil
	})
	return err
}

// room returns ErrQueueFull if a session's queue can take no further entry.
func (e *Engine) room(row *cairn.Session) error {
	if e.opts.MaxQueue < 0 || row.Queued < e.opts.MaxQueue {
		return nil
	}
	return cairn.Errorf(cairn.ErrQueueFull, "session %q: queue is full: %d entries (max %d)", row.ID, row.Queued, e.opts.MaxQueue)
}

// enqueue adds a turn to a session's queue if when accepts the session's row; when may add to the commit. The returned
// run is nil if when does not accept it.
func (e *Engine) enqueue(ctx context.Context, sessionID string, input *cairn.Input, o *runOptions, steer bool,
	when func(*cairn.Session, *driver.Commit) (bool, error)) (*Run, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errClosed()
	}
	next := &store.QueuedTurn{ID: cmp.Or(o.runID, e.opts.NewID("run")), Messages: slices.Clone(input.Messages), Steer: steer, TraceParent: o.create.TraceParent}
	if o.model != nil {
		next.Model = *o.model
	}
	for i := range next.Messages {
		if m := &next.Messages[i]; m.ID == "" {
			m.ID = next.ID + "/in" + strconv.Itoa(i)
		}
	}
	queued, there := false, false
	follows := &lifecycle.Turn{}
	follows.Once, follows.Seen = o.follows(input)
	row, err := e.runs.Change(ctx, sessionID, func(row *cairn.Session) (*driver.Commit, error) {
		next.At = row.AsOf
		if err := o.mayUse(row); err != nil {
			return nil, err
		}
		if o.runID != "" {
			if run, err := e.named(ctx, sessionID, o); run != nil || err != nil {
				queued, there = run != nil, true // by another caller
				return nil, err
			}
		}
		if err := e.runs.CheckNext(ctx, row, follows); err != nil {
			return nil, err
		}
		c := &driver.Commit{Enqueue: next, Events: []cairn.Event{journal.Queued(next.ID, next.Messages)}}
		var err error
		if queued, err = when(row, c); err != nil || !queued {
			return nil, err
		}
		return c, e.room(row)
	})
	if err != nil || !queued {
		return nil, err
	}
	r := &Run{in: e.reader, stopper: e, id: next.ID, session: sessionID, root: row.RootID, incarnation: row.Incarnation, start: row.LogSequence, queued: true, found: there}
	if steer {
		r.message, r.from = next.Messages[0].ID, row.MessageCount
	}
	return r, nil
}
