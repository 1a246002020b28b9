package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// scoresIn is scoresOf for a whole tree.
func scoresIn(log string) string { return ids.Derive("tree", log) + "/" }

// scores yields the records of scores whose keys have a prefix.
func (u *upkeep) scores(ctx context.Context, prefix string) func(func(*store.Record, error) bool) {
	return store.All(func(cursor string) (store.Page[store.Record], error) {
		return u.records.List(ctx, store.RecordQuery{Namespace: driver.ScoreRecords, Prefix: prefix, Cursor: cursor})
	})
}

// dropRecords removes the scores of a tree, and how far its spans were exported.
func (u *upkeep) dropRecords(ctx context.Context, log string) error {
	if u.records == nil {
		return nil
	}
	if err := u.records.Delete(ctx, driver.TraceRecords, driver.TraceKey(log), store.AnyVersion); err != nil && !errors.Is(err, cairn.ErrNotFound) {
		return err
	}
	for r, err := range u.scores(ctx, scoresIn(log)) {
		if err == nil {
			err = u.records.Delete(ctx, driver.ScoreRecords, r.Key, store.AnyVersion)
		}
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return err
		}
	}
	return nil
}
