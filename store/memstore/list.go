package memstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Runs implements store.Store.
func (s *Store) Runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	ses, err := s.open(ctx, id)
	if err != nil {
		return store.Page[cairn.Run]{}, err
	}
	defer s.mu.Unlock()
	return page(ses.runs, q, func(r *cairn.Run) int64 { return int64(r.Turn) })
}

// Checkpoints implements store.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Checkpoint], error) {
	ses, err := s.open(ctx, id)
	if err != nil {
		return store.Page[cairn.Checkpoint]{}, err
	}
	defer s.mu.Unlock()
	return page(ses.checkpoints, q, func(cp *cairn.Checkpoint) int64 { return cp.Number })
}

// page cuts one page out of a list sorted by a growing number; the cursor is the number of the last item given.
func page[T any](list []*T, q store.PageQuery, number func(*T) int64) (store.Page[T], error) {
	var last int64
	if q.Cursor != "" {
		var err error
		if last, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return store.Page[T]{}, cairn.Invalid("cursor", "%q is not one of this list", q.Cursor)
		}
	}
	var out store.Page[T]
	take := func(item *T) bool {
		if len(out.Items) == q.Size() {
			out.Next = strconv.FormatInt(number(&out.Items[len(out.Items)-1]), 10)
			return false
		}
		out.Items = append(out.Items, *item)
		return true
	}
	if q.Newest {
		for _, item := range slices.Backward(list) {
			if (q.Cursor == "" || number(item) < last) && !take(item) {
				break
			}
		}
		return out, nil
	}
	for _, item := range list {
		if (q.Cursor == "" || number(item) > last) && !take(item) {
			break
		}
	}
	return out, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.SessionQuery) (store.Page[cairn.Session], error) {
	cursor, err := store.ParseSessionCursor(q.Cursor)
	if err != nil {
		return store.Page[cairn.Session]{}, err
	}
	if err := s.lock(ctx); err != nil {
		return store.Page[cairn.Session]{}, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	s.expire(now)
	var out store.Page[cairn.Session]
	for _, row := range s.newest(func(row *cairn.Session) bool { return cursor.Before(row) && matches(&q, row) }) {
		if len(out.Items) == store.PageSize(q.Limit) {
			out.Next = store.SessionCursor(&out.Items[len(out.Items)-1])
			break
		}
		row.AsOf = now
		out.Items = append(out.Items, *row)
	}
	return out, nil
}

// CountTree implements store.TreeCounter.
func (s *Store) CountTree(ctx context.Context, root string) (n int, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for _, ses := range s.sessions {
		if ses.row.RootID == root {
			n++
		}
	}
	return n, nil
}

func matches(q *store.SessionQuery, s *cairn.Session) bool {
	for _, tag := range q.Tags {
		if !slices.Contains(s.Tags, tag) {
			return false
		}
	}
	for k, v := range q.Metadata {
		if have, ok := s.Metadata[k]; !ok || have != v {
			return false
		}
	}
	return (q.UserID == "" || s.UserID == q.UserID) &&
		(q.Agent == "" || s.Agent == q.Agent) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, s.Status)) &&
		(q.ParentID == "" || s.ParentID == q.ParentID) &&
		(q.RootID == "" || s.RootID == q.RootID) &&
		(!q.RootsOnly || s.ParentID == "") &&
		(q.CreatedAfter.IsZero() || !s.CreatedAt.Before(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || s.CreatedAt.Before(q.CreatedBefore)) &&
		(q.UpdatedAfter.IsZero() || !s.UpdatedAt.Before(q.UpdatedAfter)) &&
		(q.UpdatedBefore.IsZero() || s.UpdatedAt.Before(q.UpdatedBefore))
}
