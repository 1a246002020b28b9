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
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	ses := s.sessions[root]
	if why == store.Deleted && ses != nil {
		ses, _ = s.find(root, now)
	}
	switch t := s.gone[root]; {
	case t != nil:
		return nil, store.Gone(root, t.Removed)
	case ses == nil:
		return nil, store.NotFound(root)
	case ses.row.RootID != root:
		return nil, store.NotRoot(&ses.row)
	}
	return s.remove(ses, why, now)
}

// remove hides the tree of a root, or puts off the time to look at it again.
func (s *Store) remove(ses *session, why store.Removal, now time.Time) (*store.Removed, error) {
	root := ses.row.ID
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
			s.sweepFrom(ses.sweepAt)
		}
		for i := range rows {
			rows[i] = copyOf(rows[i]) // a conflict hands one out
		}
		return nil, store.RemovalConflict(rows, why, now)
	}
	s.removals++
	t := &tree{number: s.removals, sessions: members, Removed: store.Removed{Key: strconv.Itoa(s.removals), SessionID: root,
		Reason: why, RemovedAt: now, Incarnation: ses.row.Incarnation}}
	s.removed = append(s.removed, t)
	for _, member := range members {
		s.forget(member)
		s.gone[member.row.ID] = t
	}
	return copyOf(&t.Removed), nil
}

// look removes the tree of a session if the time to look has come and it has expired.
func (s *Store) look(ses *session, now time.Time) {
	if root := s.sessions[ses.row.RootID]; root != nil && root.stale(now) {
		_, _ = s.remove(root, store.Expired, now) // or else it is put off
	}
}

// expire removes every tree that has expired.
func (s *Store) expire(now time.Time) {
	if s.sweepAt.IsZero() || now.Before(s.sweepAt) {
		return
	}
	var list []*session
	for _, ses := range s.sessions {
		if ses.stale(now) {
			list = append(list, ses)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return strings.Compare(a.row.ID, b.row.ID) })
	for _, ses := range list {
		_, _ = s.remove(ses, store.Expired, now)
	}
	s.sweepAt = time.Time{}
	for _, ses := range s.sessions {
		s.sweepFrom(ses.sweepAt)
	}
}

// stale reports whether the time has come to look whether a root has expired.
func (ses *session) stale(now time.Time) bool {
	return !ses.sweepAt.IsZero() && !now.Before(ses.sweepAt)
}

// sweepFrom takes note of a time from which a root is stale.
func (s *Store) sweepFrom(at time.Time) {
	if !at.IsZero() && (s.sweepAt.IsZero() || at.Before(s.sweepAt)) {
		s.sweepAt = at
	}
}

// Restore implements store.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (*cairn.Session, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	there, err := s.find(root, now)
	switch {
	case there != nil && there.row.RootID != root:
		return nil, store.NotRoot(&there.row)
	case there != nil:
		return nil, store.Conflict(cairn.CodeExists, copyOf(&there.row), "session %q is there", root)
	case err == nil:
		return nil, store.NotFound(root)
	}
	t := s.gone[root]
	if t.SessionID != root {
		return nil, store.NotRoot(&cairn.Session{ID: root, RootID: t.SessionID})
	}
	rows := make([]*cairn.Session, len(t.sessions))
	for i, ses := range t.sessions {
		rows[i] = &ses.row
	}
	store.Revive(rows[0], now)
	t.sessions[0].sweepAt = store.SweepAt(now, rows[0], rows[1:]...)
	s.sweepFrom(t.sessions[0].sweepAt)
	for _, ses := range t.sessions {
		s.sessions[ses.row.ID] = ses
		for id := range ses.calls {
			s.owners[callKey{root, id}] = ses
		}
	}
	s.unlist(t)
	return copyOf(rows[0]), nil
}

// unlist takes a removed tree out of what it is found by.
func (s *Store) unlist(t *tree) {
	for _, ses := range t.sessions {
		delete(s.gone, ses.row.ID)
	}
	s.removed = slices.DeleteFunc(s.removed, func(other *tree) bool { return other == t })
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
	s.unlist(s.removed[i])
	return checkpoints, nil
}
