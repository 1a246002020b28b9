package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// tapped is a memory's store that lets a test step in before and after each call of its memories. The test may refuse a
// call or lose its answer.
type tapped struct {
	*memstore.Store

	mu     sync.Mutex
	calls  int
	stepIn func(call int, after bool) error
}

func (s *tapped) Memories() driver.Memories { return tappedRows{s.Store.Memories(), s} }

func (s *tapped) next() (int, func(int, bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.stepIn == nil {
		return s.calls, func(int, bool) error { return nil }
	}
	return s.calls, s.stepIn
}

// from has fn step in at each call from now on, which are counted from 1.
func (s *tapped) from(fn func(call int, after bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.stepIn = 0, fn
}

type tappedRows struct {
	driver.Memories
	s *tapped
}

func (r tappedRows) Read(ctx context.Context, scope memory.Scope, reads ...driver.MemoryRead) (*driver.MemoryEntries, error) {
	n, step := r.s.next()
	if err := step(n, false); err != nil {
		return nil, err
	}
	found, err := r.Memories.Read(ctx, scope, reads...)
	if err == nil {
		err = step(n, true)
	}
	return found, err
}

func (r tappedRows) Write(ctx context.Context, w driver.MemoryWrite) (int64, error) {
	n, step := r.s.next()
	if err := step(n, false); err != nil {
		return 0, err
	}
	version, err := r.Memories.Write(ctx, w)
	if err == nil {
		err = step(n, true)
	}
	return version, err
}

// on returns the house of a memory on a tapped store.
func on(t *testing.T, opts memory.Options) (*house, *tapped) {
	h := newHouse(t, opts)
	tap := &tapped{Store: h.st}
	m, err := memory.New(tap, &opts)
	if err != nil {
		t.Fatal(err)
	}
	h.mem = m
	return h, tap
}

// late is a memory whose first calls of Learn fail, and that keeps the turns of all calls.
type late struct {
	*memory.Memory
	mu    sync.Mutex
	fails int
	turns []*cairn.EndedTurn
}

func (l *late) Learn(ctx context.Context, turn *cairn.EndedTurn) error {
	l.mu.Lock()
	l.turns = append(l.turns, turn)
	l.fails--
	fails := l.fails >= 0
	l.mu.Unlock()
	if fails {
		return errors.New("later")
	}
	return l.Memory.Learn(ctx, turn)
}

// works has a worker of an engine work for a while.
func works(t *testing.T, eng *engine.Engine, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Work(ctx) }()
	testclock.Advance(d)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Nothing of an erased user comes back, whichever call of the store the memory had come to in learning from a turn, and
// nothing of a purged session. A process that dies then leaves nothing to read either.
func TestLearningBringsNoErasedUserBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []driver.MemoryKind{memory.OfUser, memory.OfSession} {
		for _, before := range []bool{false, true} { // the scope exists
			for _, after := range []bool{false, true} { // the call
				for _, dies := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s before %v after %v dies %v", kind, before, after, dies), func(t *testing.T) {
						t.Parallel()
						for k, fired := 1, true; fired; k++ {
							synctest.Test(t, func(t *testing.T) { fired = erasedMeanwhile(t, kind, k, before, after, dies) })
						}
					})
				}
			}
		}
	}
}

