package memstore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Runs implements driver.Store.
func (s *Store) Runs(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Run], error) {
	doc, err := s.open(ctx, id)
	if err != nil {
		return driver.Page[cairn.Run]{}, err
	}
	defer s.mu.Unlock()
	return doc.RunPage(q)
}

// Checkpoints implements driver.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	doc, err := s.open(ctx, id)
	if err != nil {
		return driver.Page[cairn.Checkpoint]{}, err
	}
	defer s.mu.Unlock()
	return doc.CheckpointPage(q)
}

// List implements driver.Store.
func (s *Store) List(ctx context.Context, q driver.SessionQuery) (driver.Page[cairn.Session], error) {
	if err := s.lock(ctx); err != nil {
		return driver.Page[cairn.Session]{}, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	s.expire(now)
	rows := make([]*cairn.Session, 0, len(s.sessions))
	if len(q.Removed) > 0 {
		for _, t := range s.removed {
			for _, doc := range t.sessions {
				row := doc.Row
				row.AsOf, row.Removal, row.RemovedAt = now, string(t.Reason), t.RemovedAt
				rows = append(rows, &row)
			}
		}
		return backend.SessionPage(rows, q)
	}
	for _, doc := range s.sessions {
		doc.Row.AsOf = now
		rows = append(rows, &doc.Row)
	}
	return backend.SessionPage(rows, q)
}

// Calls implements driver.Store.
func (s *Store) Calls(ctx context.Context, q driver.CallQuery) (driver.Page[cairn.PendingCall], error) {
	if err := s.lock(ctx); err != nil {
		return driver.Page[cairn.PendingCall]{}, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	s.expire(now)
	var calls []*cairn.PendingCall
	if q.RootID != "" && q.ID != "" {
		if owner := s.owners[callKey{q.RootID, q.ID}]; owner != nil {
			calls = append(calls, owner.Calls[q.ID])
		}
		return backend.CallPage(calls, q, now)
	}
	for key, owner := range s.owners {
		calls = append(calls, owner.Calls[key.id])
	}
	return backend.CallPage(calls, q, now)
}

// Due implements driver.Store.
func (s *Store) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	if err := s.lock(ctx); err != nil {
		return driver.Page[driver.Due]{}, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	s.expire(now)
	return backend.DuePage(s.sessions, q, now)
}

// CountTree implements driver.TreeCounter.
func (s *Store) CountTree(ctx context.Context, root string) (n int, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for _, doc := range s.sessions {
		if doc.Row.RootID == root {
			n++
		}
	}
	return n, nil
}
