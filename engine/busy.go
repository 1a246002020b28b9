package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
)

// OnBusy says what Execute does while another run holds the session.
type OnBusy int

const (
	// BusyReject refuses with ErrAlreadyRunning. The default.
	BusyReject OnBusy = iota
	// BusyEnqueue keeps the turn in the store and begins it when the turns before it have come to their end. A session that
	// waits for people is not busy, and while it waits the queue does. The process that drives the turn before begins it;
	// if that dies a worker does.
	BusyEnqueue
	// BusyInterrupt stops the run as [Engine.Interrupt] does, keeping what was committed, and begins the turn.
	BusyInterrupt
	// BusyRollback stops the run, undoes what it did to the session's messages and state, and begins the turn. What its
	// tools did to the world stays, and so does the record of the run. A run that came to its end in time is kept.
	BusyRollback
)

// WithOnBusy says what Execute does while another run holds the session.
func WithOnBusy(b OnBusy) RunOption { return func(o *runOptions) { o.busy = b } }

// busy begins a turn on a session that another run was found to hold. Others may do the same: it goes on until the turn has
// begun or is queued, or ctx is done.
func (e *Engine) busy(ctx context.Context, in lifecycle.BeginIn, input *cairn.Input, o *runOptions) (*Run, error) {
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return nil, err
		}
		var err error
		switch o.busy {
		case BusyEnqueue:
			var run *Run
			if run, err = e.enqueue(ctx, in.SessionID, input, try > 0); run != nil {
				return run, nil
			}
		case BusyInterrupt:
			err = e.Interrupt(ctx, in.SessionID, "another turn takes its place")
		case BusyRollback:
			err = e.rollback(ctx, in.SessionID)
		}
		if err != nil && !isConflict(err) && !outrun(err) && !errors.Is(err, cairn.ErrNotFound) { // else begin says whether it is gone
			return nil, err
		}
		run, err := e.begin(ctx, in, input, o)
		if !outrun(err) && (o.busy == BusyReject || !errors.Is(err, cairn.ErrAlreadyRunning)) {
			return run, err
		}
	}
}

// outrun reports whether a turn could not begin because others began theirs, in a way that says nothing of what holds the
// session now.
func outrun(err error) bool {
	return errors.Is(err, cairn.ErrExists) || errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrStale)
}

// slowestTry is the longest that a turn which others were ahead of waits before it is tried again.
const slowestTry = 250 * time.Millisecond

// pause waits before a try, other than the first two: up to twice as long each time, by chance.
func (e *Engine) pause(ctx context.Context, try int) error {
	if try < 2 {
		return ctx.Err()
	}
	timer := time.NewTimer(rand.N(min(time.Millisecond<<min(try, 10), slowestTry)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ctx.Done():
		return errClosed()
	}
}

// enqueue puts a turn behind the run that holds the session. The run is nil if none does any more. A run whose lease has run out
// holds the session only if it was asked for before whether a turn may take its place, and may not.
func (e *Engine) enqueue(ctx context.Context, sessionID string, input *cairn.Input, asked bool) (*Run, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errClosed()
	}
	next := &store.QueuedTurn{ID: e.opts.NewID("run"), Messages: input.Messages}
	queued := false
	row, err := store.Update(ctx, e.store, sessionID, func(row *cairn.Session) (*store.Commit, error) {
		if queued = row.Running(row.AsOf) || asked && row.Status == cairn.SessionActive; !queued {
			return nil, nil
		}
		return &store.Commit{Enqueue: next}, nil
	})
	if err != nil || !queued {
		return nil, err
	}
	return &Run{eng: e, id: next.ID, session: sessionID, root: row.RootID, incarnation: row.Incarnation, start: row.LogSequence, queued: true}, nil
}

// rollback stops a session's run and takes it back.
func (e *Engine) rollback(ctx context.Context, sessionID string) error {
	row, err := store.Load(ctx, e.store, sessionID)
	if err != nil {
		return err
	}
	if err := e.Interrupt(ctx, sessionID, "another turn takes its place"); err != nil {
		return err
	}
	runID := row.RunID
	if row, err = store.Load(ctx, e.store, sessionID); err != nil {
		return err
	}
	if row.RunID != runID || row.Status != cairn.SessionInterrupted {
		return nil
	}
	// Afterwards nobody knows how many messages there were, should the process that drove the run not have published it
	// yet.
	if err := e.runs.Reconcile(ctx, row, runID); err != nil {
		return err
	}
	_, err = e.store.Commit(ctx, sessionID, &store.Commit{Guard: store.Guard{Version: row.Version, Idle: true},
		RewindRun: runID, DropStaged: true, Suspend: &store.Suspend{}})
	return err
}

// startQueued begins the next turn of a session's queue; the run is nil if the queue is empty.
func (e *Engine) startQueued(ctx context.Context, sessionID string) (*Run, error) {
	queue, err := store.Queue(ctx, e.store, sessionID)
	if err != nil || len(queue) == 0 {
		return nil, err
	}
	next := queue[0]
	return e.beginAs(ctx, next.ID, lifecycle.BeginIn{SessionID: sessionID, Kind: cairn.RunExecute, Messages: next.Messages, Dequeue: []string{next.ID}})
}

// followOn begins what is queued behind a run that has ended here.
func (e *Engine) followOn(ctx context.Context, sessionID string) {
	if _, err := e.startQueued(ctx, sessionID); err != nil && !isConflict(err) {
		e.opts.Logger.Warn("the next turn of the queue was not begun; a worker will", "session", sessionID, "error", err)
	}
}
