package dostore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// keyOf returns the key of the removal of a root at a time, and rootOfKey the root.
func keyOf(root string, at time.Time) string {
	return strconv.FormatInt(at.UnixMicro(), 36) + "." + root
}

func rootOfKey(key string) string {
	_, root, _ := strings.Cut(key, ".")
	return root
}

// whole is a tree with its sessions' heads, the root's first, and its calls.
type whole struct {
	*found
	heads    []*head
	versions []int64
	calls    []cairn.PendingCall
	members  int64 // version of the row that changes with each member
	now      time.Time
}

// wholeTree reads a tree, whether or not it is removed or has expired.
func (s *Store) wholeTree(ctx context.Context, f *found) (*whole, error) {
	t := &whole{found: f}
	a, err := f.link.call(ctx, &request{Op: "read", Ask: []ask{every(ofTree, "member"), get(ofTree, "members")}})
	if err != nil {
		return nil, err
	}
	list, err := a.all(0)
	if err != nil {
		return nil, err
	}
	if r, err := a.one(1); err != nil {
		return nil, err
	} else if r != nil {
		t.members = r.version
	}
	ids := []string{f.root}
	for i := range list {
		if id := strings.TrimPrefix(list[i].key, "member/"); id != f.root {
			ids = append(ids, id)
		}
	}
	var asks []ask
	for _, id := range ids {
		asks = append(asks, get(ofSession(id), headKey), every(ofSession(id), "call"))
	}
	if a, err = f.link.call(ctx, &request{Op: "read", Ask: asks}); err != nil {
		return nil, err
	}
	t.now = a.asOf()
	for i := range ids {
		r, err := a.one(2 * i)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, errMoved
		}
		h, err := decodeHead(r.value, t.now)
		if err != nil {
			return nil, err
		}
		t.heads, t.versions = append(t.heads, h), append(t.versions, r.version)
		calls, err := allOf[cairn.PendingCall]("call", a, 2*i+1)
		if err != nil {
			return nil, err
		}
		t.calls = append(t.calls, calls...)
	}
	return t, nil
}

// expect requires that nothing of the tree has changed.
func (t *whole) expect(r *rows) {
	r.expect(ofTree, "life", t.life.version)
	r.expect(ofTree, "members", t.members)
	for i, h := range t.heads {
		r.expect(ofSession(h.Row.ID), headKey, t.versions[i])
	}
}

// sessions returns the rows of the tree, the root's first.
func (t *whole) sessions() []*cairn.Session {
	rows := make([]*cairn.Session, len(t.heads))
	for i, h := range t.heads {
		rows[i] = &h.Row
	}
	return rows
}

// share gives the directory the sessions of the tree, as they are after its removal or, if gone is nil, after its
// restoration.
func (t *whole) share(r *rows, gone *driver.Removed) {
	for _, h := range t.heads {
		c := h.copy()
		if c.Removal, c.RemovedAt = "", (time.Time{}); gone != nil {
			c.Removal, c.RemovedAt = gone.Reason, gone.RemovedAt
			r.stop(c.Row.ID, c.Stop, nil)
		} else {
			r.stop(c.Row.ID, nil, c.Stop)
		}
		text, err := c.encode()
		if err != nil && r.err == nil {
			r.err = err
		}
		r.Share = append(r.Share, c.share(text))
	}
	for i := range t.calls {
		call := &t.calls[i]
		if gone != nil {
			r.Share = append(r.Share, shared{Source: sourceOfCall(call.RootID, call.ID)})
			continue
		}
		text, err := backend.EncodeJSON("call", call)
		if err != nil && r.err == nil {
			r.err = err
		}
		r.Share = append(r.Share, shareCall(call, text))
	}
}

// forget drops what this process knows of the sessions of the tree.
func (t *whole) forget(s *Store) {
	for _, h := range t.heads {
		s.known.Drop(h.Row.ID)
	}
}

