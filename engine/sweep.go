package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// ttl returns how long a new session of an agent may be idle; 0 for ever.
func (e *Engine) ttl(agent string) time.Duration {
	ttl := e.opts.TTL
	if a := e.agent(agent); a != nil && a.TTL != 0 {
		ttl = a.TTL
	}
	return max(ttl, 0)
}

// Delete removes a session with everything it owns: its pending calls, the sessions of its sub-agents and companions, and
// its event log. It is hidden at once: whatever is asked of it from then on is ErrDeleted, which is ErrNotFound as well, and
// nothing begins anew under its id. What is stored of it is kept until a Sweep after Options.Retention, and until then
// Restore brings it back. The error is ErrAlreadyRunning while a run holds one of the sessions, ErrInvalid for a sub-agent's
// session, which goes with its root.
func (e *Engine) Delete(ctx context.Context, id string) error {
	_, err := e.remove(ctx, id, store.Deleted)
	return err
}

// Restore brings a session back that was deleted or has expired and is not purged yet, with everything it owned. It counts as
// activity: the session lives for another TTL, and a time that was set for its end, if that is over, is forgotten. The
// error is ErrExists if the session is there, ErrNotFound if nothing is left of it, ErrInvalid for a sub-agent's session,
// which comes back with its root.
func (e *Engine) Restore(ctx context.Context, id string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	if e.sweeper == nil {
		if _, err := store.Load(ctx, e.store, id); err != nil {
			return nil, err
		}
		return nil, cairn.Errorf(cairn.CodeExists, "session %q is there", id)
	}
	var gone *store.GoneError
	if _, err := store.Load(ctx, e.store, id); errors.As(err, &gone) {
		if _, _, err := e.log.Bounds(ctx, gone.Removed.Log()); errors.Is(err, cairn.ErrDeleted) { // another purges it
			return nil, store.NotFound(id)
		}
	}
	row, err := e.sweeper.Restore(ctx, id)
	if err != nil {
		return nil, err
	}
	e.publish(ctx, row.Log(), cairn.Event{Type: cairn.EventSessionRestored, SessionID: id, Agent: row.Agent})
	return row, nil
}

// Erase removes a session as Delete does, and then, without keeping it for any time, what is stored of it; also of one that
// was deleted or has expired. Its id is free then. If it fails after the session was hidden, a Sweep does the rest when the
// time has come.
func (e *Engine) Erase(ctx context.Context, id string) error {
	removed, err := e.remove(ctx, id, store.Deleted)
	var gone *store.GoneError
	switch {
	case errors.As(err, &gone) && gone.Removed.SessionID != id:
		return store.NotRoot(&cairn.Session{ID: id, RootID: gone.Removed.SessionID})
	case errors.As(err, &gone):
		removed = &gone.Removed
	case err != nil || e.sweeper == nil:
		return err
	}
	if _, err = e.purge(ctx, *removed); errors.Is(err, cairn.ErrNotFound) {
		return nil // a sweep was faster
	}
	return err
}

// publish adds an event to the log of a tree that no run holds. The log may lack it: readers look at the store as well.
func (e *Engine) publish(ctx context.Context, log string, ev cairn.Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	ev.Time = e.opts.Now().UTC()
	if _, err := e.log.Append(ctx, log, store.AnySequence, ev); err != nil {
		e.opts.Logger.Warn("event not published", "log", log, "event", ev.Type, "error", err)
	}
}

// remove hides a session tree and forgets it.
func (e *Engine) remove(ctx context.Context, root string, why store.Removal) (*store.Removed, error) {
	if err := cairn.CheckSessionID(root); err != nil {
		return nil, err
	}
	if e.sweeper == nil {
		return nil, e.deleteTree(ctx, root)
	}
	removed, err := e.sweeper.Remove(ctx, root, why)
	if err != nil {
		return nil, err
	}
	e.runs.Evict(root)
	e.publish(ctx, removed.Log(), cairn.Event{Type: cairn.EventSessionDeleted, SessionID: root, Name: string(why)})
	return removed, nil
}

// deleteTree removes a session tree for good from a store that cannot hide it first.
func (e *Engine) deleteTree(ctx context.Context, root string) error {
	row, err := store.Load(ctx, e.store, root)
	if err != nil {
		return err
	}
	if row.RootID != root {
		return cairn.Invalid("session", "%q belongs to a sub-agent; its root is %q", root, row.RootID)
	}
	for { // the root goes last, so that what is left of a tree can be deleted again
		page, err := e.store.List(ctx, store.SessionQuery{RootID: root, Limit: 100})
		if err != nil {
			return err
		}
		children := slices.DeleteFunc(page.Items, func(s cairn.Session) bool { return s.ID == root })
		for i := range children {
			if err := e.store.Delete(ctx, children[i].ID); err != nil && !errors.Is(err, cairn.ErrNotFound) {
				return err
			}
			e.runs.Evict(children[i].ID)
		}
		if len(children) == 0 {
			break
		}
	}
	if err := e.store.Delete(ctx, root); err != nil {
		return err
	}
	e.runs.Evict(root)
	return e.log.Drop(ctx, row.Log())
}

