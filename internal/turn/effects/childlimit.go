package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"

	"github.com/cairn-agents/cairn/store/driver"
)

// room returns an error if a session may not have the given child. A child that exists already is within the limits.
func (fx *Effects) room(ctx context.Context, parent *cairn.Session, child string) error {
	var err error
	if fx.MaxDepth >= 0 && parent.Depth >= fx.MaxDepth {
		err = lifecycle.TooDeep(fx.MaxDepth)
	}
	if err == nil && fx.MaxTreeSessions > 0 {
		var n int
		if n, err = driver.CountTree(ctx, fx.Store, parent.RootID); err == nil && n >= fx.MaxTreeSessions {
			n, err = fx.countAgents(ctx, parent.RootID)
		}
		if err == nil && n >= fx.MaxTreeSessions {
			err = cairn.Errorf(cairn.ErrTooLarge, "conversation already has the maximum of %d agent sessions", n)
		}
	}
	if !errors.Is(err, cairn.ErrTooLarge) {
		return err
	}
	if _, gone := driver.Load(ctx, fx.Store, child); gone == nil {
		return nil
	}
	return err
}

// countAgents counts the sessions of a tree that an agent runs, or has run.
func (fx *Effects) countAgents(ctx context.Context, root string) (n int, err error) {
	for row, err := range driver.All(func(cursor string) (driver.Page[cairn.Session], error) {
		return fx.Store.List(ctx, driver.SessionQuery{RootID: root, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return 0, err
		}
		if row.Kind != cairn.ChildReplaced {
			n++
		}
	}
	return n, nil
}

// childID returns the id of the session that a call begins to consult a sub-agent.
func childID(parent *cairn.Session, call string) string {
	return ids.InTenantOf(parent.ID, ids.Derive("child", parent.Secret, parent.ID, call))
}