// Remove implements driver.Sweeper.
func (s *Store) Remove(ctx context.Context, root string, why driver.Removal) (*driver.Removed, error) {
	if err := driver.CheckRemoval(why); err != nil {
		return nil, err
	}
	look := s.locate
	if why == driver.Deleted {
		look = s.find
	}
	for {
		f, err := look(ctx, root)
		switch {
		case err != nil:
			return nil, err
		case f.life.Removed != nil:
			return nil, driver.Gone(root, *f.life.Removed)
		case f.head == nil:
			return nil, driver.NotFound(root)
		case f.head.Row.RootID != root:
			return nil, driver.NotRoot(&f.head.Row)
		}
		t, err := s.wholeTree(ctx, f)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		gone, done, err := s.remove(ctx, t, why)
		if done || err != nil {
			return gone, err
		}
	}
}

// remove hides a tree. If an expired tree must not be removed it defers the next check of it. done is false if the tree
// has changed.
func (s *Store) remove(ctx context.Context, t *whole, why driver.Removal) (gone *driver.Removed, done bool, err error) {
	var conflict error
	refused, _, err := t.link.write(ctx, func(at time.Time) (*request, error) {
		r := &rows{at: at}
		t.expect(r)
		list := t.sessions()
		next := t.life
		if conflict = driver.RemovalConflict(list, why, at); conflict != nil {
			if why == driver.Deleted {
				return nil, conflict
			}
			next.SweepAt = driver.SweepAt(at, list[0], list[1:]...)
			h := t.heads[0].copy()
			h.SweepAt = next.SweepAt
			r.owner = ofSession(t.root)
			r.head(h)
			r.life(t.root, &next, &t.life)
			return &r.request, r.err
		}
		gone = &driver.Removed{Key: keyOf(t.root, at), SessionID: t.root, Reason: why, RemovedAt: at, Incarnation: list[0].Incarnation}
		next.Removed = gone
		r.life(t.root, &next, &t.life)
		t.share(r, gone)
		return &r.request, r.err
	})
	t.forget(s)
	if err != nil || refused != nil {
		return nil, false, err
	}
	if conflict != nil {
		return nil, true, conflict
	}
	return gone, true, nil
}

// Restore implements driver.Sweeper.
func (s *Store) Restore(ctx context.Context, root string) (*cairn.Session, error) {
	for {
		f, err := s.locate(ctx, root)
		switch {
		case err != nil:
			return nil, err
		case f.head == nil:
			return nil, driver.NotFound(root)
		case f.head.Row.RootID != root:
			return nil, driver.NotRoot(&f.head.Row)
		case f.life.Removed == nil:
			return nil, driver.Conflict(cairn.ErrExists, &f.head.Row, "session %q already exists", root)
		}
		t, err := s.wholeTree(ctx, f)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var row *cairn.Session
		refused, _, err := t.link.write(ctx, func(at time.Time) (*request, error) {
			r := &rows{at: at, owner: ofSession(root)}
			t.expect(r)
			list := t.sessions()
			h := t.heads[0]
			driver.Revive(&h.Row, at)
			next := life{SweepAt: driver.SweepAt(at, list[0], list[1:]...)}
			h.SweepAt = next.SweepAt
			row = backend.CopyRow(&h.Row)
			r.head(h)
			r.Share = nil
			r.life(root, &next, &t.life)
			t.share(r, nil)
			return &r.request, r.err
		})
		t.forget(s)
		if err != nil || refused == nil {
			return row, err
		}
	}
}

// sweep removes the trees that have expired, before a list is read.
func (s *Store) sweep(ctx context.Context) error {
	var roots []string
	err := s.stale(ctx, "", func(_ time.Time, root string) bool {
		roots = append(roots, root)
		return true
	})
	for _, root := range roots {
		if err != nil {
			break
		}
		if _, err = s.Remove(ctx, root, driver.Expired); errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrAlreadyRunning) {
			err = nil
		}
	}
	return err
}

