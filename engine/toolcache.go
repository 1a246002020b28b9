package engine

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// ToolCache lists the cached tool results of a session (see [cairn.Cache]) that are valid now, most recently used
// first. Key names the tool and the arguments of a call. For a run under way it has the committed results.
func (e *Engine) ToolCache(ctx context.Context, id string) ([]store.CacheEntry, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	snap, err := e.store.Read(ctx, id, driver.Want{Cache: true})
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(snap.Cache), func(c store.CacheEntry) bool { return !snap.Session.AsOf.Before(c.ExpiresAt) })
	slices.SortStableFunc(list, func(a, b store.CacheEntry) int { return b.UsedAt.Compare(a.UsedAt) })
	return list, nil
}

// DropToolCache removes results from a session's cache, by key, or all of them if no key is given, so that the next
// call with the same arguments runs the tool. It returns how many it removed. A run under way drops them with its next
// commit.
func (e *Engine) DropToolCache(ctx context.Context, id string, keys ...string) (int, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return 0, err
	}
	dropped := 0
	_, err := driver.Update(ctx, e.store, id, func(row *cairn.Session) (*driver.Commit, error) {
		snap, err := e.store.Read(ctx, id, driver.Want{Cache: true})
		if err != nil {
			return nil, err
		}
		var list []string
		for _, c := range snap.Cache {
			if len(keys) == 0 || slices.Contains(keys, c.Key) {
				list = append(list, c.Key)
			}
		}
		if dropped = len(list); dropped == 0 {
			return nil, nil
		}
		return &driver.Commit{CacheDrop: list}, nil
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}
