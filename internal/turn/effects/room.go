package effects

import (
	"context"
	"errors"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// growing lets one call at a time count and extend a tree in this process.
type growing struct {
	mu sync.Mutex
	by map[string]*growth // by root
}

// growth is a tree that calls want to extend.
type growth struct {
	calls int
	turn  chan struct{} // holds a value while a call has its turn
}

// lock waits for a call's turn to extend a tree.
func (g *growing) lock(ctx context.Context, root string) (unlock func(), err error) {
	g.mu.Lock()
	t := g.by[root]
	if t == nil {
		t = &growth{turn: make(chan struct{}, 1)}
		if g.by == nil {
			g.by = map[string]*growth{}
		}
		g.by[root] = t
	}
	t.calls++
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.calls--; t.calls == 0 {
			delete(g.by, root)
		}
	}
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// room checks that a session may get the given child. A child that is there already has its place.
func (fx *Effects) room(ctx context.Context, parent *cairn.Session, child string) error {
	err := fx.depth(ctx, parent)
	if err == nil && fx.MaxTreeSessions > 0 {
		var n int
		if n, err = store.CountTree(ctx, fx.Store, parent.RootID); err == nil && n >= fx.MaxTreeSessions {
			err = cairn.Errorf(cairn.CodeTooLarge, "there are %d agents' sessions in this conversation already, which is the limit", n)
		}
	}
	if !errors.Is(err, cairn.ErrTooLarge) {
		return err
	}
	if _, gone := store.Load(ctx, fx.Store, child); gone == nil {
		return nil
	}
	return err
}

// depth checks that a session may have children at all.
func (fx *Effects) depth(ctx context.Context, row *cairn.Session) error {
	if fx.MaxDepth < 0 {
		return nil
	}
	for n := 0; ; n++ { // the levels above the parent
		if n >= fx.MaxDepth {
			return cairn.Errorf(cairn.CodeTooLarge, "agents may delegate over %d levels, and this agent is on the last one", fx.MaxDepth)
		}
		if row.ParentID == "" {
			return nil
		}
		var err error
		if row, err = store.Load(ctx, fx.Store, row.ParentID); err != nil {
			return err
		}
	}
}
