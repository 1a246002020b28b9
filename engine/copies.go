package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// copyOf returns the id of the copy of a session that the next turn in place of another one makes. Until that turn begins,
// which increments the session's epoch, the copy is hidden: see [Engine.Sessions].
func copyOf(row *cairn.Session) string {
	return ids.InTenantOf(row.ID, ids.Derive("replaced", row.Secret, row.ID, strconv.FormatInt(row.Epoch, 10)))
}

// withoutCopies leaves out the copies for turns that have not begun.
func (e *Engine) withoutCopies(ctx context.Context, list []cairn.Session) ([]cairn.Session, error) {
	if !slices.ContainsFunc(list, func(s cairn.Session) bool { return s.Kind == cairn.ChildReplaced }) {
		return list, nil
	}
	next := map[string]string{} // of parents: copyOf
	var out []cairn.Session
	for _, s := range list {
		if s.Kind == cairn.ChildReplaced && next[s.ParentID] == "" {
			parent, err := driver.Load(ctx, e.store, s.ParentID)
			switch {
			case errors.Is(err, cairn.ErrNotFound): // removed since
				continue
			case err != nil:
				return nil, err
			}
			next[s.ParentID] = copyOf(parent)
		}
		if s.Kind != cairn.ChildReplaced || s.ID != next[s.ParentID] {
			out = append(out, s)
		}
	}
	return out, nil
}

// dropCopy removes the copy for a turn that never began, once row was rewound otherwise.
func (e *Engine) dropCopy(ctx context.Context, row *cairn.Session) {
	if err := e.forget(context.WithoutCancel(ctx), copyOf(row)); err != nil {
		e.opts.Logger.Warn("copy of an unchanged session not deleted", "session", copyOf(row), "error", err)
	}
}

// forget removes a copy of a session, if there is one.
func (e *Engine) forget(ctx context.Context, id string) error {
	if err := e.store.Delete(ctx, id); err != nil && !errors.Is(err, cairn.ErrNotFound) {
		return err
	}
	return nil
}
