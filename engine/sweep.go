package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// ttl returns how long a new session of an agent may be idle; 0 means forever.
func (e *Engine) ttl(agent string) cairn.Duration {
	ttl := e.opts.TTL
	if a := e.agent(agent); a != nil && a.TTL != 0 {
		ttl = a.TTL
	}
	return cairn.Duration(max(ttl, 0))
}

// Delete removes a session with everything that it owns: its pending calls, the sessions of its sub-agents and
// companions, and its event log. It hides the session at once: from then on every access returns ErrDeleted, which is
// also ErrNotFound, and no session begins under its id. The stored data is kept until a Sweep after Options.Retention,
// and until then Restore brings the session back.
//
// A session that is busy is stopped first: Delete removes the turns from its queue, and aborts the run, in whichever
// process it is, with the sub-agents and companions that are at work. It returns when the run has ended and the session
// is hidden. The error is ErrAlreadyRunning if a run still holds one of the sessions after two lease times, ErrInvalid
// for a sub-agent's session, which is deleted with its root. If ctx is done first, runs that were stopped stay stopped.
func (e *Engine) Delete(ctx context.Context, id string) error {
	_, err := e.removeStopped(ctx, id, "the session was deleted", func(ctx context.Context, id string) error {
		return e.upkeep.remove(ctx, id, store.Deleted)
	})
	return err
}

// Restore brings back a session that was deleted or has expired and is not purged yet, with everything that it owned.
// It counts as activity: the session lives for another TTL, and an expiry time that has passed is cleared. The error is
// ErrExists if the session exists, ErrNotFound if nothing is left of it, ErrInvalid for a sub-agent's session, which is
// restored with its root.
func (e *Engine) Restore(ctx context.Context, id string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	if e.upkeep.sweeper == nil {
		if _, err := driver.Load(ctx, e.store, id); err != nil {
			return nil, err
		}
		return nil, cairn.Errorf(cairn.ErrExists, "session %q already exists", id)
	}
	var gone *store.GoneError
	if _, err := driver.Load(ctx, e.store, id); errors.As(err, &gone) {
		// A deleted log means that another process purges the session.
		if _, _, err := e.log.Bounds(ctx, gone.Removed.Log()); errors.Is(err, cairn.ErrDeleted) {
			return nil, driver.NotFound(id)
		}
	}
	row, err := e.upkeep.sweeper.Restore(ctx, id)
	if err != nil {
		return nil, err
	}
	e.upkeep.publish(ctx, row.Log(), cairn.Event{Type: cairn.EventSessionRestored, SessionID: id, Agent: row.Agent})
	return row, nil
}

// Erase removes a session as Delete does, which stops it if it is busy, and then purges it at once, without retention.
// It also purges a session that was deleted or has expired. The id is free afterwards. Readers of its events end with
// ErrDeleted, without an event. The usage of the session is kept without its ids. If Erase fails after it has hidden the session, a Sweep does the rest after the
// retention.
//
// In a store that is a [driver.Scrubber], such as SQLite, Erase then overwrites the session in the store's files. If
// that has to wait for a reader, Erase logs a warning and the next Sweep repeats it.
func (e *Engine) Erase(ctx context.Context, id string) error {
	if _, err := e.removeStopped(ctx, id, "the session was erased", e.erase); err != nil {
		return err
	}
	e.upkeep.forget(ctx) // logs its error
	return nil
}

// erase is Erase without the stop and the scrub.
func (e *Engine) erase(ctx context.Context, id string) error {
	removed, err := e.upkeep.hide(ctx, id, store.Deleted)
	var gone *store.GoneError
	switch {
	case errors.As(err, &gone) && gone.Removed.SessionID != id:
		return driver.NotRoot(&cairn.Session{ID: id, RootID: gone.Removed.SessionID})
	case errors.As(err, &gone):
		removed = &gone.Removed
	case err != nil || e.upkeep.sweeper == nil:
		return err
	}
	hidden := err == nil // by this call; its event would be dropped with the log
	if err = e.upkeep.forgetUsage(ctx, driver.Forget{Roots: []string{id}}); err == nil {
		_, err = e.upkeep.purge(ctx, *removed)
	}
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return nil // a sweep was faster
	case err != nil && hidden:
		e.upkeep.published(ctx, removed)
	}
	return err
}

// Sweep removes expired sessions, purges those that were removed Options.Retention ago, deletes files that no workspace and
// no artifact has used for a day, and trims the event logs by Options.EventRetention. It adds the usage rows of commits to
// the sums of their days, and removes those that were written Options.UsageRetention ago. It covers every session of the
// store, regardless of its agent. In a store that is not a
// [driver.Sweeper], none expires or is purged. A session that cannot be removed, purged or trimmed is an entry of the
// report and stops nothing. Any number of processes may sweep at once. The error says that ctx is done, or that the
// store or the log could not list the sessions or logs that are due; the report is valid up to there.
//
// Since the engine's last sweep, the store's clock must have moved by the time that has passed, within a minute.
// Otherwise the sweep does nothing: the clock may be wrong, and purged sessions are lost. The error is then
// ErrUnavailable, and the report says by how much. The next sweep continues, unless the clock jumps again.
//
// Expiry does not depend on sweeps: an access that finds an expired session removes it as well.
//
// Each function of progress is called with the report so far, once for every session that was looked at, by the calling
// goroutine.
func (e *Engine) Sweep(ctx context.Context, progress ...func(SweepReport)) (SweepReport, error) {
	return e.upkeep.sweep(ctx, progress)
}

// sweepOften sweeps at once and then every Options.SweepInterval until ctx is done.
func (e *Engine) sweepOften(ctx context.Context) {
	ticker := time.NewTicker(e.opts.SweepInterval)
	defer ticker.Stop()
	for {
		r, err := e.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case r.ClockJump != 0:
			e.opts.Logger.Error("sweep skipped: the store's clock jumped", "by", r.ClockJump, "next_in", e.opts.SweepInterval)
		case err != nil:
			e.opts.Logger.Warn("sweep ended early", "error", err, "failed", r.Failed)
		case r.Failed > 0:
			e.opts.Logger.Warn("sweep failed for some sessions", "failed", r.Failed, "session", r.Errors[0].SessionID, "error", r.Errors[0].Error)
		case r.Expired+r.Purged+r.Trimmed+r.BlobsDeleted > 0:
			e.opts.Logger.Info("swept", "expired", r.Expired, "purged", r.Purged, "snapshots_deleted", r.SnapshotsDeleted,
				"trimmed", r.Trimmed, "events_trimmed", r.EventsTrimmed, "blobs_deleted", r.BlobsDeleted)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// TrimEvents removes the events that a retention does not keep from the log of a session's tree, and returns their
// number. Workers do so by themselves with Options.EventRetention. The error is ErrInvalid for the session of a
// sub-agent or companion, whose events are on the log of its root.
func (e *Engine) TrimEvents(ctx context.Context, id string, keep EventRetention) (int64, error) {
	if err := (retention{&keep}).complete(); err != nil {
		return 0, err
	}
	row, err := e.Session(ctx, id)
	if err != nil {
		return 0, err
	}
	if row.RootID != id {
		return 0, driver.NotRoot(row)
	}
	t, err := e.upkeep.trimming(ctx, row, keep)
	if err != nil {
		return 0, err
	}
	return t.trim(ctx, e.log)
}
