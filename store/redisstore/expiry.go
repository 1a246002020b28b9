package redisstore

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var scriptRestore = about("restore", "restore", grows)

// Restore implements store.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (*cairn.Session, error) {
	r, err := s.ask(ctx, scriptRestore, root, s.opts.Retention.Milliseconds(), s.opts.EventRetention.Milliseconds(), rand.Text())
	var removed *store.GoneError
	switch {
	case errors.As(err, &removed) && removed.Removed.SessionID != root:
		return nil, store.NotRoot(&cairn.Session{ID: root, RootID: removed.Removed.SessionID})
	case err != nil:
		return nil, err
	case r.word() == "child":
		return nil, store.NotRoot(&cairn.Session{ID: root, RootID: r.text(2)})
	}
	s.known.Drop(root)
	row, err := readRow(root, r.list(1))
	if err == nil && r.word() == "exists" {
		err = store.Conflict(cairn.CodeExists, row, "session %q is there", root)
	}
	if err != nil {
		return nil, err
	}
	return row, nil
}
