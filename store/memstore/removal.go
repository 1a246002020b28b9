package memstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// tree is a session tree that was removed.
type tree struct {
	store.Removed
	number   int // its key
	sessions []*session
}

// Remove implements store.Store.
func (s *Store) Remove(ctx context.Context, root string, why store.Removal) (*store.Removed, error) {
	if err := store.CheckRemoval(why); err != nil {
		return nil, err
	}
	ses, err := s.open(ctx, root)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if ses.row.RootID != root {
		return nil, store.NotRoot(&ses.row)
	}
	now := s.clock()
	members, rows := []*session{ses}, []*cairn.Session{&ses.row}
	for _, other := range s.sessions {
		if other != ses && other.row.RootID == root {
			other.row.AsOf = now
			members, rows = append(members, other), append(rows, &other.row)
		}
	}
	if store.RemovalConflict(rows, why, now) != nil {
		if why == store.Expired {
			ses.sweepAt = store.SweepAt(now, rows[0], rows[1:]...)
		}
		for i := range rows {
			rows[i] = copyOf(rows[i]) // a conflict hands one out
		}
		return nil, store.RemovalConflict(rows, why, now)
	}
	for _, member := range members {
		s.forget(member)
	}
	s.log.mu.Lock()
	s.log.drop(root)
	s.log.mu.Unlock()
	s.removals++
	t := &tree{number: s.removals, sessions: members,
		Removed: store.Removed{Key: strconv.Itoa(s.removals), SessionID: root, Reason: why, RemovedAt: now}}
	s.removed = append(s.removed, t)
	return copyOf(&t.Removed), nil
}

// Stale implements store.Store.
func (s *Store) Stale(ctx context.Context, q store.PageQuery) (store.Page[string], error) {
	var page store.Page[string]
	at, id, err := store.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	compare := func(ses *session, at time.Time, id string) int {
		return cmp.Or(ses.sweepAt.Compare(at), strings.Compare(ses.row.ID, id))
	}
	var found []*session
	for _, ses := range s.sessions {
		if !ses.sweepAt.IsZero() && !now.Before(ses.sweepAt) && (id == "" || compare(ses, at, id) > 0) {
			found = append(found, ses)
		}
	}
	slices.SortFunc(found, func(a, b *session) int { return compare(a, b.sweepAt, b.row.ID) })
	for i, ses := range found {
		if i == q.Size() {
			page.Next = store.SweepCursor(found[i-1].sweepAt, found[i-1].row.ID)
			break
		}
		page.Items = append(page.Items, ses.row.ID)
	}
	return page, nil
}

// Removed implements store.Store.
func (s *Store) Removed(ctx context.Context, age time.Duration, q store.PageQuery) (store.Page[store.Removed], error) {
	var page store.Page[store.Removed]
	_, key, err := store.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	var last int
	if key != "" {
		if last, err = strconv.Atoi(key); err != nil {
			return page, cairn.Invalid("cursor", "%q is not one of this list", q.Cursor)
		}
	}
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	before := s.clock().Add(-age)
	for _, t := range s.removed {
		if t.number <= last || t.RemovedAt.After(before) {
			continue
		}
		if len(page.Items) == q.Size() {
			end := page.Items[len(page.Items)-1]
			page.Next = store.SweepCursor(end.RemovedAt, end.Key)
			break
		}
		page.Items = append(page.Items, t.Removed)
	}
	return page, nil
}

// Purge implements store.Store.
func (s *Store) Purge(ctx context.Context, key string) (checkpoints int, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.removed, func(t *tree) bool { return t.Key == key })
	if i < 0 {
		return 0, store.NotRemoved(key)
	}
	for _, ses := range s.removed[i].sessions {
		checkpoints += len(ses.checkpoints)
	}
	s.removed = slices.Delete(s.removed, i, i+1)
	return checkpoints, nil
}
