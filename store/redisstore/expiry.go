package redisstore

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var scriptRestore = about("restore", "restore", grows)

// Restore implements driver.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (*cairn.Session, error) {
	r, err := s.ask(ctx, scriptRestore, root, s.opts.Retention.Milliseconds(), s.opts.EventRetention.Milliseconds(), rand.Text())
	var removed *driver.GoneError
	switch {
	case errors.As(err, &removed) && removed.Removed.SessionID != root:
		return nil, driver.NotRoot(&cairn.Session{ID: root, RootID: removed.Removed.SessionID})
	case err != nil:
		return nil, err
	case r.word() == "child":
		return nil, driver.NotRoot(&cairn.Session{ID: root, RootID: r.text(2)})
	}
	s.known.Drop(root)
	row, err := readRow(root, r.list(1))
	if err == nil && r.word() == "exists" {
		err = driver.Conflict(cairn.ErrExists, row, "session %q already exists", root)
	}
	if err != nil {
		return nil, err
	}
	return row, nil
}