// stale calls do with the roots that may have expired, from a key of their list on, until it returns false.
func (s *Store) stale(ctx context.Context, from string, do func(at time.Time, root string) bool) error {
	return s.each(ctx, staleTrees, from, behind, false, func(r *row, now time.Time) (bool, error) {
		var l life
		if err := backend.DecodeJSON("life of a session", r.value, &l); err != nil {
			return false, err
		}
		if !l.stale(now) {
			return false, nil
		}
		_, root, _ := strings.Cut(r.key, "/")
		return do(l.SweepAt, root), nil
	})
}

// Stale implements driver.Sweeper.
func (s *Store) Stale(ctx context.Context, q driver.PageQuery) (page driver.Page[string], err error) {
	at, id, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	from := ""
	if id != "" {
		from = timed(at, id) + "\x00"
	}
	var last time.Time
	err = s.stale(ctx, from, func(at time.Time, root string) bool {
		if n := len(page.Items); n == q.Size() {
			page.Next = driver.SweepCursor(last, page.Items[n-1])
			return false
		}
		page.Items, last = append(page.Items, root), at
		return true
	})
	return page, err
}

// Removed implements driver.Sweeper.
func (s *Store) Removed(ctx context.Context, age time.Duration, q driver.PageQuery) (page driver.Page[driver.Removed], err error) {
	at, key, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	from := ""
	if key != "" {
		from = timed(at, key) + "\x00"
	} else if err := (*memories)(s).dropPurged(ctx); err != nil { // of a purge whose process died
		return page, err
	}
	err = s.each(ctx, removals, from, behind, false, func(r *row, now time.Time) (bool, error) {
		var l life
		if err := backend.DecodeJSON("life of a session", r.value, &l); err != nil {
			return false, err
		}
		if l.Removed == nil || l.Removed.RemovedAt.After(now.Add(-age)) {
			return false, nil
		}
		if n := len(page.Items); n == q.Size() {
			page.Next = driver.SweepCursor(page.Items[n-1].RemovedAt, page.Items[n-1].Key)
			return false, nil
		}
		page.Items = append(page.Items, *l.Removed)
		return true, nil
	})
	return page, err
}

// Purge implements driver.Sweeper.
func (s *Store) Purge(ctx context.Context, key string) (checkpoints int, err error) {
	root := rootOfKey(key)
	if root == "" {
		return 0, driver.NotRemoved(key)
	}
	for {
		f, err := s.locate(ctx, root)
		if err != nil {
			return 0, err
		}
		if f.life.Removed == nil || f.life.Removed.Key != key || f.root != root {
			return 0, driver.NotRemoved(key)
		}
		t, err := s.wholeTree(ctx, f)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return 0, err
		}
		checkpoints = 0
		r := &rows{}
		t.expect(r)
		r.Share = []shared{{Source: sourceOfRemoval(root)}}
		for _, h := range t.heads {
			id := h.Row.ID
			n, err := s.purged(ctx, t, id)
			if err != nil {
				return 0, err
			}
			checkpoints += n
			r.Clear = append(r.Clear, [3]string{ofSession(id), "", behind})
			r.Share = append(r.Share, shared{Source: ofSession(id)})
			sharePurged(r, &h.Row)
		}
		r.Clear = append(r.Clear, [3]string{ofTree, "", behind})
		r.purgeBlobs(root)
		refused, _, err := t.link.write(ctx, fixed(&r.request))
		if err == nil && refused == nil {
			err = (*memories)(s).dropPurged(ctx)
		}
		if err != nil || refused == nil {
			return checkpoints, err
		}
	}
}

// purged counts the checkpoints of a session that is about to be purged, and frees the id of a child.
func (s *Store) purged(ctx context.Context, t *whole, id string) (checkpoints int, err error) {
	a, err := t.link.call(ctx, &request{Op: "read", Ask: []ask{every(ofSession(id), "checkpoint")}})
	if err != nil {
		return 0, err
	}
	list, err := a.all(0)
	if err != nil || id == t.root {
		return len(list), err
	}
	s.routes.forget(id)
	_, _, err = s.tree(id).write(ctx, fixed(&request{Clear: [][3]string{only(ofTree, "route")}}))
	return len(list), err
}