func erasedMeanwhile(t *testing.T, kind driver.MemoryKind, k int, before, after, dies bool) (fired bool) {
	h, tap := on(t, memory.Options{Scope: kind, Embedder: hashed(), Agent: memory.AgentOptions{Extract: &memory.Extract{Model: extracts("Ann lives in Bonn.")}}})
	l := &late{Memory: h.mem, fails: 1}
	eng, _ := h.agentOf(l)
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("I live in Bonn."), engine.WithUser("ann"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if before {
		row, err := eng.Session(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		scope, err := h.mem.ScopeOf(row)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.mem.Add(t.Context(), scope, memory.Entry{Text: "Ann likes tea.", Source: memory.Source{Kind: memory.Application}}); err != nil {
			t.Fatal(err)
		}
	}
	other := newHouseOn(t, h.st, memory.Options{})
	eraser, _ := other.agent()
	dead := false
	tap.from(func(n int, behind bool) error {
		if dead {
			return cairn.Errorf(cairn.ErrUnavailable, "dead")
		}
		if n == k && behind == after {
			fired = true
			if _, err := eraser.EraseUser(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
			if dead = dies; dead {
				return cairn.Errorf(cairn.ErrUnavailable, "dead")
			}
		}
		return nil
	})
	testclock.Advance(3 * time.Minute)
	works(t, eng, 5*time.Minute)
	tap.from(nil)
	works(t, eng, 5*time.Minute)
	if !fired {
		return false
	}
	page, err := h.mem.Scopes(t.Context(), driver.MemoryScopeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Items {
		if list := h.entries(s.MemoryScope); len(list) > 0 || !dies {
			t.Errorf("erased at call %d: scope %v is back with %q", k, s.MemoryScope, list)
		}
	}
	if _, err := eng.Session(t.Context(), "s"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the session: %v", err)
	}
	return true
}

// Turns of a rewound session are not taken for the session's last, however late and in whatever order they are learned
// from: what was said in those before the rewind is forgotten, and nothing else.
func TestRewoundTurnsLearnedLate(t *testing.T) {
	t.Parallel()
	want := []string{"active user_said said: one", "active agent_inferred said: You said: one", "active user_said said: four",
		"active agent_inferred said: You said: four", "active user_said said: five", "active agent_inferred said: You said: five"}
	for name, play := range map[string]func(t *testing.T, h *house, l *late, eng *engine.Engine){
		"the next turn has begun": func(t *testing.T, h *house, l *late, eng *engine.Engine) {
			l.fails = 1
			h.say(eng, "ann", "s", "four")
			h.say(eng, "ann", "s", "five")
			testclock.Advance(3 * time.Minute)
			works(t, eng, 5*time.Minute)
		},
		"the next turn was learned meanwhile": func(t *testing.T, h *house, l *late, eng *engine.Engine) {
			h.say(eng, "ann", "s", "four")
			four := l.turns[len(l.turns)-1]
			h.say(eng, "ann", "s", "five")
			if err := h.mem.Learn(t.Context(), four); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, memory.Options{})
				l := &late{Memory: h.mem}
				eng, _ := h.agentOf(l)
				h.say(eng, "ann", "s", "one")
				at, err := eng.Checkpoint(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				h.say(eng, "ann", "s", "two")
				h.say(eng, "ann", "s", "three")
				if _, err := eng.Rewind(t.Context(), "s", at.ID); err != nil {
					t.Fatal(err)
				}
				testclock.Advance(time.Second)
				play(t, h, l, eng)
				got := map[string]bool{}
				for _, e := range h.entries(memory.User("ann")) {
					got[e] = true
				}
				for _, e := range want {
					if !got[e] {
						t.Errorf("missing: %s", e)
					}
					delete(got, e)
				}
				for e := range got {
					t.Errorf("not forgotten: %s", e)
				}
			})
		})
	}
}

// A turn that is rewound, or whose session is deleted, after its end and before the memory has learned from it, is not
// learned.
func TestTurnsThatAreGoneAreNotLearned(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"Rewind", "Delete"} {
		for k, fired := 1, true; fired; k++ {
			synctest.Test(t, func(t *testing.T) {
				h, tap := on(t, memory.Options{})
				l := &late{Memory: h.mem}
				eng, _ := h.agentOf(l)
				h.say(eng, "ann", "s", "one")
				at, err := eng.Checkpoint(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				l.fails = 1
				h.say(eng, "ann", "s", "two")
				fired = false
				tap.from(func(n int, after bool) (err error) {
					if n != k || after {
						return nil
					}
					fired = true
					if verb == "Delete" {
						return eng.Delete(t.Context(), "s")
					}
					_, err = eng.Rewind(t.Context(), "s", at.ID)
					return err
				})
				testclock.Advance(3 * time.Minute)
				works(t, eng, 5*time.Minute)
				tap.from(nil)
				wrote := strings.Contains(strings.Join(h.entries(memory.User("ann")), "\n"), "two")
				if verb == "Rewind" { // what was learned before is forgotten with the next turn
					h.say(eng, "ann", "s", "three")
					wrote = strings.Contains(strings.Join(h.entries(memory.User("ann")), "\n"), "two")
				}
				if fired && wrote && (k == 1 || verb == "Rewind") {
					t.Errorf("%s at call %d: learned from a turn that is gone", verb, k)
				}
			})
		}
	}
}

// A branch has what its session's transcript had, and its own turns are learned as its own. What the model can read in the
// transcript of the branch is not given to it as a memory.
func TestMemoryOfABranch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, memory.Options{})
		eng, requests := h.agent()
		h.say(eng, "ann", "s", "My sister Clara lives in Lisbon.")
		if _, err := eng.Branch(t.Context(), "s", "other"); err != nil {
			t.Fatal(err)
		}
		h.say(eng, "ann", "s", "Clara has a dog.")
		h.say(eng, "ann", "other", "Clara has a cat in Lisbon.")
		last := (*requests)[len(*requests)-1]
		if strings.Contains(last, "user: My sister Clara") || !strings.Contains(last, "user: Clara has a dog.") {
			t.Errorf("the branch reads\n%s", last)
		}
		h.want("entries", h.entries(memory.User("ann")), []string{
			"active user_said said: My sister Clara lives in Lisbon.", "active agent_inferred said: You said: My sister Clara lives in Lisbon.",
			"active user_said said: Clara has a dog.", "active agent_inferred said: You said: Clara has a dog.",
			"active user_said said: Clara has a cat in Lisbon.", "active agent_inferred said: You said: Clara has a cat in Lisbon."})
	})
}
