package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store/driver"
)

func TestCacheKeepsTheMostRecentlyUsed(t *testing.T) {
	t.Parallel()
	c := NewCache(2, -1)
	sessions := map[string]*Live{}
	park := func(id string) {
		if sessions[id] == nil {
			sessions[id] = &Live{known: known{Row: &cairn.Session{ID: id}}}
		}
		c.Drive(sessions[id])
		c.Park(sessions[id])
	}
	park("a")
	park("b")
	park("a")
	park("c")
	for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if got, _ := c.Take(id); (got != nil) != want {
			t.Errorf("session %s is kept: %t, want %t", id, got != nil, want)
		}
	}
	if got, _ := c.Take("a"); got != nil || c.Get("a") != nil || len(c.idle)+len(c.driven)+c.order.Len() != 0 {
		t.Errorf("left over: %d idle, %d driven, %d in order", len(c.idle), len(c.driven), c.order.Len())
	}
	none := NewCache(-1, -1)
	none.Park(sessions["a"])
	if got, _ := none.Take("a"); got != nil {
		t.Error("a cache without room kept a session")
	}
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	session := func(id string, bytes int64) *Live {
		return &Live{known: known{Row: &cairn.Session{ID: id}, Messages: make([]cairn.Message, 0), bytes: bytes}}
	}
	c := NewCache(100, 4*mib)
	keeps := func(what string, want ...string) {
		t.Helper()
		var ids []string
		held := int64(0)
		for e := c.order.Back(); e != nil; e = e.Prev() {
			l := e.Value.(*Live)
			ids, held = append(ids, l.Row.ID), held+l.weight()
		}
		if !slices.Equal(ids, want) || len(c.idle) != len(want) || c.held != held {
			t.Fatalf("%s: kept are %v with %d bytes, want %v with %d", what, ids, c.held, want, held)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		c.Park(session(id, mib))
	}
	keeps("three that fit", "a", "b", "c")
	c.Park(session("d", 2*mib))
	keeps("one more, of twice the size", "c", "d")
	c.Park(session("e", 5*mib))
	keeps("one that is too large by itself", "c", "d")
	c.Park(session("d", mib))
	keeps("one that became smaller", "c", "d")
	c.Park(session("d", 5*mib))
	keeps("one that became too large", "c")
	busy := session("f", 5*mib)
	busy.Run = &cairn.Run{}
	c.Keep(busy)
	keeps("a large one at work", "f")
	c.Park(session("g", mib))
	keeps("another one", "g")
	if got, _ := c.Take("g"); got == nil || c.held != 0 {
		t.Fatalf("%d bytes are held by nobody", c.held)
	}
	grown := session("h", 0)
	if err := grown.Load(nil, []cairn.Message{cairn.User(cairn.TextPart(strings.Repeat("x", mib)))}); err != nil {
		t.Fatal(err)
	}
	grown.Append([]cairn.Message{cairn.User(cairn.FilePart(cairn.File{Data: make([]byte, mib)}))})
	grown.Row.State = cairn.StatePosition{KeyframeBytes: mib, ChangeBytes: 1}
	grown.results.set(driver.CacheEntry{Key: "k", Output: make([]byte, mib)})
	if w := grown.weight(); w < 4*mib || w > 4*mib+16<<10 {
		t.Errorf("a session with 4 MiB weighs %d", w)
	}
	unbounded := NewCache(100, -1)
	unbounded.Park(session("a", 1<<60))
	if got, _ := unbounded.Take("a"); got == nil {
		t.Error("a cache without a bound did not keep a large session")
	}
}

// If this process takes a session over from itself, the former driver does not drop or park it.
func TestFormerDriverLeavesItsSuccessorAlone(t *testing.T) {
	t.Parallel()
	c := NewCache(1, -1)
	old := &Live{known: known{Row: &cairn.Session{ID: "s", Lease: cairn.Lease{Token: 1}}}}
	successor := &Live{known: known{Row: &cairn.Session{ID: "s", Lease: cairn.Lease{Token: 2}}}}
	c.Drive(old)
	c.Drive(successor)
	c.Forget(turn.Position{SessionID: "s", Token: 1})
	c.Drop(old)
	if c.Get("s") != successor {
		t.Error("the successor was forgotten")
	}
	c.Forget(turn.Position{SessionID: "s", Token: 2})
	if c.Get("s") != nil {
		t.Error("the successor was not forgotten when it was its turn")
	}
}
