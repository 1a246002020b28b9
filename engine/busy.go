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

// place begins a turn, or queues it or makes room for it if a run or a wait holds its session, as the options say.
// Other callers may do the same concurrently: it retries until the turn has begun or is queued, or ctx is done.
func (e *Engine) place(ctx context.Context, in lifecycle.Turn, input *cairn.Input, o *runOptions) (*Run, error) {
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return nil, err
		}
		run, err := e.beginTurn(ctx, in, input)
		if err != nil && o.runID != "" { // the run in the way may be its own
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
		// Look again if another caller was faster or the session is gone.
		over := err != nil && !isConflict(err) && !outrun(err) && !errors.Is(err, cairn.ErrNotFound)
		if run != nil || over || errors.Is(err, cairn.ErrWaiting) {
			return run, err
		}
	}
}

// makeRoom applies the options to a session that another run holds. If it returns neither a run nor an error, the turn
// may be able to begin.
func (e *Engine) makeRoom(ctx context.Context, sessionID string, input *cairn.Input, o *runOptions, asked bool) (*Run, error) {
	switch o.busy {
	case BusyInterrupt:
		_, err := e.interruptCurrent(ctx, sessionID, o)
		return nil, err
	case BusyRollback:
		return nil, e.rollback(ctx, sessionID, o)
	}
	return e.enqueue(ctx, sessionID, input, o, o.busy == BusySteer, func(row *cairn.Session, _ *store.Commit) (bool, error) {
		return row.Running(row.AsOf) || asked && row.Status == cairn.SessionActive, nil
	})
}

// outrun reports whether a turn could not begin because another caller was faster, without showing what holds the
// session now.
func outrun(err error) bool {
	return errors.Is(err, cairn.ErrExists) || errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrStale)
}

// slowestTry is the longest pause before another attempt to begin a turn.
const slowestTry = 250 * time.Millisecond

// pause waits before each attempt except the first two, for a random time below a bound that doubles each time.
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

// interruptCurrent interrupts a session's run and returns its id, which is empty if it is the run that the options
// name.
func (e *Engine) interruptCurrent(ctx context.Context, sessionID string, o *runOptions) (string, error) {
	row, err := store.Load(ctx, e.store, sessionID)
	if err != nil || row.RunID == o.runID {
		return "", err
	}
	return row.RunID, e.stopRun(ctx, sessionID, row.RunID, cairn.StopInterrupt, "another turn takes its place")
}

// rollback stops a session's run and undoes it.
func (e *Engine) rollback(ctx context.Context, sessionID string, o *runOptions) error {
	runID, err := e.interruptCurrent(ctx, sessionID, o)
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
	// Reconcile first: the process that drove the run may not have published its number of messages yet, which is
	// unknown after the rewind.
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
