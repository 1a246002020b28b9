package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Interrupt stops a session's run, in whichever process it is, with the sub-agents it consults, and returns when it has
// ended: what the user saw of the reply is kept, calls that are under way or wait for an answer are closed as not
// executed, and the session can be resumed or given its next turn at once. If ctx is done first the request stands. The
// error is ErrNotRunning if the session is neither running nor paused.
func (e *Engine) Interrupt(ctx context.Context, sessionID, reason string) error {
	return e.stop(ctx, sessionID, cairn.StopInterrupt, reason)
}

// Abort stops a session's run like Interrupt, but as failed, with ErrAborted.
func (e *Engine) Abort(ctx context.Context, sessionID, reason string) error {
	return e.stop(ctx, sessionID, cairn.StopAbort, reason)
}

func (e *Engine) stop(ctx context.Context, sessionID string, kind cairn.StopKind, reason string) error {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	if row.Status == cairn.SessionPaused {
		if err := e.withdraw(ctx, row, cairn.Stop{RunID: row.RunID, Kind: kind, Reason: reason, At: e.opts.Now()}); err != nil {
			return err
		}
		return e.stopCompanions(ctx, row, kind, reason)
	}
	if row.Status != cairn.SessionActive {
		return cairn.Errorf(cairn.CodeNotRunning, "session %q is not running, it is %s", sessionID, row.Status)
	}
	stop := cairn.Stop{RunID: row.RunID, Kind: kind, Reason: reason, At: e.opts.Now()}
	if err := e.store.RequestStop(ctx, sessionID, stop); err != nil {
		return err
	}
	e.fx.RequestStop(sessionID, stop)
	if err := e.stopBelow(ctx, sessionID, stop); err != nil {
		return err
	}
	if err := e.awaitStop(ctx, sessionID, stop); err != nil {
		return err
	}
	return e.stopCompanions(ctx, row, kind, reason)
}

// stopBelow asks the runs of a session's children to stop as well. Where no goroutine waits for them, nobody else does.
func (e *Engine) stopBelow(ctx context.Context, sessionID string, stop cairn.Stop) error {
	q := store.SessionQuery{ParentID: sessionID, Statuses: []cairn.SessionStatus{cairn.SessionActive}}
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			child := &page.Items[i]
			stop.RunID = child.RunID
			if err := e.store.RequestStop(ctx, child.ID, stop); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
				return err
			}
			e.fx.RequestStop(child.ID, stop)
			if err := e.stopBelow(ctx, child.ID, stop); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// stopCompanions stops those of a session's companions that are at work or wait.
func (e *Engine) stopCompanions(ctx context.Context, row *cairn.Session, kind cairn.StopKind, reason string) error {
	q := store.SessionQuery{ParentID: row.ID, Statuses: []cairn.SessionStatus{cairn.SessionActive, cairn.SessionPaused}}
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			err := e.stop(ctx, page.Items[i].ID, kind, reason)
			if err != nil && !isConflict(err) {
				return err
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// withdraw stops a session that waits. Where somebody else is about to go on with it, their run is stopped.
func (e *Engine) withdraw(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	for {
		err := e.fx.Withdraw(ctx, row.ID, stop)
		if err == nil && row.ParentID != "" && row.Name == "" {
			return e.tellParent(ctx, row.ParentID)
		}
		if !isConflict(err) {
			return err
		}
		if row, err = e.store.Load(ctx, row.ID); err != nil {
			return err
		}
		if row.Status != cairn.SessionPaused {
			return e.stop(ctx, row.ID, stop.Kind, stop.Reason)
		}
	}
}

// tellParent makes a session that waits for a sub-agent go on, because that was stopped.
func (e *Engine) tellParent(ctx context.Context, parent string) error {
	_, err := store.Update(ctx, e.store, parent, func(row *cairn.Session) (*store.Commit, error) {
		if row.Status != cairn.SessionPaused || row.OpenCalls == 0 {
			return nil, nil
		}
		return &store.Commit{Suspend: &store.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls - 1, NextDeadline: row.NextDeadline}}, nil
	})
	return err
}

// awaitStop returns when a run that was asked to stop has ended. If its process is gone it is ended here.
func (e *Engine) awaitStop(ctx context.Context, sessionID string, stop cairn.Stop) error {
	e.mu.Lock()
	local := e.driving[stop.RunID]
	e.mu.Unlock()
	if local != nil {
		select {
		case <-local.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		row, err := e.store.Load(ctx, sessionID)
		if err != nil {
			return err
		}
		if row.Status != cairn.SessionActive || row.RunID != stop.RunID {
			return nil
		}
		if row.Crashed(e.opts.Now()) {
			err := e.fx.Settle(ctx, row, stop)
			if err == nil || !isConflict(err) {
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

// isConflict reports whether somebody else was faster.
func isConflict(err error) bool {
	return errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrNotRunning)
}
