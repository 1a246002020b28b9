package engine

import (
	"context"
	"errors"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// reader reads sessions, their runs and their events, whichever process drives them. A [Run] needs nothing else of its
// engine, except to stop.
type reader struct {
	store    store.Store
	log      store.Log
	watchers watchers
}

// session returns a session's row.
func (r *reader) session(ctx context.Context, id string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	return driver.Load(ctx, r.store, id)
}

// runs pages through a session's runs. For a run under way, steps and usage are as of its last commit.
func (r *reader) runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	row, err := r.session(ctx, id)
	if err != nil {
		return store.Page[cairn.Run]{}, err
	}
	page, err := r.store.Runs(ctx, id, q)
	for i := range page.Items {
		asOf(&page.Items[i], row)
	}
	return page, err
}

// follow reads the events of a session on the log of one incarnation of its tree. It ends with an error: ctx's,
// ErrDeleted or ErrExpired when the tree is removed, or ErrClosed.
func (r *reader) follow(ctx context.Context, session, root, incarnation string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		over, leave := r.watchers.join(root, incarnation)
		defer leave()
		outer := ctx
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(over, func() { cancel(context.Cause(over)) })()
		own := r.within(session, root)
		for ev, err := range r.log.Follow(ctx, ids.Log(root, incarnation), after) {
			ev.Incarnation = incarnation
			if own != nil && err == nil {
				var mine bool
				if mine, err = own(ctx, ev.Type, ev.SessionID); err == nil && !mine {
					continue
				}
			}
			if !yield(ev, err) || err != nil {
				return
			}
			if ev.Type != cairn.EventSessionDeleted {
				continue
			}
			if _, err := driver.Load(ctx, r.store, root); err != nil { // otherwise it was restored
				tail.Fail(yield, err)
				return
			}
		}
		switch gone := context.Cause(ctx); {
		case outer.Err() != nil:
			tail.Fail(yield, outer.Err())
		case driver.IsGone(gone):
			tail.Fail(yield, gone)
		default:
			tail.Fail(yield, errClosed())
		}
	}
}

// within returns a function that reports whether an event on the log of a tree, of a type and in a session, is one of the
// given session: those of itself and of the sessions below it are, and the removal of the tree. It is nil for the root,
// whose every event is.
func (r *reader) within(session, root string) func(context.Context, cairn.EventType, string) (bool, error) {
	if session == root {
		return nil
	}
	known := map[string]bool{session: true, root: false}
	var below func(context.Context, string) (bool, error)
	below = func(ctx context.Context, id string) (bool, error) {
		if mine, ok := known[id]; ok {
			return mine, nil
		}
		row, err := driver.Load(ctx, r.store, id)
		if errors.Is(err, cairn.ErrNotFound) { // with its tree, or for good
			return false, nil
		}
		if err != nil {
			return false, err
		}
		mine, err := below(ctx, row.ParentID)
		if err == nil {
			known[id] = mine
		}
		return mine, err
	}
	return func(ctx context.Context, is cairn.EventType, in string) (bool, error) {
		if is == cairn.EventSessionDeleted || is == cairn.EventSessionRestored {
			return true, nil
		}
		return below(ctx, in)
	}
}

// newest yields a session's runs, newest first.
func (r *reader) newest(ctx context.Context, id string) iter.Seq2[*cairn.Run, error] {
	return store.All(func(cursor string) (store.Page[cairn.Run], error) {
		return r.runs(ctx, id, store.PageQuery{Newest: true, Cursor: cursor})
	})
}

// below returns the rows of the sessions below the session id in its tree.
func (r *reader) below(ctx context.Context, root, id string) (list []*cairn.Session, err error) {
	rows := map[string]*cairn.Session{}
	for s, err := range r.tree(ctx, root) {
		if err != nil {
			return nil, err
		}
		rows[s.ID] = s
	}
	for _, s := range rows {
		for at := rows[s.ParentID]; at != nil; at = rows[at.ParentID] {
			if at.ID == id {
				list = append(list, s)
				break
			}
		}
	}
	return list, nil
}

// tree yields the rows of a tree's sessions, the root's last.
func (r *reader) tree(ctx context.Context, root string) iter.Seq2[*cairn.Session, error] {
	return r.sessions(ctx, store.SessionQuery{RootID: root})
}

// sessions yields every session that a query selects.
func (r *reader) sessions(ctx context.Context, q store.SessionQuery) iter.Seq2[*cairn.Session, error] {
	return store.All(func(cursor string) (store.Page[cairn.Session], error) {
		q.Cursor = cursor
		return r.store.List(ctx, q)
	})
}

// asOf completes the record of a run under way from its session's row.
func asOf(r *cairn.Run, row *cairn.Session) {
	if r.ID == row.RunID && r.Status == cairn.RunRunning {
		r.Steps, r.Usage = row.Step, row.RunUsage
	}
}
