package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// StopOption is an option of Interrupt and Abort.
type StopOption func(*cairn.Stop)

// StoppedBy names the person or program that stops the run, in at most 16 KiB. The name is kept as
// [cairn.Run.StoppedBy], also of the sub-agents that are stopped with the run, and is shown to operators.
func StoppedBy(name string) StopOption { return func(s *cairn.Stop) { s.By = name } }

// asked returns the request to stop of a call.
func asked(kind cairn.StopKind, reason string, opts []StopOption) cairn.Stop {
	stop := cairn.Stop{Kind: kind, Reason: reason}
	for _, opt := range opts {
		opt(&stop)
	}
	return stop
}

// Interrupt stops a session's run, in whichever process it is, with the sub-agents that it consults, and returns when
// the run has ended. It keeps the part of the reply that the user saw. Calls under way are closed with ErrStopped,
// since they may have had effects; calls that had not begun or wait for an answer are closed with ErrNotExecuted. The
// session can be resumed or given its next turn at once. If ctx is done first, the request remains in force; for a
// suspended run, only once its sub-agents are being ended, see [cairn.Session.Ending]. Interrupt stops the run that the
// session has when it is called, and those that resume it in the meantime; to stop only a particular run, use
// [Run.Interrupt].
//
// The error is ErrNotRunning if the session is neither running nor paused, ErrInvalid or ErrTooLarge for a reason that
// cannot be stored or exceeds 16 KiB. [StoppedBy] records who stops the session.
func (e *Engine) Interrupt(ctx context.Context, sessionID, reason string, opts ...StopOption) error {
	return e.stop(ctx, sessionID, asked(cairn.StopInterrupt, reason, opts))
}

// Abort stops a session's run like Interrupt, but as failed, with ErrAborted.
func (e *Engine) Abort(ctx context.Context, sessionID, reason string, opts ...StopOption) error {
	return e.stop(ctx, sessionID, asked(cairn.StopAbort, reason, opts))
}

// Interrupt stops the run as [Engine.Interrupt] does, in whichever process it is, also while it waits for people. The
// request is durable and applies to this run only: later runs of the session are not affected. The error is
// ErrNotRunning if the run has ended, was resumed as another run, or is still queued.
func (r *Run) Interrupt(ctx context.Context, reason string, opts ...StopOption) error {
	return r.stop(ctx, asked(cairn.StopInterrupt, reason, opts))
}

// Abort stops the run like [Run.Interrupt], but as failed, with ErrAborted.
func (r *Run) Abort(ctx context.Context, reason string, opts ...StopOption) error {
	return r.stop(ctx, asked(cairn.StopAbort, reason, opts))
}

func (r *Run) stop(ctx context.Context, stop cairn.Stop) (err error) {
	if stop.RunID, err = r.carriedBy(ctx); err != nil {
		return err
	}
	return r.stopper.stopRun(ctx, r.session, stop)
}

// stopRun stops the run of a session that stop names.
func (e *Engine) stopRun(ctx context.Context, sessionID string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return err
		}
		row, err := driver.Load(ctx, e.store, sessionID)
		if err != nil {
			return err
		}
		if row.RunID != stop.RunID || row.Status != cairn.SessionActive && row.Status != cairn.SessionPaused {
			return e.notRunning(ctx, sessionID, stop.RunID)
		}
		stop.At = row.AsOf
		switch err := e.stopOnce(ctx, row, stop, true); {
		case isConflict(err): // it has ended, was suspended or was resumed in the meantime
			continue
		case err != nil:
			return err
		}
		return e.stopRest(ctx, row, stop)
	}
}

// notRunning returns the error that says why a run of a session cannot be stopped.
func (e *Engine) notRunning(ctx context.Context, sessionID, runID string) error {
	run, err := driver.FindRun(ctx, e.store, sessionID, runID)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return cairn.Errorf(cairn.ErrNotRunning, "run %q of session %q has not begun", runID, sessionID)
	case err != nil:
		return err
	case run.Status == cairn.RunSuspended:
		return cairn.Errorf(cairn.ErrNotRunning, "run %q of session %q was resumed as another run", runID, sessionID)
	}
	return cairn.Errorf(cairn.ErrNotRunning, "run %q of session %q has ended, it is %s", runID, sessionID, run.Status)
}

