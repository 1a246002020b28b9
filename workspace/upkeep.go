package workspace

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/cairn-agents/cairn"
)

// The times after which Upkeep forgets the output of commands that have ended in the background, and removes directories.
const (
	keepOutput    = 10 * time.Minute
	keepDirectory = 24 * time.Hour
)

// Upkeep implements [cairn.Keeper]. It ends the background commands of sessions that were deleted or have expired, and
// removes directories that were not used for a day: their sessions restore them from the snapshots. The output of a
// command that has ended in the background is kept for ten minutes, or a day if no snapshot has its changes.
func (w *Workspace) Upkeep(ctx context.Context) error {
	w.mu.Lock()
	open := maps.Clone(w.open)
	for _, s := range open {
		s.users++
	}
	w.mu.Unlock()
	var failed []error
	for id, s := range open {
		select {
		case s.turn <- struct{}{}:
			failed = append(failed, w.tend(ctx, s))
			w.leave(id, s)
		default: // a call uses it
			w.forget(id, s)
		}
	}
	return errors.Join(append(failed, w.provider.Sweep(ctx, keepDirectory))...)
}

// tend ends the background commands of a session that no longer exists, and forgets those that have ended long ago.
func (w *Workspace) tend(ctx context.Context, s *session) error {
	if s.busy(0) {
		// A write is refused once the session is removed. The blob, an empty directory, is part of most snapshots.
		_, err := w.blobs.Put(ctx, s.owner, []byte("[]"))
		if !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrDeleted) && !errors.Is(err, cairn.ErrExpired) {
			return err
		}
		s.end()
		s.unsaved = false
	}
	if !s.busy(keepDirectory) {
		s.unsaved = false
	}
	if !s.unsaved && !s.busy(keepOutput) {
		clear(s.processes)
	}
	return nil
}
