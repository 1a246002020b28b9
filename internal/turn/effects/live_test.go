package effects

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store"
)

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, limit time.Duration
		n            int
		want         time.Duration
	}{
		{time.Second, time.Minute, 0, time.Second},
		{time.Second, time.Minute, 3, 8 * time.Second},
		{time.Second, time.Minute, 6, time.Minute},
		{time.Second, time.Minute, 1000, time.Minute},
		{time.Hour, time.Minute, 0, time.Minute},
		{100 * time.Hour, math.MaxInt64, 19, math.MaxInt64},
		{math.MaxInt64, time.Minute, 20, time.Minute},
		{time.Nanosecond, time.Nanosecond, 5, time.Nanosecond},
	} {
		for range 100 {
			if got := backoff(c.first, c.limit, c.n); got > c.want || got < c.want-c.want/4-1 {
				t.Fatalf("backoff(%s, %s, %d) = %s, want %s less up to a quarter", c.first, c.limit, c.n, got, c.want)
			}
		}
	}
}

func TestCacheKeepsTheMostRecentlyUsed(t *testing.T) {
	t.Parallel()
	c := newCache(2, -1)
	sessions := map[string]*live{}
	park := func(id string) {
		if sessions[id] == nil {
			sessions[id] = &live{known: known{row: &cairn.Session{ID: id}}}
		}
		c.drive(sessions[id])
		c.park(sessions[id])
	}
	park("a")
	park("b")
	park("a")
	park("c")
	for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if got, _ := c.take(id); (got != nil) != want {
			t.Errorf("session %s is kept: %t, want %t", id, got != nil, want)
		}
	}
	if got, _ := c.take("a"); got != nil || c.get("a") != nil || len(c.idle)+len(c.driven)+c.order.Len() != 0 {
		t.Errorf("left over: %d idle, %d driven, %d in order", len(c.idle), len(c.driven), c.order.Len())
	}
	none := newCache(-1, -1)
	none.park(sessions["a"])
	if got, _ := none.take("a"); got != nil {
		t.Error("a cache without room kept a session")
	}
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	session := func(id string, bytes int64) *live {
		return &live{known: known{row: &cairn.Session{ID: id}, messages: make([]cairn.Message, 0), bytes: bytes}}
	}
	c := newCache(100, 4*mib)
	keeps := func(what string, want ...string) {
		t.Helper()
		var ids []string
		held := int64(0)
		for e := c.order.Back(); e != nil; e = e.Prev() {
			l := e.Value.(*live)
			ids, held = append(ids, l.row.ID), held+l.weight()
		}
		if !slices.Equal(ids, want) || len(c.idle) != len(want) || c.held != held {
			t.Fatalf("%s: kept are %v with %d bytes, want %v with %d", what, ids, c.held, want, held)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		c.park(session(id, mib))
	}
	keeps("three that fit", "a", "b", "c")
	c.park(session("d", 2*mib))
	keeps("one more, of twice the size", "c", "d")
	c.park(session("e", 5*mib))
	keeps("one that is too large by itself", "c", "d")
	c.park(session("d", mib))
	keeps("one that became smaller", "c", "d")
	c.park(session("d", 5*mib))
	keeps("one that became too large", "c")
	busy := session("f", 5*mib)
	busy.run = &cairn.Run{}
	c.keep(busy)
	keeps("a large one at work", "f")
	c.park(session("g", mib))
	keeps("another one", "g")
	if got, _ := c.take("g"); got == nil || c.held != 0 {
		t.Fatalf("%d bytes are held by nobody", c.held)
	}
	grown := session("h", 0)
	if err := grown.load(nil, []cairn.Message{cairn.User(cairn.TextPart(strings.Repeat("x", mib)))}); err != nil {
		t.Fatal(err)
	}
	grown.append([]cairn.Message{cairn.User(cairn.FilePart(cairn.File{Data: make([]byte, mib)}))})
	grown.row.State = cairn.StatePosition{KeyframeBytes: mib, ChangeBytes: 1}
	grown.results.set(store.CacheEntry{Key: "k", Output: make([]byte, mib)})
	if w := grown.weight(); w < 4*mib || w > 4*mib+16<<10 {
		t.Errorf("a session with 4 MiB weighs %d", w)
	}
	unbounded := newCache(100, -1)
	unbounded.park(session("a", 1<<60))
	if got, _ := unbounded.take("a"); got == nil {
		t.Error("a cache without a bound did not keep a large session")
	}
}

