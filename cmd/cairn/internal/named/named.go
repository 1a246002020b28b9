// Package named finds the session that a user names by its id or the beginning of it.
package named

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// maxNamed is the number of ambiguous ids that an error names.
const maxNamed = 10

// Session returns the id of the session with the given id, or else of the only one whose id begins with it; removed
// sessions count if no other does. If there is none it returns id, with which the caller's own error is ErrNotFound. The
// error is ErrInvalid if several ids begin with it. It reads the whole list unless a session has exactly that id.
func Session(ctx context.Context, eng *engine.Engine, id string) (string, error) {
	_, err := eng.Session(ctx, id)
	if id == "" || err == nil || errors.Is(err, cairn.ErrDeleted) || errors.Is(err, cairn.ErrExpired) || !errors.Is(err, cairn.ErrNotFound) {
		return id, nil
	}
	for _, removed := range [][]store.Removal{nil, {store.Deleted, store.Expired}} {
		found, err := beginning(ctx, eng, id, removed)
		switch {
		case err != nil:
			return "", err
		case len(found) == 1:
			return found[0], nil
		case len(found) > maxNamed:
			return "", cairn.Invalid("session", "%q matches more than %d ids", id, maxNamed)
		case len(found) > 1:
			return "", cairn.Invalid("session", "%q is ambiguous: it matches %s", id, strings.Join(found, ", "))
		}
	}
	return id, nil
}

// beginning returns the ids that begin with a text, at most one more than maxNamed, in order.
func beginning(ctx context.Context, eng *engine.Engine, text string, removed []store.Removal) (found []string, err error) {
	for s, err := range pages.All(func(cursor string) (store.Page[cairn.Session], error) {
		return eng.Sessions(ctx, store.SessionQuery{Removed: removed, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(s.ID, text) && len(found) <= maxNamed {
			found = append(found, s.ID)
		}
	}
	slices.Sort(found)
	return found, nil
}
