package dostore

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// List implements driver.Store.
func (s *Store) List(ctx context.Context, q driver.SessionQuery) (page driver.Page[cairn.Session], err error) {
	cursor, err := q.Begin()
	if err != nil {
		return page, err
	}
	if err := s.sweep(ctx); err != nil {
		return page, err
	}
	list, to := allSessions, behind
	switch {
	case len(q.Removed) > 0:
		list = removedList
	case q.RootID != "":
		list = ofRoot(allSessions, q.RootID)
	case q.UserID != "":
		list = ofUser(allSessions, q.UserID)
	}
	if cursor.ID != "" {
		to = timed(cursor.CreatedAt, cursor.ID)
	}
	err = s.each(ctx, list, "", to, true, func(r *row, now time.Time) (bool, error) {
		h, err := decodeHead(r.value, now)
		if err != nil || !q.Selects(&h.Row) {
			return true, err
		}
		if len(page.Items) == driver.PageSize(q.Limit) {
			page.Next = driver.SessionCursor(&page.Items[len(page.Items)-1])
			return false, nil
		}
		page.Items = append(page.Items, h.Row)
		return true, nil
	})
	return page, err
}

// Calls implements driver.Store. A call of a known root and id is read in the tree's object.
func (s *Store) Calls(ctx context.Context, q driver.CallQuery) (page driver.Page[cairn.PendingCall], err error) {
	at, root, id, err := q.Begin()
	if err != nil {
		return page, err
	}
	if q.RootID != "" && q.ID != "" {
		return s.oneCall(ctx, q)
	}
	if err := s.sweep(ctx); err != nil {
		return page, err
	}
	list, from := allCalls, ""
	switch {
	case q.RootID != "":
		list = ofRoot(allCalls, q.RootID)
	case len(q.Statuses) == 1 && q.Statuses[0] == cairn.CallOpen:
		list = openCalls
	}
	if root != "" {
		from = callKey(at, root, id) + "\x00"
	}
	err = s.each(ctx, list, from, behind, false, func(r *row, now time.Time) (bool, error) {
		call, err := decodeCall(r.value)
		if err != nil || !q.Selects(call, now) {
			return true, err
		}
		if n := len(page.Items); n == driver.PageSize(q.Limit) {
			page.Next = driver.CallCursor(&page.Items[n-1])
			return false, nil
		}
		page.Items = append(page.Items, *call)
		return true, nil
	})
	return page, err
}

// decodeCall reads a stored call.
func decodeCall(text string) (*cairn.PendingCall, error) {
	c := &cairn.PendingCall{}
	return c, backend.DecodeJSON("call", text, c)
}

// oneCall finds the call of a root and an id.
func (s *Store) oneCall(ctx context.Context, q driver.CallQuery) (page driver.Page[cairn.PendingCall], err error) {
	f, err := s.find(ctx, q.RootID, get(ofTree, "call/"+q.ID))
	if err != nil {
		if driver.IsGone(err) {
			err = nil
		}
		return page, err
	}
	r, err := f.a.one(1)
	if err != nil || r == nil {
		return page, err
	}
	place, err := rowOf[callPlace]("place of a call", r)
	if err != nil {
		return page, err
	}
	a, err := s.tree(q.RootID).call(ctx, &request{Op: "read", Ask: []ask{get(ofSession(place.Session), "call/"+q.ID)}})
	if err != nil {
		return page, err
	}
	r, err = a.one(0)
	if err != nil || r == nil { // deleted since
		return page, err
	}
	call, err := decodeCall(r.value)
	if err != nil {
		return page, err
	}
	return backend.CallPage([]*cairn.PendingCall{call}, q, a.asOf())
}

// Due implements driver.Store.
func (s *Store) Due(ctx context.Context, q driver.DueQuery) (page driver.Page[driver.Due], err error) {
	since, id, err := driver.ParseDueCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	if err := s.sweep(ctx); err != nil {
		return page, err
	}
	from := ""
	if id != "" {
		from = timed(since, id) + "\x00"
	}
	lists := []string{allDue}
	if q.Agents != nil {
		lists = nil
		for _, agent := range slices.Compact(slices.Sorted(slices.Values(q.Agents))) {
			lists = append(lists, ofAgent(allDue, agent))
		}
	}
	var all []driver.Due
	for _, list := range lists {
		found := 0
		err := s.each(ctx, list, from, behind, false, func(r *row, now time.Time) (bool, error) {
			h, err := decodeHead(r.value, now)
			if err != nil {
				return false, err
			}
			d := h.due()
			d.Since = d.Since.Truncate(time.Microsecond)
			if now.Before(d.Since) && !(&backend.Document{Row: h.Row}).DueAtOnce(now) {
				return true, nil
			}
			all = append(all, d)
			found++
			return found < driver.PageSize(q.Limit), nil
		})
		if err != nil {
			return page, err
		}
	}
	return driver.DuePage(all, q.Limit), nil
}

// CountTree implements driver.TreeCounter.
func (s *Store) CountTree(ctx context.Context, root string) (int, error) {
	f, err := s.find(ctx, root, every(ofTree, "member"))
	switch {
	case driver.IsGone(err):
		return 0, nil
	case err != nil:
		return 0, err
	case f.root != root: // a child
		return 0, nil
	}
	list, err := f.a.all(1)
	return len(list), err
}
