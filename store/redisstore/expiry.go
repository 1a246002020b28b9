package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var (
	scriptOver    = reader("over", "look for what has expired")
	scriptRestore = about("restore", "restore")
)

// look removes a tree that may have expired, if it has.
func (s *Store) look(ctx context.Context, root string) error {
	_, err := s.Remove(ctx, root, store.Expired)
	if errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrNotFound) {
		return nil
	}
	return err
}

// lookAt does that for the roots that a list belongs to, and reports whether there was any to look at: then the list is
// to be made again. An item whose root is empty cannot expire.
func lookAt[T any](ctx context.Context, s *Store, list []T, root func(*T) string) (again bool, err error) {
	roots := map[int][]any{}
	seen := map[string]bool{}
	for i := range list {
		if id := root(&list[i]); id != "" && !seen[id] {
			seen[id] = true
			roots[s.bucketOf(id)] = append(roots[s.bucketOf(id)], id)
		}
	}
	for bucket, ids := range roots {
		for part := range slices.Chunk(ids, 1000) {
			r, err := s.run(ctx, scriptOver, bucket, part...)
			if err != nil {
				return false, err
			}
			for _, id := range r.list(1) {
				again = true
				if err := s.look(ctx, plain(id)); err != nil {
					return false, err
				}
			}
		}
	}
	return again, nil
}

// gone reads the answer for a session whose tree was removed.
func gone(id string, r reply) error {
	at, err := strconv.ParseInt(r.text(4), 10, 64)
	if err != nil {
		return cairn.Errorf(cairn.CodeCorrupt, "session %q: the time %q of its removal does not decode", id, r.text(4))
	}
	return store.Gone(id, store.Removed{Key: r.text(1), SessionID: r.text(2), Reason: store.Removal(r.text(3)),
		RemovedAt: fromMicros(at), Incarnation: r.text(5)})
}

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
