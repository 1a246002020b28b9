package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
)

// Interrupt stops a session's run, in whichever process it is, and returns when it has ended: what the user saw of the
// reply is kept, calls that are under way are closed as not executed, and the session can be resumed or given its next
// turn at once. If ctx is done first the request stands. The error is ErrNotRunning if no run holds the session.
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
	if row.Status != cairn.SessionActive {
		return cairn.Errorf(cairn.CodeNotRunning, "session %q is not running, it is %s", sessionID, row.Status)
	}
	stop := cairn.Stop{RunID: row.RunID, Kind: kind, Reason: reason, At: e.opts.Now()}
	if err := e.store.RequestStop(ctx, sessionID, stop); err != nil {
		return err
	}
	e.fx.RequestStop(sessionID, stop)
	return e.awaitStop(ctx, sessionID, stop)
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
