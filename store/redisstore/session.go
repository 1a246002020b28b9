package redisstore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var (
	scriptDelete  = about("delete", "delete")
	scriptRelease = writer("release", "delete")
)

// Delete implements store.Store. Its event log is left to Log.Drop.
func (s *Store) Delete(ctx context.Context, id string) error {
	s.known.Drop(id)
	r, err := s.ask(ctx, scriptDelete, id)
	if err != nil {
		return err
	}
	if r.word() == "running" {
		row, err := readRow(id, r.list(1))
		if err != nil {
			return err
		}
		return store.Conflict(cairn.CodeRunning, row, "session %q is running", id)
	}
	return s.release(ctx, id, s.bucketOf(r.text(1)))
}

// release deletes, on a cluster, the note of where a deleted session was. If this does not happen, the note names no
// session, and the next creator of one with that id corrects it.
func (s *Store) release(ctx context.Context, id string, home int) error {
	own := s.bucketOf(id)
	if own == home {
		return nil
	}
	s.routes.forget(id)
	_, err := s.run(ctx, scriptRelease, own, id, home)
	return err
}
