package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// tree is a session tree that was removed.
type tree struct {
	driver.Removed
	number   int // Key as a number
	sessions []*backend.Document
}

// Remove implements driver.Sweeper.
func (s *Store) Remove(ctx context.Context, root string, why driver.Removal) (*driver.Removed, error) {
	if err := driver.CheckRemoval(why); err != nil {
		return nil, err
	}
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	doc := s.sessions[root]
	if why == driver.Deleted && doc != nil {
		doc, _ = s.find(root, now)
	}
	switch t := s.gone[root]; {
	case t != nil:
		return nil, driver.Gone(root, t.Removed)
	case doc == nil:
		return nil, driver.NotFound(root)
	case doc.Row.RootID != root:
		return nil, driver.NotRoot(&doc.Row)
	}
	return s.remove(doc, why, now)
}

// remove hides the tree of a root. If an expired tree must not be removed it defers the next check of it.
func (s *Store) remove(doc *backend.Document, why driver.Removal, now time.Time) (*driver.Removed, error) {
	root := doc.Row.ID
	members, rows := []*backend.Document{doc}, []*cairn.Session{&doc.Row}
	for _, other := range s.sessions {
		if other != doc && other.Row.RootID == root {
			other.Row.AsOf = now
			members, rows = append(members, other), append(rows, &other.Row)
		}
	}
	if driver.RemovalConflict(rows, why, now) != nil {
		if why == driver.Expired {
			doc.SweepAt = driver.SweepAt(now, rows[0], rows[1:]...)
			s.sweepFrom(doc.SweepAt)
		}
		for i := range rows {
			rows[i] = copyOf(rows[i]) // a conflict returns one of these rows
		}
		return nil, driver.RemovalConflict(rows, why, now)
	}
	s.removals++
	t := &tree{number: s.removals, sessions: members, Removed: driver.Removed{Key: strconv.Itoa(s.removals), SessionID: root,
		Reason: why, RemovedAt: now, Incarnation: doc.Row.Incarnation}}
	s.removed = append(s.removed, t)
	for _, member := range members {
		s.forget(member)
		s.gone[member.Row.ID] = t
	}
	return copyOf(&t.Removed), nil
}

// look removes the tree of a session if its sweep time has come and it has expired.
func (s *Store) look(doc *backend.Document, now time.Time) {
	if root := s.sessions[doc.Row.RootID]; root != nil && stale(root, now) {
		_, _ = s.remove(root, driver.Expired, now) // otherwise it is deferred
	}
}

// expire removes every tree that has expired.
func (s *Store) expire(now time.Time) {
	if s.sweepAt.IsZero() || now.Before(s.sweepAt) {
		return
	}
	var list []*backend.Document
	for _, doc := range s.sessions {
		if stale(doc, now) {
			list = append(list, doc)
		}
	}
	slices.SortFunc(list, func(a, b *backend.Document) int { return strings.Compare(a.Row.ID, b.Row.ID) })
	for _, doc := range list {
		_, _ = s.remove(doc, driver.Expired, now)
	}
	s.sweepAt = time.Time{}
	for _, doc := range s.sessions {
		s.sweepFrom(doc.SweepAt)
	}
}

// stale reports whether it is time to check whether a root has expired.
func stale(doc *backend.Document, now time.Time) bool {
	return !doc.SweepAt.IsZero() && !now.Before(doc.SweepAt)
}

// sweepFrom records a time from which a root is stale.
func (s *Store) sweepFrom(at time.Time) {
	if !at.IsZero() && (s.sweepAt.IsZero() || at.Before(s.sweepAt)) {
		s.sweepAt = at
	}
}

// Restore implements driver.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (*cairn.Session, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	there, err := s.find(root, now)
	switch {
	case there != nil && there.Row.RootID != root:
		return nil, driver.NotRoot(&there.Row)
	case there != nil:
		return nil, driver.Conflict(cairn.ErrExists, copyOf(&there.Row), "session %q already exists", root)
	case err == nil:
		return nil, driver.NotFound(root)
	}
	t := s.gone[root]
	if t.SessionID != root {
		return nil, driver.NotRoot(&cairn.Session{ID: root, RootID: t.SessionID})
	}
	rows := make([]*cairn.Session, len(t.sessions))
	for i, doc := range t.sessions {
		rows[i] = &doc.Row
	}
	driver.Revive(rows[0], now)
	t.sessions[0].SweepAt = driver.SweepAt(now, rows[0], rows[1:]...)
	s.sweepFrom(t.sessions[0].SweepAt)
	for _, doc := range t.sessions {
		s.sessions[doc.Row.ID] = doc
		for id := range doc.Calls {
			s.owners[callKey{root, id}] = doc
		}
	}
	s.unlist(t)
	return copyOf(rows[0]), nil
}

// unlist removes a removed tree from the indexes of removed trees.
func (s *Store) unlist(t *tree) {
	for _, doc := range t.sessions {
		delete(s.gone, doc.Row.ID)
	}
	s.removed = slices.DeleteFunc(s.removed, func(other *tree) bool { return other == t })
}

// Stale implements driver.Sweeper.
func (s *Store) Stale(ctx context.Context, q driver.PageQuery) (driver.Page[string], error) {
	var page driver.Page[string]
	at, id, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	compare := func(doc *backend.Document, at time.Time, id string) int {
		return cmp.Or(doc.SweepAt.Compare(at), strings.Compare(doc.Row.ID, id))
	}
	var found []*backend.Document
	for _, doc := range s.sessions {
		if !doc.SweepAt.IsZero() && !now.Before(doc.SweepAt) && (id == "" || compare(doc, at, id) > 0) {
			found = append(found, doc)
		}
	}
	slices.SortFunc(found, func(a, b *backend.Document) int { return compare(a, b.SweepAt, b.Row.ID) })
	for i, doc := range found {
		if i == q.Size() {
			page.Next = driver.SweepCursor(found[i-1].SweepAt, found[i-1].Row.ID)
			break
		}
		page.Items = append(page.Items, doc.Row.ID)
	}
	return page, nil
}

// Removed implements driver.Sweeper.
func (s *Store) Removed(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[driver.Removed], error) {
	var page driver.Page[driver.Removed]
	_, key, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	var last int
	if key != "" {
		if last, err = strconv.Atoi(key); err != nil {
			return page, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
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
			page.Next = driver.SweepCursor(end.RemovedAt, end.Key)
			break
		}
		page.Items = append(page.Items, t.Removed)
	}
	return page, nil
}

// Purge implements driver.Sweeper.
func (s *Store) Purge(ctx context.Context, key string) (checkpoints int, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.removed, func(t *tree) bool { return t.Key == key })
	if i < 0 {
		return 0, driver.NotRemoved(key)
	}
	for _, doc := range s.removed[i].sessions {
		checkpoints += len(doc.Checkpoints)
		delete(s.memories, driver.SessionMemories(doc.Row.ID, doc.Row.Incarnation))
	}
	owner := driver.BlobOwner{Root: s.removed[i].SessionID, Incarnation: s.removed[i].Incarnation}
	s.unname(owner, slices.Collect(maps.Keys(s.named[owner]))...)
	s.unlist(s.removed[i])
	return checkpoints, nil
}
