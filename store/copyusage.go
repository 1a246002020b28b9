package store

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// CopyUsage copies the usage of a store by day to another one; rows are not copied, but their usage is part of the sums.
// It returns how many sums it copied: those that are equal already are not, so an interrupted copy can be repeated. If
// the other store has a different sum, of usage of its own, nothing is copied and the error is ErrExists. dryRun copies
// nothing.
func CopyUsage(ctx context.Context, from, to Usages, dryRun bool) (copied int, err error) {
	source, err := usageOf(ctx, from)
	if err != nil {
		return 0, err
	}
	target, err := usageOf(ctx, to)
	if err != nil {
		return 0, err
	}
	for key, there := range target {
		if of := source[key]; of == nil || !equalUsage(of, there) {
			return 0, cairn.Errorf(cairn.ErrExists, "usage of %s already exists and differs", there.Day)
		}
		delete(source, key)
	}
	keys := slices.Sorted(maps.Keys(source))
	for some := range slices.Chunk(keys, copyPage) {
		list := make([]driver.UsageSum, len(some))
		for i, key := range some {
			list[i] = *source[key]
		}
		if dryRun {
			copied += len(list)
			continue
		}
		if err := to.Put(ctx, list); err != nil {
			return copied, err
		}
		copied += len(list)
	}
	return copied, nil
}

// usageOf returns all usage of a store, as sums by their keys.
func usageOf(ctx context.Context, from Usages) (map[string]*driver.UsageSum, error) {
	sums := map[string]*driver.UsageSum{}
	if from == nil {
		return sums, nil
	}
	err := from.Sums(ctx, driver.DaySpan{}, func() { clear(sums) }, func(sum *driver.UsageSum) {
		if there := sums[sum.Key()]; there != nil {
			there.Add(sum)
			return
		}
		own := *sum
		sums[sum.Key()] = &own
	})
	return sums, err
}

func equalUsage(a, b *driver.UsageSum) bool {
	one, err1 := json.Marshal(a)
	two, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}