// A session that was taken over from this process by itself is not dropped or parked by its former driver.
func TestFormerDriverLeavesItsSuccessorAlone(t *testing.T) {
	t.Parallel()
	fx := NewEffects(Config{CacheSessions: 1})
	old := &live{known: known{row: &cairn.Session{ID: "s", Lease: cairn.Lease{Token: 1}}}}
	successor := &live{known: known{row: &cairn.Session{ID: "s", Lease: cairn.Lease{Token: 2}}}}
	fx.cache.drive(old)
	fx.cache.drive(successor)
	fx.Forget(turn.Position{SessionID: "s", Token: 1})
	fx.cache.drop(old)
	if fx.cache.get("s") != successor {
		t.Error("the successor was forgotten")
	}
	fx.Forget(turn.Position{SessionID: "s", Token: 2})
	if fx.cache.get("s") != nil {
		t.Error("the successor was not forgotten when it was its turn")
	}
}

func TestMarksOfALog(t *testing.T) {
	t.Parallel()
	step := func(kind cairn.EventType, n int) cairn.Event { return cairn.Event{Type: kind, Step: n} }
	start, commit, discard := cairn.EventStepStart, cairn.EventStepCommitted, cairn.EventStepDiscarded
	begin, end := cairn.Event{Type: cairn.EventRunStart}, cairn.Event{Type: cairn.EventRunEnd}
	kept := cairn.Event{Type: cairn.EventCheckpoint, Step: 1, CheckpointID: checkpointID("r", 1)}
	record := &cairn.Run{ID: "r", Status: cairn.RunCompleted}
	for name, c := range map[string]struct {
		steps int // in the store
		ended bool
		log   []cairn.Event
		want  string
	}{
		"nothing was written":           {0, false, nil, "[run_start]"},
		"it has just begun":             {0, false, []cairn.Event{begin}, "[]"},
		"its first step was lost":       {0, false, []cairn.Event{begin, step(start, 1)}, "[step_discarded 1]"},
		"taken back already":            {0, false, []cairn.Event{begin, step(start, 1), step(discard, 1)}, "[]"},
		"begun anew after that":         {0, false, []cairn.Event{begin, step(start, 1), step(discard, 1), step(start, 1)}, "[step_discarded 1]"},
		"a commit without its mark":     {1, false, []cairn.Event{begin, step(start, 1)}, "[step_committed 1 checkpoint 1]"},
		"three steps in one commit":     {3, false, []cairn.Event{begin, step(start, 1), step(start, 2), step(start, 3), step(commit, 1)}, "[step_committed 2 step_committed 3 checkpoint 3]"},
		"deferred steps that were lost": {1, false, []cairn.Event{begin, step(commit, 1), kept, step(start, 2), step(start, 3)}, "[step_discarded 2 step_discarded 3]"},
		"the end is missing":            {1, true, []cairn.Event{begin, step(start, 1), step(commit, 1), kept}, "[run_end]"},
		"the checkpoint is missing":     {1, true, []cairn.Event{begin, step(start, 1), step(commit, 1)}, "[checkpoint 1 run_end]"},
		"everything is missing":         {1, true, nil, "[step_committed 1 checkpoint 1 run_end]"},
		"complete":                      {1, true, []cairn.Event{begin, step(start, 1), step(commit, 1), end}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := marks{committed: map[int]bool{}}
			for _, ev := range c.log {
				m.add(&ev, c.steps)
			}
			p := past{runID: "r", run: &cairn.Run{}, steps: c.steps, checkpoint: checkpointID("r", c.steps)}
			if c.ended {
				p.end = record
			}
			var got []string
			for _, ev := range p.missing(m) {
				text := string(ev.Type)
				if ev.Step > 0 {
					text += fmt.Sprint(" ", ev.Step)
				}
				got = append(got, text)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("missing %v, want %s", got, c.want)
			}
		})
	}
}
