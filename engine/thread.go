package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Thread returns the latest session of a thread, see [WithThread]: the existing session that was created last. If none
// exists, it is the latest session that was removed and is not purged yet, and has its Removal. The error is
// ErrNotFound if there is none of these either. A query with store.SessionQuery.ThreadID lists all sessions of a
// thread.
func (e *Engine) Thread(ctx context.Context, id string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	for _, removed := range [][]store.Removal{nil, {store.Deleted, store.Expired}} {
		page, err := e.store.List(ctx, store.SessionQuery{ThreadID: id, Removed: removed, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Items) > 0 {
			return &page.Items[0], nil
		}
	}
	return nil, driver.NotFound(id)
}
