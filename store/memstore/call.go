package memstore

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Calls implements store.Store.
func (s *Store) Calls(ctx context.Context, q store.CallQuery) (store.Page[cairn.PendingCall], error) {
	var page store.Page[cairn.PendingCall]
	var last cairn.PendingCall
	var err error
	if last.CreatedAt, last.RootID, last.ID, err = store.ParseCallCursor(q.Cursor); err != nil {
		return page, err
	}
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	s.expire(now)
	var found []*cairn.PendingCall
	for key, ses := range s.owners {
		c := ses.calls[key.id]
		if (q.Cursor == "" || store.CompareCalls(c, &last) > 0) && q.Selects(c, now) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, store.CompareCalls)
	size := store.PageSize(q.Limit)
	for i, c := range found {
		if i == size {
			page.Next = store.CallCursor(found[i-1])
			break
		}
		page.Items = append(page.Items, *c)
	}
	return page, nil
}

// waiting returns the calls of the step that waits, the oldest first.
func (ses *session) waiting() []cairn.PendingCall {
	var list []cairn.PendingCall
	for _, c := range ses.calls {
		if ses.row.SuspendedStep != "" && c.StepID == ses.row.SuspendedStep {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b cairn.PendingCall) int { return store.CompareCalls(&a, &b) })
	return list
}

// checkCalls reports the first write of a call that is based on another version than the one there is.
func (s *Store) checkCalls(row *cairn.Session, list []store.CallWrite) error {
	for i := range list {
		id, version, ours := list[i].Call.ID, int64(0), true
		if owner := s.owners[callKey{row.RootID, id}]; owner != nil {
			version, ours = owner.calls[id].Version, owner.row.ID == row.ID
		}
		twice := slices.ContainsFunc(list[:i], func(w store.CallWrite) bool { return w.Call.ID == id })
		if version != list[i].Seen || !ours || twice {
			return store.CallConflict(copyOf(row), id)
		}
	}
	return nil
}

// putCalls writes rows that have been checked.
func (s *Store) putCalls(ses *session, list []cairn.PendingCall) {
	for i := range list {
		c := copyOf(&list[i])
		if old := ses.calls[c.ID]; old != nil {
			c.CreatedAt = old.CreatedAt
		}
		ses.putCall(c)
		s.owners[callKey{c.RootID, c.ID}] = ses
	}
}

func (ses *session) putCall(c *cairn.PendingCall) {
	if ses.calls == nil {
		ses.calls = map[string]*cairn.PendingCall{}
	}
	ses.calls[c.ID] = c
}