// cancelWait ends the wait of a session, and lets a parent that waits for it resume. The error is ending if a sub-agent
// still runs.
func (e *Engine) cancelWait(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	if row.ParentID == "" {
		return e.runs.CancelWait(ctx, row.ID, stop)
	}
	// Once before, since this process may die in between, and once after, for a parent that was resumed in between and
	// found the session waiting still.
	unblocked, err := e.unblockParent(ctx, row, "")
	if err != nil {
		return err
	}
	if err := e.runs.CancelWait(ctx, row.ID, stop); err != nil {
		return err
	}
	_, err = e.unblockParent(ctx, row, unblocked)
	return err
}

// unblockParent makes the parent of a session that is stopped due for a resume, if it is suspended for that session in
// another run than the one named. It returns the parent's run.
func (e *Engine) unblockParent(ctx context.Context, child *cairn.Session, except string) (runID string, err error) {
	_, err = driver.Update(ctx, e.store, child.ParentID, func(row *cairn.Session) (*driver.Commit, error) {
		if runID = row.RunID; row.Status != cairn.SessionPaused || row.Ending != nil || row.OpenCalls == 0 || runID == except {
			return nil, nil
		}
		run, err := driver.FindRun(ctx, e.store, row.ID, runID)
		if err != nil || !run.Suspended.Awaits(child.ID) {
			return nil, err
		}
		return &driver.Commit{Suspend: &driver.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls - 1, NextDeadline: row.NextDeadline}}, nil
	})
	if errors.Is(err, cairn.ErrNotFound) { // the parent, or its run, is gone
		err = nil
	}
	return runID, err
}

func (e *Engine) stop(ctx context.Context, sessionID string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	stop.RunID, stop.At = row.RunID, row.AsOf
	if err := e.stopWhole(ctx, row, &stop, true); err != nil {
		return err
	}
	return e.stopRest(ctx, row, stop)
}

// stopWhole is stopOne for a caller that waits until the sub-agents of a wait have ended, and the wait with them.
func (e *Engine) stopWhole(ctx context.Context, row *cairn.Session, stop *cairn.Stop, below bool) error {
	for try := 1; ; try++ {
		err := e.stopOne(ctx, row, stop, below)
		if !ending(err) {
			return err
		}
		if err := e.pause(ctx, try); err != nil {
			return err
		}
		if row, err = driver.Load(ctx, e.store, row.ID); err != nil {
			return err
		}
	}
}

// stopOne stops a session's run or its wait, and returns when it has ended. If the run is suspended in the meantime, it
// ends the wait; if the run is resumed, it stops the run that resumed it, which stop then names. The error is ending if
// a sub-agent of the wait still runs.
func (e *Engine) stopOne(ctx context.Context, row *cairn.Session, stop *cairn.Stop, below bool) error {
	for {
		err := e.stopOnce(ctx, row, *stop, below)
		if !isConflict(err) || ending(err) {
			return err
		}
		refused := err
		if row, err = driver.Load(ctx, e.store, row.ID); err != nil {
			return err
		}
		if row.Status != cairn.SessionActive && row.Status != cairn.SessionPaused {
			return refused
		}
		if row.RunID == stop.RunID {
			continue
		}
		run, err := driver.FindRun(ctx, e.store, row.ID, row.RunID)
		if err != nil {
			return err
		}
		if run.PreviousRunID != stop.RunID { // the next turn
			return refused
		}
		stop.RunID = row.RunID
	}
}

