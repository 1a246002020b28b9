package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var queueTests = []storeTest{
	{name: "InOrder", run: queueInOrder},
	{name: "EnqueuedOnce", run: enqueueTwice},
	{name: "DequeueUnknownWritesNothing", run: dequeueUnknown},
	{name: "BothInOneCommit", run: enqueueAndDequeue},
	{name: "SameBeginAgain", run: dequeueAgain},
	{name: "InParallel", run: enqueueInParallel},
	{name: "OthersStay", run: queueOfOthers},
	{name: "NoSession", run: queueOfNobody},
}

var cacheTests = []storeTest{
	{name: "PutReplaceDrop", run: cacheEntries},
	{name: "OthersStay", run: cacheOfOthers},
}

func (h *harness) queue(id string) []driver.QueuedTurn {
	h.Helper()
	list, err := driver.Queue(h.Context(), h.st, id)
	h.must(err)
	return list
}

func (h *harness) enqueue(id, turn string) *cairn.Session {
	h.Helper()
	return h.commit(id, &driver.Commit{Enqueue: &driver.QueuedTurn{ID: turn, Messages: says("of " + turn)}})
}

// wantQueue checks a session's queue, and the count in its row.
func (h *harness) wantQueue(id string, want ...string) {
	h.Helper()
	var turns []driver.QueuedTurn
	for _, turn := range want {
		turns = append(turns, driver.QueuedTurn{ID: turn, Messages: says("of " + turn)})
	}
	same(h.T, "queue of "+id, h.queue(id), turns)
	if row := h.load(id); row.Queued != len(want) {
		h.Fatalf("the row of %s counts %d turns, want %d", id, row.Queued, len(want))
	}
}

func queueInOrder(h *harness) {
	h.create("session")
	h.wantQueue("session")
	for n, turn := range []string{"m", "z", "a", "k"} {
		if row := h.enqueue("session", turn); row.Queued != n+1 {
			h.Fatalf("the row counts %d turns, want %d", row.Queued, n+1)
		}
	}
	h.wantQueue("session", "m", "z", "a", "k")
	if row := h.commit("session", &driver.Commit{Dequeue: []string{"m"}}); row.Queued != 3 {
		h.Fatalf("the row counts %d turns, want 3", row.Queued)
	}
	h.commit("session", &driver.Commit{Dequeue: []string{"a"}})
	h.wantQueue("session", "z", "k")
	h.commit("session", &driver.Commit{Dequeue: []string{"k"}})
	h.enqueue("session", "m")
	h.enqueue("session", "a")
	h.wantQueue("session", "z", "m", "a")
	if row := h.commit("session", &driver.Commit{Dequeue: []string{"a", "z", "a"}}); row.Queued != 1 {
		h.Fatalf("the row counts %d turns, want 1", row.Queued)
	}
	h.wantQueue("session", "m")
	h.enqueue("session", "z")
	h.enqueue("session", "a")
	given := says("as it was")
	h.commit("session", &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "given", Messages: given}})
	given[0] = cairn.User(cairn.TextPart("changed"))
	if turns := h.queue("session"); turns[3].Messages[0].Text() != "as it was" {
		h.Fatalf("what the caller does to its messages reaches the queue: %+v", turns)
	}
}

func enqueueTwice(h *harness) {
	h.create("session")
	h.enqueue("session", "one")
	h.enqueue("session", "two")
	row := h.commit("session", &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "one", Messages: says("other words")}})
	if row.Queued != 2 {
		h.Fatalf("the row counts %d turns, want 2", row.Queued)
	}
	h.wantQueue("session", "one", "two")
	// A turn that has left the queue may be added again.
	h.commit("session", &driver.Commit{Dequeue: []string{"one"}})
	h.enqueue("session", "one")
	h.wantQueue("session", "two", "one")
}

func dequeueUnknown(h *harness) {
	s := h.running("session")
	h.create("other")
	h.enqueue("other", "turn")
	for _, id := range []string{"turn", "turn-of-sessio", "unwanted"} {
		c := h.everythingBut(s)
		c.Dequeue = []string{id}
		h.unchanged("session", "a commit that takes an unknown turn", func() {
			_, err := h.st.Commit(h.Context(), "session", c)
			same(h.T, "row the store saw", h.wantConflict(err, cairn.ErrStale, "dequeue of "+id), s)
		})
	}
	c := h.everythingBut(s)
	h.enqueue("session", "there")
	s = h.load("session")
	c.Guard.Version, c.Dequeue = s.Version, []string{"there", "unwanted"}
	h.unchanged("session", "a commit that takes a turn that is there and one that is not", func() {
		_, err := h.st.Commit(h.Context(), "session", c)
		h.wantConflict(err, cairn.ErrStale, "dequeue of both")
	})
	_, err := h.st.Commit(h.Context(), "new", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Dequeue: []string{"turn"}})
	h.wantError(err, cairn.ErrStale, "creation with a turn to take")
	if there, err := driver.Exists(h.Context(), h.st, "new"); err != nil || there {
		h.Fatalf("the session exists after its creation failed: %v, %v", there, err)
	}
}

func enqueueAndDequeue(h *harness) {
	h.create("session")
	h.enqueue("session", "one")
	h.commit("session", &driver.Commit{Dequeue: []string{"one"}, Enqueue: &driver.QueuedTurn{ID: "two", Messages: says("of two")}})
	h.wantQueue("session", "two")
	// A turn is added before one is taken.
	h.commit("session", &driver.Commit{Dequeue: []string{"three"}, Enqueue: &driver.QueuedTurn{ID: "three"}})
	h.wantQueue("session", "two")
	h.commit("session", &driver.Commit{Dequeue: []string{"two"}, Enqueue: &driver.QueuedTurn{ID: "two", Messages: says("other words")}})
	h.wantQueue("session")
	h.commit("new", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Enqueue: &driver.QueuedTurn{ID: "first", Messages: says("of first")}})
	h.wantQueue("new", "first")
}

