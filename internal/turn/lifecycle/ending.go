package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// EndingError means that a run or a wait is being ended and a sub-agent of it still runs. The stop is recorded, and the
// sub-agent has been asked to stop. Repeating the call, by any process, continues the end. It is an ErrAlreadyRunning
// with the time until the sub-agent's lease lapses.
type EndingError struct{ err *cairn.Error }

// Error names both sessions.
func (e *EndingError) Error() string { return e.err.Error() }

// Unwrap returns the ErrAlreadyRunning.
func (e *EndingError) Unwrap() error { return e.err }

// endBelow ends the sub-agents of a session, each with those below it, before the write that ends the session's own run
// or wait: how they ended is known to that write, and on the log they end first. It returns the session's row.
//
// If there are any, endBelow first records stop, so that any process that finds the session afterwards continues its end, and
// nothing begins a sub-agent in between: as [cairn.Session.Ending] of a paused session, which takes no answer and is
// not resumed from then on, and as a stop request for the run of a dead process, which may be alive after all. A session
// that this process drives needs neither. The sub-agents end with below. If one of them still runs, the error is an
// EndingError.
func (r *Runs) endBelow(ctx context.Context, row *cairn.Session, stop, below cairn.Stop) (*cairn.Session, error) {
	children, err := r.left(ctx, row, time.Time{})
	if err != nil || len(children) == 0 {
		return row, err
	}
	stop.RunID, stop.At = row.RunID, row.AsOf
	switch {
	case row.Status == cairn.SessionPaused && (row.Ending == nil || row.Ending.Kind != cairn.StopAbort && stop.Kind == cairn.StopAbort):
		if row, err = r.Store.Commit(ctx, row.ID, &driver.Commit{Guard: driver.Guard{Version: row.Version, Idle: true}, Ending: &stop}); err != nil {
			return nil, err
		}
	case row.Crashed(row.AsOf):
		if err := r.Store.RequestStop(ctx, row.ID, stop); err != nil {
			return nil, err
		}
	}
	return row, r.endAll(ctx, row, children, below)
}

// endAll ends sub-agents of a session. If one still runs, the error is an EndingError; the others have ended or were
// asked to stop as well.
func (r *Runs) endAll(ctx context.Context, row *cairn.Session, children []*cairn.Session, stop cairn.Stop) error {
	var running *cairn.Session
	for _, child := range children {
		one, err := r.endChild(ctx, child, stop)
		if err != nil {
			return err
		}
		if one != nil {
			running = one
		}
	}
	if running == nil {
		return nil
	}
	e := cairn.Errorf(cairn.ErrAlreadyRunning, "session %q is being ended, and its sub-agent's session %q still runs", row.ID, running.ID)
	e.RetryAfter = cairn.Duration(max(0, running.Lease.Until.Sub(running.AsOf)))
	return &EndingError{e}
}

// left returns the sub-agents that a session's runs left suspended or active and that the runs waited for. If before is
// not zero, it returns only those that began before it; of companions, those that have not changed since.
func (r *Runs) left(ctx context.Context, row *cairn.Session, before time.Time) (children []*cairn.Session, err error) {
	q := driver.SessionQuery{ParentID: row.ID, Statuses: []cairn.SessionStatus{cairn.SessionPaused, cairn.SessionActive}}
	for child, err := range r.list(ctx, q) {
		if err != nil {
			return nil, err
		}
		since := child.CreatedAt
		if child.Kind == cairn.ChildCompanion { // it may have been consulted again
			since = child.UpdatedAt
		}
		if !before.IsZero() && !since.Before(before) {
			continue
		}
		switch awaited, err := r.Awaited(ctx, child); {
		case err != nil:
			return nil, err
		case awaited:
			children = append(children, child)
		}
	}
	return children, nil
}

// endChild ends a suspended sub-agent, or one whose process died. It asks an active one to stop, which its next step
// notices: its host may not know of its parent's end. running is the sub-agent, or the one below it, that still runs;
// nil if the sub-agent has ended.
func (r *Runs) endChild(ctx context.Context, child *cairn.Session, stop cairn.Stop) (running *cairn.Session, err error) {
	for {
		stop.RunID = child.RunID
		asked := false
		switch child.Status {
		case cairn.SessionPaused:
			err = r.CancelWait(ctx, child.ID, stop)
		case cairn.SessionActive:
			asked, err = r.stopActive(ctx, child, stop)
		default:
			return nil, nil
		}
		switch {
		case errors.As(err, new(*EndingError)), err == nil && asked:
			return child, nil
		case err == nil:
			return nil, nil
		case !errors.Is(err, cairn.ErrNotRunning) && !errors.Is(err, cairn.ErrAlreadyRunning) && !errors.Is(err, cairn.ErrStale):
			return nil, err
		}
		if child, err = driver.Load(ctx, r.Store, child.ID); err != nil { // its status changed concurrently
			return nil, err
		}
	}
}

// stopActive asks an active sub-agent to stop, or ends it if its process died. A dead companion has later turns, so it
// keeps what its tools did: a worker, or the next message to it, drives its run to the stop that it is asked for.
func (r *Runs) stopActive(ctx context.Context, child *cairn.Session, stop cairn.Stop) (asked bool, err error) {
	if child.Crashed(child.AsOf) {
		keeps := false
		if child.Kind == cairn.ChildCompanion {
			if keeps, err = r.keepsStep(ctx, child); err != nil {
				return false, err
			}
		}
		if !keeps {
			return false, r.EndDead(ctx, child, stop)
		}
	}
	if err := r.Store.RequestStop(ctx, child.ID, stop); err != nil {
		return false, err
	}
	r.RequestStop(child.ID, stop)
	return true, r.PassBelow(ctx, child, stop)
}

// StatusAfter returns the status of a session whose run has ended with a status.
func StatusAfter(s cairn.RunStatus) cairn.SessionStatus {
	switch s {
	case cairn.RunCompleted:
		return cairn.SessionCompleted
	case cairn.RunFailed:
		return cairn.SessionFailed
	case cairn.RunInterrupted:
		return cairn.SessionInterrupted
	}
	return cairn.SessionPaused
}
