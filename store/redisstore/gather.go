package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var scriptGather = about("gather", "read a session tree", reads)

// gatherers is how many trees of a call of Gather are read concurrently. The server reads one at a time; the others are
// sent or decoded meanwhile.
const gatherers = 8

// Gather implements driver.Gatherer, with one script for each tree.
func (s *Store) Gather(ctx context.Context, roots []string, bytes int) (map[string][]*driver.Part, error) {
	var left, next atomic.Int64
	left.Store(int64(bytes))
	found, errs := make([][]*driver.Part, len(roots)), make([]error, gatherers)
	var working sync.WaitGroup
	for worker := range gatherers {
		working.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(roots) {
					return
				}
				found[i], errs[worker] = s.gather(ctx, roots[i], &left)
			}
		})
	}
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	trees := map[string][]*driver.Part{}
	for i, root := range roots {
		if found[i] != nil {
			trees[root] = found[i]
		}
	}
	return trees, nil
}

// gather returns the parts of a tree, if it is to be gathered and there is room left for it.
func (s *Store) gather(ctx context.Context, root string, left *atomic.Int64) ([]*driver.Part, error) {
	room := left.Load()
	if room <= 0 {
		return nil, nil
	}
	r, err := s.ask(ctx, scriptGather, root, driver.ExportPage, room)
	switch {
	case errors.Is(err, cairn.ErrNotFound) || driver.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, err
	case r.word() == "large":
		return nil, nil
	}
	t := &gathered{reply: r}
	if err := t.read(root); err != nil {
		return nil, err
	}
	if left.Add(-t.size) < 0 || !backend.Gathers(t.Row) || t.Log.Last-t.Log.First >= driver.ExportPage || !t.Whole() {
		return nil, nil
	}
	return t.Parts(), nil
}

// gathered is what is read of a tree.
type gathered struct {
	backend.Gathered
	reply reply
	size  int64
}

// read decodes what gather.lua has returned.
func (t *gathered) read(root string) (err error) {
	r := t.reply
	row, err := readStored(root, r.list(1))
	if err != nil {
		return err
	}
	in, err := readInside(row, r.list(1), r.list(2))
	if err != nil {
		return err
	}
	t.Row, t.Inside = row.session, *in
	if t.Messages, err = readMessages(r.list(3)); err != nil {
		return err
	}
	if err := t.records(root, r); err != nil {
		return err
	}
	if t.Staged, err = readStaged(r.list(7), ""); err != nil {
		return err
	}
	if t.Cache, err = readCache(r.list(8)); err != nil {
		return err
	}
	if t.Queue, err = readQueue(r.list(9)); err != nil {
		return err
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(r.text(11+i), 10, 64); err != nil {
			return cairn.Errorf(cairn.ErrCorrupt, "log %q: invalid stored sequence %q", t.Row.Log(), r.text(11+i))
		}
	}
	t.Log, t.size = driver.LogExtent{First: numbers[0], Last: numbers[1]}, numbers[2]
	for _, batch := range r.list(10) {
		if t.Events, err = readBatch(t.Events, t.Row.Log(), batch, t.Log.First-1, int(t.Log.Last-t.Log.First)+1); err != nil {
			return err
		}
	}
	return nil
}

// records reads the runs, checkpoints and calls.
func (t *gathered) records(root string, r reply) (err error) {
	for list := reply(r.list(4)); len(list) >= runTexts; list = list[runTexts:] {
		run, err := readRunOf(root, list)
		if err != nil {
			return err
		}
		t.Runs = append(t.Runs, run)
	}
	for list := reply(r.list(5)); len(list) >= 2; list = list[2:] {
		cp, err := readCheckpoint(root, list.text(0), list.text(1))
		if err != nil {
			return err
		}
		t.Checkpoints = append(t.Checkpoints, *cp)
	}
	t.Calls, err = readCalls(r.list(6), root)
	slices.SortFunc(t.Calls, func(a, b cairn.PendingCall) int { return driver.CompareCalls(&a, &b) })
	return err
}