// SweepReport says what a sweep did. A session counts once together with those of its sub-agents and companions.
type SweepReport struct {
	// Detected counts the sessions whose time had come, Expired those of them that were removed.
	Detected int `json:"detected"`
	Expired  int `json:"expired"`
	// Purged counts the removed sessions whose retention was over and of which nothing is left, SnapshotsDeleted the
	// checkpoints they had.
	Purged           int `json:"purged"`
	SnapshotsDeleted int `json:"snapshots_deleted"`
	// Trimmed counts the event logs of which something was trimmed, EventsTrimmed the events that went.
	Trimmed       int   `json:"trimmed"`
	EventsTrimmed int64 `json:"events_trimmed"`
	// Failed counts the sessions that could not be removed, purged or trimmed. They are tried again by the next sweep. Errors
	// says why, for the first hundred.
	Failed int          `json:"failed"`
	Errors []SweepError `json:"errors,omitempty"`
}

// SweepError says why a sweep could not remove or purge a session, or trim its event log.
type SweepError struct {
	// SessionID is the session that could not be swept.
	SessionID string `json:"session_id"`
	// Error is why.
	Error *cairn.Error `json:"error"`
}

const (
	// sweepBatch is how many sessions a sweep asks the store for at once.
	sweepBatch = 100
	// maxSweepErrors bounds the errors that a report lists.
	maxSweepErrors = 100
)

func (r *SweepReport) failed(session string, err error) {
	r.Failed++
	if len(r.Errors) < maxSweepErrors {
		r.Errors = append(r.Errors, SweepError{SessionID: session, Error: cairn.AsError(err)})
	}
}

// Sweep removes the sessions that have expired, purges those that were removed Options.Retention ago, and trims the event
// logs by Options.EventRetention. Any session of the store is seen to, whatever its agent; in a store that is no
// [store.Sweeper] none expires or is purged. A session that cannot be removed, purged or trimmed is an entry of the report
// and stops nothing. Any number of processes may sweep at once. The error says that ctx is done or that the store or the log
// could not say what there is to sweep; the report is good up to there.
//
// Nobody need sweep for a session to expire: what finds one whose time is over removes it as well.
func (e *Engine) Sweep(ctx context.Context) (SweepReport, error) {
	var r SweepReport
	var errs error
	for _, part := range []func(context.Context, *SweepReport) error{e.sweepStale, e.sweepRemoved, e.sweepLogs} {
		if errs = errors.Join(errs, part(ctx, &r)); ctx.Err() != nil {
			break
		}
	}
	return r, errs
}

// sweepStale removes the sessions that have expired.
func (e *Engine) sweepStale(ctx context.Context, r *SweepReport) error {
	if e.sweeper == nil {
		return nil
	}
	q := store.PageQuery{Limit: sweepBatch}
	for {
		page, err := e.sweeper.Stale(ctx, q)
		if err != nil {
			return err
		}
		for _, id := range page.Items {
			_, err := e.remove(ctx, id, store.Expired)
			switch {
			case err == nil:
				r.Detected++
				r.Expired++
			case ctx.Err() != nil:
				return ctx.Err()
			case isConflict(err), errors.Is(err, cairn.ErrNotFound): // it was active, or another process was faster
				continue
			default:
				r.Detected++
				r.failed(id, err)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// sweepRemoved purges the sessions that were removed long enough ago.
func (e *Engine) sweepRemoved(ctx context.Context, r *SweepReport) error {
	if e.sweeper == nil || e.opts.Retention < 0 {
		return nil
	}
	q := store.PageQuery{Limit: sweepBatch}
	for {
		page, err := e.sweeper.Removed(ctx, e.opts.Retention, q)
		if err != nil {
			return err
		}
		for _, removed := range page.Items {
			n, err := e.purge(ctx, removed)
			r.SnapshotsDeleted += n
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, cairn.ErrNotFound): // another process was faster
			case err != nil:
				r.failed(removed.SessionID, err)
			default:
				r.Purged++
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// purge removes what is left of a session. The log goes first: what was begun and not ended is found by the session, and what
// has no log is not restored.
func (e *Engine) purge(ctx context.Context, removed store.Removed) (checkpoints int, err error) {
	log := removed.Log()
	if err := e.log.Trim(ctx, log, math.MaxInt64); err != nil { // a part at a time, if it is long
		return 0, err
	}
	if err := e.log.Drop(ctx, log); err != nil {
		return 0, err
	}
	return e.sweeper.Purge(ctx, removed.Key)
}

// sweepOften sweeps now and every Options.SweepInterval until ctx is done.
func (e *Engine) sweepOften(ctx context.Context) {
	ticker := time.NewTicker(e.opts.SweepInterval)
	defer ticker.Stop()
	for {
		r, err := e.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.opts.Logger.Warn("sweep came to an end early", "error", err, "failed", r.Failed)
		case r.Failed > 0:
			e.opts.Logger.Warn("sweep left sessions behind", "failed", r.Failed, "session", r.Errors[0].SessionID, "error", r.Errors[0].Error)
		case r.Expired+r.Purged+r.Trimmed > 0:
			e.opts.Logger.Info("swept", "expired", r.Expired, "purged", r.Purged, "snapshots_deleted", r.SnapshotsDeleted,
				"trimmed", r.Trimmed, "events_trimmed", r.EventsTrimmed)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
