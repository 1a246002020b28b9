package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var purgeTests = []storeTest{
	{name: "ListedUntilThen", run: removedList},
	{name: "OneOfTwoOfAnID", run: purgeOne},
	{name: "OnePurgerWins", run: oneHandle(purgeRace)},
	{name: "TwoHandles/OnePurgerWins", run: twoHandles(purgeRace), needs: needsSecond},
	{name: "Cancelled", run: purgeCancelled},
	{name: "Reopen", run: removedReopen, needs: needsReopen},
	{name: "Fault", run: faultyPurge, needs: needsFault},
}

// removed lists the trees that are removed and not yet purged.
func (h *harness) removed() []driver.Removed {
	h.Helper()
	return pages(h.T, "removed trees", func(cursor string) (driver.Page[driver.Removed], error) {
		return h.sweeper().Removed(h.Context(), 0, driver.PageQuery{Cursor: cursor, Limit: 2})
	})
}

// removedList removes sessions.
func removedList(h *harness) {
	var want []driver.Removed
	keys := map[string]bool{}
	for _, id := range []string{"b", "a", "d", "c", "e"} {
		s := h.create(id)
		h.tree(h.newID("child"), id)
		r := h.remove(id)
		if keys[r.Key] || r.Key == "" || r.SessionID != id || r.Reason != driver.Deleted || r.RemovedAt.Before(s.CreatedAt) || r.Log() != s.Log() {
			h.Fatalf("removal of %q: %+v", id, r)
		}
		keys[r.Key] = true
		want = append(want, *r)
	}
	h.create("there")
	if !slices.IsSortedFunc(want, func(a, b driver.Removed) int { return a.RemovedAt.Compare(b.RemovedAt) }) {
		h.Fatalf("removed out of order: %+v", want)
	}
	same(h.T, "removed trees", h.removed(), want)
	page, err := h.sweeper().Removed(h.Context(), 0, driver.PageQuery{Limit: 5})
	if err != nil || len(page.Items) != 5 || page.Next != "" {
		h.Fatalf("a page of all of them: %+v, %v", page, err)
	}
	page, err = h.sweeper().Removed(h.Context(), time.Hour, driver.PageQuery{})
	if err != nil || len(page.Items) > 0 {
		h.Fatalf("removed an hour ago: %+v, %v", page, err)
	}
	_, err = h.sweeper().Purge(h.Context(), want[1].Key)
	h.must(err)
	same(h.T, "removed trees after a purge", h.removed(), slices.Delete(want, 1, 2))
	for _, cursor := range []string{"x", ".", "1.", ".1", "?.1"} {
		_, err := h.sweeper().Removed(h.Context(), 0, driver.PageQuery{Cursor: cursor})
		h.wantError(err, cairn.ErrInvalid, "cursor "+cursor)
	}
}

// purgeOne purges a tree, makes and removes a new one with its ids, and purges the first one again.
func purgeOne(h *harness) {
	ids := h.family("root")
	checkpoints := 0
	for _, id := range ids {
		checkpoints += len(h.checkpoints(id))
	}
	key := h.remove("root").Key
	n, err := h.sweeper().Purge(h.Context(), key)
	if err != nil || n != checkpoints || n < 4 {
		h.Fatalf("the purge removed %d checkpoints, %v, want %d", n, err, checkpoints)
	}
	h.family("root")
	next := h.remove("root")
	for _, key := range []string{key, "", "x", "99", "-1", "root"} {
		_, err := h.sweeper().Purge(h.Context(), key)
		h.wantError(err, cairn.ErrNotFound, fmt.Sprintf("purge of the key %q", key))
	}
	same(h.T, "removed trees", h.removed(), []driver.Removed{*next})
	for _, id := range ids {
		h.wantGone(id, next)
	}
}

// purgeRace runs concurrent purges of a tree that is larger than what a store removes at once: each checkpoint is
// counted once, and one of the purges completes it.
func purgeRace(h *harness, hs handles) {
	ids := h.family("root")
	checkpoints := 0
	for _, id := range ids {
		h.commit(id, &driver.Commit{Messages: slices.Repeat(says("more"), 1500)})
		checkpoints += len(h.checkpoints(id))
	}
	r := h.remove("root")
	var counted [racers]int
	won := 0
	for _, err := range race(racers, func(i int) (err error) {
		counted[i], err = hs.of(i).(driver.Sweeper).Purge(h.Context(), r.Key)
		return err
	}) {
		if err == nil {
			won++
		} else {
			h.wantError(err, cairn.ErrNotFound, "purge by a slower process")
		}
	}
	sum := 0
	for _, n := range counted {
		sum += n
	}
	if won != 1 || sum != checkpoints {
		h.Fatalf("%d of %d purgers say that they ended it, with %d checkpoints in all, want 1 and %d", won, racers, sum, checkpoints)
	}
	if list := h.removed(); len(list) > 0 {
		h.Fatalf("removed after the purge: %+v", list)
	}
}

func purgeCancelled(h *harness) {
	h.create("session")
	r := h.remove("session")
	dead, cancel := context.WithCancel(h.Context())
	cancel()
	if _, err := h.sweeper().Purge(dead, r.Key); !errors.Is(err, context.Canceled) {
		h.Fatalf("purge with a cancelled context: error %v, want context.Canceled", err)
	}
	same(h.T, "removed trees", h.removed(), []driver.Removed{*r})
	h.must(h.st.Close())
	_, err := h.sweeper().Purge(h.Context(), r.Key)
	h.wantError(err, cairn.ErrClosed, "purge of a closed store")
}

func removedReopen(h *harness) {
	ids := h.family("root")
	removed := *h.remove("root")
	_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "stale", Agent: agentName, TTL: cairn.Duration(brief)}, nil)
	h.must(err)
	h.awaitStale("stale")
	h = h.on(h.opts.Reopen(h.T, h.st))
	h.awaitStale("stale")
	same(h.T, "removed trees after reopening", h.removed(), []driver.Removed{removed})
	for _, id := range ids {
		h.wantGone(id, &removed)
	}
	_, err = h.sweeper().Purge(h.Context(), removed.Key)
	h.must(err)
}

// faultyPurge lets each internal write of a purge fail: the tree stays listed, and the next purge does the rest.
func faultyPurge(h *harness) {
	for n := 1; n <= mostWrites; n++ {
		id := h.newID("session")
		h.family(id)
		r := h.remove(id)
		disarm := h.opts.Fault(h.T, h.st, n)
		_, err := h.sweeper().Purge(h.Context(), r.Key)
		failed := disarm()
		if err != nil {
			h.wantError(err, cairn.ErrUnavailable, "purge")
			same(h.T, "removed trees after a purge that failed", h.removed(), []driver.Removed{*r})
			_, err = h.sweeper().Purge(h.Context(), r.Key)
			h.must(err)
		}
		if list := h.removed(); len(list) > 0 {
			h.Fatalf("removed after the purge: %+v", list)
		}
		if !failed {
			if n == 1 {
				h.Fatal("no internal write of a purge was made to fail")
			}
			return
		}
	}
	h.Fatalf("purge: still failing at internal write %d", mostWrites)
}
