package dostore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// errMoved is the error of a read that found another version of a session than the one before.
var errMoved = errors.New("the session has changed")

// found is a session as an object had it.
type found struct {
	link *link
	root string // that the object belongs to
	known
	a *answer // the answer; its first part is the tree's life
}

// locate reads the head of a session, and what more asks for, all from one point in time. The answer's parts for more
// begin at 1. A session that does not exist has no head. The tree may have expired or be removed.
func (d *database) locate(ctx context.Context, id string, more ...ask) (*found, error) {
	if root := d.routes.get(id); root != "" {
		f, err := d.inTree(ctx, root, id, more)
		if err != nil || f.head != nil {
			return f, err
		}
		d.routes.forget(id) // it was deleted, and perhaps created in another tree
	}
	f, err := d.inTree(ctx, id, id, append(more[:len(more):len(more)], get(ofTree, "route")))
	if err != nil || f.head != nil {
		return f, err
	}
	route, err := f.a.one(len(more) + 1)
	if err != nil || route == nil {
		return f, err
	}
	if f, err = d.inTree(ctx, route.value, id, more); err == nil && f.head != nil {
		d.routes.put(id, route.value)
	}
	return f, err
}

// inTree is locate in the object of a root.
func (d *database) inTree(ctx context.Context, root, id string, more []ask) (*found, error) {
	f := &found{link: d.tree(root), root: root}
	a, err := f.link.call(ctx, &request{Op: "read", Ask: append([]ask{get(ofSession(id), headKey), get(ofTree, "life")}, more...)})
	if err != nil {
		return nil, err
	}
	r, err := a.one(0)
	if err != nil {
		return nil, err
	}
	a.Rows = a.Rows[1:]
	f.a = a
	if f.life, err = lifeOf(a, 0); err != nil || r == nil {
		return f, err
	}
	f.version = r.version
	f.head, err = decodeHead(r.value, a.asOf())
	return f, err
}

// lifeOf returns the life of a tree from a part of an answer.
func lifeOf(a *answer, i int) (life, error) {
	var l life
	r, err := a.one(i)
	if err != nil || r == nil {
		return l, err
	}
	err = backend.DecodeJSON("life of a session", r.value, &l)
	l.version = r.version
	return l, err
}

// find is locate for a tree that is neither removed nor expired. A tree that has expired is removed first.
func (d *database) find(ctx context.Context, id string, more ...ask) (*found, error) {
	for {
		f, err := d.locate(ctx, id, more...)
		if err != nil {
			return nil, err
		}
		now := f.a.asOf()
		switch {
		case f.life.Removed != nil:
			return nil, driver.Gone(id, *f.life.Removed)
		case f.head == nil || !f.life.stale(now) || f.head.Row.Running(now):
			return f, nil
		}
		if err := d.expire(ctx, f.root); err != nil && !errors.Is(err, cairn.ErrStale) && !errors.Is(err, cairn.ErrNotFound) &&
			!errors.Is(err, cairn.ErrAlreadyRunning) {
			return nil, err
		}
	}
}

// open is find for a session that must exist.
func (d *database) open(ctx context.Context, id string, more ...ask) (*found, error) {
	f, err := d.find(ctx, id, more...)
	if err == nil && f.head == nil {
		err = driver.NotFound(id)
	}
	return f, err
}

// again reads more of a session, at the version at which it was found.
func (f *found) again(ctx context.Context, id string, more ...ask) (*answer, error) {
	a, err := f.link.call(ctx, &request{Op: "read", Ask: append([]ask{get(ofSession(id), headKey)}, more...)})
	if err != nil {
		return nil, err
	}
	r, err := a.one(0)
	switch {
	case err != nil:
		return nil, err
	case r == nil && f.version != 0 || r != nil && r.version != f.version:
		return nil, errMoved
	}
	return a, nil
}

// claim notes in the object of a child's id in which tree the child is, before the child is created there, so that
// each id belongs to one session. The session of an id that is taken is returned.
func (d *database) claim(ctx context.Context, id, root string) (*found, error) {
	for {
		f, err := d.find(ctx, id)
		if err != nil || f.head != nil {
			return f, err
		}
		l := d.tree(id)
		a, err := l.call(ctx, &request{Op: "read", Ask: []ask{get(ofTree, "route")}})
		if err != nil {
			return nil, err
		}
		route, err := a.one(0)
		if err != nil || route != nil && route.value == root {
			return nil, err
		}
		c := condition{ofTree, "route", 0}
		if route != nil { // of a session that was never created
			c.version = route.version
		}
		r := &request{If: []condition{c, {ofSession(id), headKey, 0}}, Put: [][3]string{{ofTree, "route", root}}}
		if refused, _, err := l.write(ctx, fixed(r)); refused == nil || err != nil {
			return nil, err
		}
	}
}

// remember caches a session for the next commit.
func (d *database) remember(k known) {
	d.known.Put(backend.CopyRow(&k.head.Row), k)
}

// rowOf decodes a stored value.
func rowOf[T any](what string, r *row) (*T, error) {
	if r == nil {
		return nil, nil
	}
	v := new(T)
	return v, backend.DecodeJSON(what, r.value, v)
}

// rowsOf decodes stored values.
func rowsOf[T any](what string, list []row) ([]T, error) {
	out := make([]T, len(list))
	for i := range list {
		if err := backend.DecodeJSON(what, list[i].value, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// allOf returns the decoded rows of the i-th part of an answer.
func allOf[T any](what string, a *answer, i int) ([]T, error) {
	list, err := a.all(i)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return rowsOf[T](what, list)
}
