package redisstore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var scriptDelete = about("delete", "delete", frees)

// Delete implements driver.Store. It leaves the event log to Log.Drop.
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
		return driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q is running", id)
	}
	return s.release(ctx, id, s.bucketOf(r.text(1)))
}
