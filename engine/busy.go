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

// place begins a turn, or puts it where the run or the wait of its session leaves room for it, as the options say. Others
// may do the same: it tries until the turn has begun or is queued, or ctx is done.
func (e *Engine) place(ctx context.Context, in lifecycle.Turn, input *cairn.Input, o *runOptions) (*Run, error) {
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return nil, err
		}
		run, err := e.executeAs(ctx, in, input)
		if err != nil && o.runID != "" { // its own run may be what is in the way
			if there, err := e.named(ctx, in.SessionID, o.runID); there != nil || err != nil {
				return there, err
			}
		}
		switch {
		case errors.Is(err, cairn.ErrWaiting):
			run, err = e.wait(ctx, &in, input, o)
		case o.busy != BusyReject && errors.Is(err, cairn.ErrAlreadyRunning):
			run, err = e.makeRoom(ctx, in.SessionID, input, o, try > 0)
		case !outrun(err):
			return run, err
		default:
			continue
		}
		// What another caller was faster with, or a session that is gone, is looked at anew.
		over := err != nil && !isConflict(err) && !outrun(err) && !errors.Is(err, cairn.ErrNotFound)
		if run != nil || over || errors.Is(err, cairn.ErrWaiting) {
			return run, err
		}
	}
}

// makeRoom does what the options say of a session that another run was found to hold. Without a run and an error the turn
// may be able to begin.
func (e *Engine) makeRoom(ctx context.Context, sessionID string, input *cairn.Input, o *runOptions, asked bool) (*Run, error) {
	switch o.busy {
	case BusyInterrupt:
		_, err := e.makeWay(ctx, sessionID, o)
		return nil, err
	case BusyRollback:
		return nil, e.rollback(ctx, sessionID, o)
	}
	return e.enqueue(ctx, sessionID, input, o, o.busy == BusySteer, func(row *cairn.Session, _ *store.Commit) (bool, error) {
		return row.Running(row.AsOf) || asked && row.Status == cairn.SessionActive, nil
	})
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

// makeWay interrupts a session's run and returns its id; empty if that is the run which the options name.
func (e *Engine) makeWay(ctx context.Context, sessionID string, o *runOptions) (string, error) {
	row, err := store.Load(ctx, e.store, sessionID)
	if err != nil || row.RunID == o.runID {
		return "", err
	}
	return row.RunID, e.stopRun(ctx, sessionID, row.RunID, cairn.StopInterrupt, "another turn takes its place")
}

// rollback stops a session's run and takes it back.
func (e *Engine) rollback(ctx context.Context, sessionID string, o *runOptions) error {
	runID, err := e.makeWay(ctx, sessionID, o)
	if err != nil || runID == "" {
		return err
	}
	var row *cairn.Session
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
	last, err := e.runs.Publish(ctx, row)
	if err != nil {
		return err
	}
	row, err = e.store.Commit(ctx, sessionID, &store.Commit{Guard: store.Guard{Version: row.Version, Idle: true},
		RewindRun: runID, DropStaged: true, Suspend: &store.Suspend{},
		Publish: &cairn.Event{Type: cairn.EventRewound, RunID: runID, Sequence: last}})
	if err == nil {
		e.runs.Published(ctx, row, nil)
	}
	return err
}
