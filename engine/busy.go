package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store"
)

// OnBusy says what Execute does while another run holds the session.
type OnBusy int

const (
	// Reject refuses with ErrAlreadyRunning. The default.
	Reject OnBusy = iota
	// Enqueue keeps the turn in the store and begins it when the turns before it have come to their end. A session that
	// waits for people is not busy, and while it waits the queue does. The process that drives the turn before begins it;
	// if that dies a worker does.
	Enqueue
	// Interrupt stops the run as [Engine.Interrupt] does, keeping what was committed, and begins the turn.
	Interrupt
	// Rollback stops the run, takes back what it did to the session's messages and state, and begins the turn. What its
	// tools did to the world stays, and so does the record of the run. A run that came to its end in time is kept.
	Rollback
)

// WithOnBusy says what Execute does while another run holds the session.
func WithOnBusy(b OnBusy) RunOption { return func(o *runOptions) { o.busy = b } }

// busy begins a turn on a session that another run was found to hold.
func (e *Engine) busy(ctx context.Context, in turn.BeginIn, input *cairn.Input, o *runOptions) (*Run, error) {
	for {
		var err error
		switch o.busy {
		case Enqueue:
			var run *Run
			if run, err = e.enqueue(ctx, in.SessionID, input); run != nil {
				return run, nil
			}
		case Interrupt:
			err = e.Interrupt(ctx, in.SessionID, "another turn takes its place")
		case Rollback:
			err = e.rollback(ctx, in.SessionID)
		}
		if err != nil && !isConflict(err) {
			return nil, err
		}
		run, err := e.begin(ctx, in, input, o)
		if !errors.Is(err, cairn.ErrAlreadyRunning) {
			return run, err
		}
	}
}

// enqueue puts a turn behind the run that holds the session. The run is nil if none does any more.
func (e *Engine) enqueue(ctx context.Context, sessionID string, input *cairn.Input) (*Run, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errClosed()
	}
	next := &store.QueuedTurn{ID: e.opts.NewID("run"), Messages: input.Messages}
	queued := false
	row, err := store.Update(ctx, e.store, sessionID, func(row *cairn.Session) (*store.Commit, error) {
		if queued = row.Running(row.AsOf); !queued {
			return nil, nil
		}
		return &store.Commit{Enqueue: next}, nil
	})
	if err != nil || !queued {
		return nil, err
	}
	return &Run{eng: e, id: next.ID, session: sessionID, root: row.RootID, start: row.LogSequence, queued: true}, nil
}

// rollback stops a session's run and takes it back.
func (e *Engine) rollback(ctx context.Context, sessionID string) error {
	row, err := e.store.Load(ctx, sessionID)
	if err != nil {
		return err
	}
	if err := e.Interrupt(ctx, sessionID, "another turn takes its place"); err != nil {
		return err
	}
	runID := row.RunID
	if row, err = e.store.Load(ctx, sessionID); err != nil {
		return err
	}
	if row.RunID != runID || row.Status != cairn.SessionInterrupted {
		return nil
	}
	// Afterwards nobody knows how many messages there were, should the process that drove the run not have told yet.
	if err := e.fx.Reconcile(ctx, row, runID); err != nil {
		return err
	}
	_, err = e.store.Commit(ctx, sessionID, &store.Commit{Guard: store.Guard{Version: row.Version, Idle: true},
		RewindRun: runID, DropStaged: true, Suspend: &store.Suspend{}})
	return err
}

// startQueued begins the next turn of a session's queue; the run is nil if the queue is empty.
func (e *Engine) startQueued(ctx context.Context, sessionID string) (*Run, error) {
	queue, err := e.store.Queue(ctx, sessionID)
	if err != nil || len(queue) == 0 {
		return nil, err
	}
	next := queue[0]
	return e.beginAs(ctx, next.ID, turn.BeginIn{SessionID: sessionID, Kind: cairn.RunExecute, Messages: next.Messages, Dequeue: next.ID})
}

// followOn begins what is queued behind a run that has ended here.
func (e *Engine) followOn(ctx context.Context, sessionID string) {
	if _, err := e.startQueued(ctx, sessionID); err != nil && !isConflict(err) {
		e.opts.Logger.Warn("the next turn of the queue was not begun; a worker will", "session", sessionID, "error", err)
	}
}