// dequeueAgain repeats a begin that takes its turn from the queue.
func dequeueAgain(h *harness) {
	h.create("session")
	h.enqueue("session", "one")
	h.enqueue("session", "two")
	begin := beginCommit("one", "worker", time.Hour)
	begin.Dequeue = []string{"one"}
	s := h.commit("session", begin)
	h.again("session", begin, "a begin of a queued turn again")
	h.end(s)
	h.again("session", begin, "a begin of a queued turn again when the session is idle again")
	h.wantQueue("session", "two")
}

func enqueueInParallel(h *harness) {
	h.create("session")
	errs := race(racers, func(i int) error {
		for n := range 10 {
			if _, err := h.st.Commit(h.Context(), "session", &driver.Commit{Enqueue: &driver.QueuedTurn{ID: fmt.Sprint(n)}}); err != nil {
				return err
			}
		}
		return nil
	})
	h.must(errors.Join(errs...))
	if turns, row := h.queue("session"), h.load("session"); len(turns) != 10 || row.Queued != 10 {
		h.Fatalf("%d turns are queued and %d counted, want 10", len(turns), row.Queued)
	}
}

func queueOfOthers(h *harness) {
	h.create("session")
	h.create("other")
	h.enqueue("session", "one")
	h.enqueue("other", "one")
	h.commit("other", &driver.Commit{Dequeue: []string{"one"}})
	h.wantQueue("session", "one")
	h.enqueue("other", "two")
	h.must(h.st.Delete(h.Context(), "session"))
	h.wantQueue("other", "two")
	h.create("session")
	h.wantQueue("session")
}

func queueOfNobody(h *harness) {
	_, err := driver.Queue(h.Context(), h.st, "nobody")
	h.wantError(err, cairn.ErrNotFound, "queue of no session")
}

// takeRace lets writers take the same turn concurrently: one of them gets it.
func takeRace(h *harness, hs handles) {
	h.create("session")
	for n := range h.rounds(100) {
		turn := fmt.Sprint("turn-", n)
		h.enqueue("session", turn)
		errs := race(racers, func(i int) error {
			_, err := hs.of(i).Commit(h.Context(), "session", &driver.Commit{Dequeue: []string{turn}, Messages: says(fmt.Sprintf("%s by %d", turn, i))})
			return err
		})
		winner, _ := h.oneWins(errs, cairn.ErrStale)
		h.wantQueue("session")
		if texts := h.texts("session"); len(texts) != n+1 || texts[n] != fmt.Sprintf("%s by %d", turn, winner) {
			h.Fatalf("after %d turns the transcript has %d messages; writer %d won the last", n+1, len(texts), winner)
		}
	}
}

func cached(key, output string) driver.CacheEntry {
	return driver.CacheEntry{Key: key, Tool: "search", Output: json.RawMessage(output), UsedAt: at(1), ExpiresAt: at(2)}
}

func (h *harness) cache(id string) []driver.CacheEntry {
	h.Helper()
	snap, err := h.st.Read(h.Context(), id, driver.ToDrive(0))
	h.must(err)
	return snap.Cache
}

func cacheEntries(h *harness) {
	h.create("session")
	same(h.T, "cache at first", h.cache("session"), []driver.CacheEntry(nil))
	a, b, z := cached("a", `1`), cached("b", `{"x":[]}`), cached("Z", `"text"`)
	h.commit("session", &driver.Commit{Cache: []driver.CacheEntry{b, a, z}})
	same(h.T, "cache", h.cache("session"), []driver.CacheEntry{z, a, b})
	b = driver.CacheEntry{Key: "b", Tool: "other", Output: json.RawMessage(`2`)}
	h.commit("session", &driver.Commit{Cache: []driver.CacheEntry{b, cached("c", `3`), cached("d", `4`)}, CacheDrop: []string{"a", "d", "no such key"}})
	same(h.T, "cache", h.cache("session"), []driver.CacheEntry{z, b, cached("c", `3`)})
	h.commit("session", &driver.Commit{CacheDrop: []string{"Z"}})
	h.commit("session", &driver.Commit{Cache: []driver.CacheEntry{cached("c", `5`), cached("c", `6`)}})
	same(h.T, "cache", h.cache("session"), []driver.CacheEntry{b, cached("c", `6`)})
}

func cacheOfOthers(h *harness) {
	h.create("session")
	h.create("other")
	for _, id := range []string{"session", "other"} {
		h.commit(id, &driver.Commit{Cache: []driver.CacheEntry{cached("key", encodedText(id))}})
	}
	h.commit("other", &driver.Commit{CacheDrop: []string{"key"}})
	same(h.T, "cache", h.cache("session"), []driver.CacheEntry{cached("key", encodedText("session"))})
	h.must(h.st.Delete(h.Context(), "session"))
	h.create("session")
	same(h.T, "cache of a new session", h.cache("session"), []driver.CacheEntry(nil))
	h.commit("session", &driver.Commit{Cache: []driver.CacheEntry{cached("key", `1`)}})
	branch := h.branch("session", driver.BranchPoint{}, "branch")
	same(h.T, "cache of a branch", h.cache(branch.ID), []driver.CacheEntry(nil))
}

func encodedText(text string) string { return string(encode(text)) }