// stopOnce stops the run or the wait that row shows. The error is a conflict if the session has changed. If below is
// true, it also asks the runs below the session to stop: where no goroutine waits for them, no other process asks them.
func (e *Engine) stopOnce(ctx context.Context, row *cairn.Session, stop cairn.Stop, below bool) error {
	switch row.Status {
	case cairn.SessionPaused:
		return e.cancelWait(ctx, row, stop)
	case cairn.SessionActive:
	default:
		return cairn.Errorf(cairn.ErrNotRunning, "session %q is not running, it is %s", row.ID, row.Status)
	}
	if err := e.store.RequestStop(ctx, row.ID, stop); err != nil {
		return err
	}
	e.runs.RequestStop(row.ID, stop)
	if below {
		if err := e.runs.StopBelow(ctx, row, stop); err != nil {
			return err
		}
	}
	return e.awaitStop(ctx, row.ID, stop)
}

// stopRest stops what is left below a session whose run has been stopped: companions that no run waits for, and what
// they and others left behind. It does not touch what a later run has begun.
func (e *Engine) stopRest(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	if stop.RunID == "" { // a branch that has begun no run
		return nil
	}
	run, err := driver.FindRun(ctx, e.store, row.ID, stop.RunID)
	if err != nil {
		return err
	}
	left, err := e.runs.Below(ctx, row, cairn.SessionActive, cairn.SessionPaused)
	if err != nil || len(left) == 0 {
		return err
	}
	if err := e.runs.StopBelow(ctx, row, stop); err != nil {
		return err
	}
	for i := range left {
		if !run.EndedAt.IsZero() && left[i].CreatedAt.After(run.EndedAt) {
			continue
		}
		one := stop
		one.RunID = left[i].RunID
		if err := e.stopWhole(ctx, &left[i], &one, false); err != nil && !isConflict(err) {
			return err
		}
	}
	return nil
}

// aheadGrace is how long a stop leaves a run to its holder whose lease is [cairn.Lease.Ahead]: a living holder keeps
// the partial reply.
const aheadGrace = 2 * time.Second

// awaitStop returns when a run that was asked to stop has ended. If the run's process is gone, it ends the run itself.
// The error is ErrNotRunning if the run was suspended instead: its commit was under way when the request was recorded.
func (e *Engine) awaitStop(ctx context.Context, sessionID string, stop cairn.Stop) error {
	e.mu.Lock()
	local := e.driving[runKey{sessionID, stop.RunID}]
	e.mu.Unlock()
	if local != nil {
		select {
		case <-local.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	asked := time.Now()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		row, err := driver.Load(ctx, e.store, sessionID)
		if err != nil {
			return err
		}
		if row.Status != cairn.SessionActive || row.RunID != stop.RunID {
			return e.suspendedInstead(ctx, row, stop.RunID)
		}
		if row.Crashed(row.AsOf) && (!row.Lease.Ahead(row.AsOf) || time.Since(asked) >= aheadGrace) {
			ended, err := e.endCrashed(ctx, row, stop)
			if ended && err == nil || err != nil && !isConflict(err) {
				return err
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// suspendedInstead returns ErrNotRunning if a run that no process drives was suspended, and nil if it has ended.
func (e *Engine) suspendedInstead(ctx context.Context, row *cairn.Session, runID string) error {
	run, err := driver.FindRun(ctx, e.store, row.ID, runID)
	switch {
	case errors.Is(err, cairn.ErrNotFound): // it was taken back
		return nil
	case err == nil && run.Status == cairn.RunSuspended:
		return driver.Conflict(cairn.ErrNotRunning, row, "run %q of session %q was suspended before it was stopped", runID, row.ID)
	}
	return err
}

// endCrashed ends the run of a dead process, and reports whether it has ended. If the step under way has facts that
// last, the run is taken over instead, so that its step is committed with them and the recorded stop is applied.
func (e *Engine) endCrashed(ctx context.Context, row *cairn.Session, stop cairn.Stop) (ended bool, err error) {
	if err := e.enter(); err != nil {
		return false, err
	}
	asked := time.Now()
	b, err := e.runs.StopDead(ctx, row, stop, nil)
	if err == nil && b.RunID != "" {
		e.drive(ctx, b, asked)
		return false, nil
	}
	e.driven.Done()
	if err == nil && row.Queued > 0 && row.ParentID == "" {
		e.behind(func(ctx context.Context) { e.beginQueued(ctx, row.ID) })
	}
	return err == nil, err
}
