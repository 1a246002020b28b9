package tail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
)

// shelf is a store with the events of one log.
type shelf struct {
	mu    sync.Mutex
	list  []cairn.Event
	reads int
	fail  error
}

// put adds events to the shelf and returns them.
func (s *shelf) put(n int) []cairn.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.list = append(s.list, cairn.Event{Sequence: int64(len(s.list)) + 1})
	}
	return slices.Clone(s.list[len(s.list)-n:])
}

func (s *shelf) read(_ context.Context, _ string, after int64, limit int) ([]cairn.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fail != nil {
		return nil, s.fail
	}
	rest := s.list[min(int(after), len(s.list)):]
	return slices.Clone(rest[:min(limit, len(rest))]), nil
}

// follow reads a log in the background; seen returns what it has read so far.
func follow(t *testing.T, h *Hub, s *shelf, after int64) (seen func() string) {
	var mu sync.Mutex
	var got []int64
	go func() {
		for ev, err := range h.Follow(t.Context(), "log", after, s.read) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			got = append(got, ev.Sequence)
			mu.Unlock()
		}
	}()
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, n := range got {
			if n != after+1+int64(i) {
				return fmt.Sprintf("a gap or a repeat: %v", got)
			}
		}
		return fmt.Sprintf("%d up to %d", len(got), after+int64(len(got)))
	}
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the reader saw %s, want %s", got, want)
	}
}

func TestFollowerSeesHistoryAndWhatIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := &Hub{}, &shelf{}
		s.put(1000) // more than one read returns
		seen := follow(t, h, s, 10)
		want(t, seen(), "990 up to 1000")
		reads := s.reads
		for range 5 {
			h.Publish("log", s.put(2))
			synctest.Wait()
		}
		want(t, seen(), "1000 up to 1010")
		if s.reads > reads+1 {
			t.Errorf("%d reads for what was published in order", s.reads-reads)
		}
	})
}

// TestAppendedEventsHaveTheirSequences checks that Append does not modify the caller's events.
func TestAppendedEventsHaveTheirSequences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := &Hub{}, &shelf{}
		events := make([]cairn.Event, 3)
		if h.Append("log", 3, events) {
			t.Error("published without a follower")
		}
		seen := follow(t, h, s, 0)
		want(t, seen(), "0 up to 0")
		if h.Append("log", 3, nil) || !h.Append("log", 3, events) {
			t.Error("not published, or without events")
		}
		want(t, seen(), "3 up to 3") // the shelf has none
		if events[2].Sequence != 0 {
			t.Errorf("the caller's event has the sequence %d", events[2].Sequence)
		}
	})
}

func TestFollowerFillsWhatWasNotPublished(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(h *Hub, s *shelf){
		"a gap":                        func(h *Hub, s *shelf) { s.put(3); h.Publish("log", s.put(2)) },
		"a wake":                       func(h *Hub, s *shelf) { s.put(5); h.Wake("log") },
		"a wake of all":                func(h *Hub, s *shelf) { s.put(5); h.WakeAll() },
		"out of order":                 func(h *Hub, s *shelf) { a, b := s.put(3), s.put(2); h.Publish("log", b); h.Publish("log", a) },
		"twice":                        func(h *Hub, s *shelf) { a := s.put(5); h.Publish("log", a); h.Publish("log", a) },
		"overlapping":                  func(h *Hub, s *shelf) { a := s.put(3); h.Publish("log", a); s.put(2); h.Publish("log", s.list[1:]) },
		"a wake that knows of nothing": func(h *Hub, s *shelf) { h.Wake("log"); h.Publish("log", s.put(5)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, s := &Hub{}, &shelf{}
				h.Publish("log", s.put(1))
				seen := follow(t, h, s, 0)
				want(t, seen(), "1 up to 1")
				write(h, s)
				want(t, seen(), "6 up to 6")
				h.Publish("log", s.put(1))
				want(t, seen(), "7 up to 7")
			})
		})
	}
}

func TestSlowFollowerCatchesUpFromTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := &Hub{}, &shelf{}
		release := make(chan struct{})
		var got []int64
		go func() {
			for ev, err := range h.Follow(t.Context(), "log", 0, s.read) {
				if err != nil {
					t.Error(err)
				}
				if got = append(got, ev.Sequence); len(got) == 1 {
					<-release
				}
			}
		}()
		synctest.Wait()
		for range 10 * window { // none of these blocks
			h.Publish("log", s.put(1))
		}
		close(release)
		synctest.Wait()
		if n := 10 * window; len(got) != n || got[n-1] != int64(n) || !slices.IsSorted(got) {
			t.Errorf("%d events", len(got))
		}
		for _, tail := range h.tails {
			if len(tail.events) > 3*window {
				t.Errorf("%d events are kept", len(tail.events))
			}
		}
	})
}

func TestLastFollowerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
		h, s := &Hub{}, &shelf{}
		s.put(3)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range h.Follow(ctx, "log", 0, s.read) {
				}
			})
		}
		for range h.Follow(ctx, "log", 0, s.read) {
			break
		}
		synctest.Wait()
		if !h.Following() || !slices.Equal(h.Logs(), []string{"log"}) {
			t.Errorf("logs %v", h.Logs())
		}
		cancel()
		all.Wait()
		if h.Following() || len(h.Logs()) != 0 {
			t.Errorf("logs %v are still followed", h.Logs())
		}
		h.Publish("log", s.put(1)) // without followers
	})
}

func TestErrorOfTheStoreEndsTheFollower(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	h, s := &Hub{}, &shelf{fail: broken}
	n := 0
	for _, err := range h.Follow(t.Context(), "log", 0, s.read) {
		if n++; !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	}
	if n != 1 || h.Following() {
		t.Errorf("%d errors, still following %t", n, h.Following())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range h.Follow(gone, "log", 0, s.read) {
		t.Errorf("a reader that has gone is told %v", err)
	}
}

// Many readers that come and go, and writers that publish in any order, never cause a gap.
func TestManyReadersAndWriters(t *testing.T) {
	t.Parallel()
	const total = 3000
	h, s := &Hub{}, &shelf{}
	var all sync.WaitGroup
	for r := range 50 {
		all.Go(func() {
			next := int64(r)
			for next < total {
				for ev, err := range h.Follow(t.Context(), "log", next, s.read) {
					if err != nil || ev.Sequence != next+1 {
						t.Errorf("after %d comes %d, %v", next, ev.Sequence, err)
						return
					}
					if next = ev.Sequence; next == total || next%97 == int64(r) { // leaves and comes back
						break
					}
				}
			}
		})
	}
	var mu sync.Mutex
	written := 0
	for range 3 {
		all.Go(func() {
			for {
				mu.Lock()
				if written == total {
					mu.Unlock()
					return
				}
				batch := s.put(1)
				written++
				mu.Unlock()
				h.Publish("log", batch) // another writer may be first
			}
		})
	}
	all.Wait()
}

// A log is dropped while it has a follower, and another reader follows the new log of that name.
func TestDroppedLogIsNotGivenToReadersOfTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := &Hub{}, &shelf{}
		old := follow(t, h, s, 0)
		old()
		h.Publish("log", s.put(5))
		want(t, old(), "5 up to 5")
		s.mu.Lock()
		s.list = nil
		s.mu.Unlock()
		h.Drop("log")
		fresh := follow(t, h, s, 0)
		want(t, fresh(), "0 up to 0")
		h.Publish("log", s.put(2))
		want(t, fresh(), "2 up to 2")
		want(t, old(), "5 up to 5")
	})
}

// However many followers wake, the store is read only once for the events that they lack.
func TestFollowersShareWhatTheyRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := &Hub{}, &shelf{}
		s.put(3)
		var seen []func() string
		for range 100 {
			seen = append(seen, follow(t, h, s, 0))
		}
		synctest.Wait()
		for round := range 3 {
			before := s.reads
			s.put(5)
			h.Wake("log")
			for _, f := range seen {
				n := 3 + 5*(round+1)
				want(t, f(), fmt.Sprintf("%d up to %d", n, n))
			}
			if reads := s.reads - before; reads > 2 { // one for the events, one that finds no more
				t.Errorf("%d reads for 100 followers", reads)
			}
		}
		before := s.reads
		h.Wake("log") // for nothing
		synctest.Wait()
		if reads := s.reads - before; reads > 1 {
			t.Errorf("%d reads for 100 followers who lack nothing", reads)
		}
	})
}

// A follower does not depend on another follower that leaves while reading for both.
func TestFollowersOutliveTheOneThatReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := &Hub{}, &shelf{}
		s.put(1)
		ctx, leave := context.WithCancel(t.Context())
		slow := func(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
			if after > 0 && len(s.list) > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.read(ctx, log, after, limit)
		}
		go func() {
			for range h.Follow(ctx, "log", 0, slow) {
			}
		}()
		synctest.Wait()
		s.put(1)
		h.Wake("log")
		synctest.Wait() // the first follower reads, and hangs
		seen := follow(t, h, s, 1)
		want(t, seen(), "1 up to 2")
		h.Wake("log")
		leave()
		want(t, seen(), "1 up to 2")
		h.Publish("log", s.put(1))
		want(t, seen(), "2 up to 3")
	})
}

func TestFollowersReadByTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const followers = 500
		h, s := &Hub{}, &shelf{}
		s.put(3)
		var mu sync.Mutex
		reading, most := 0, 0
		slow := func(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
			mu.Lock()
			reading++
			most = max(most, reading)
			mu.Unlock()
			testclock.Deaf(time.Millisecond)
			mu.Lock()
			reading--
			mu.Unlock()
			return s.read(ctx, log, after, limit)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range followers {
			group.Go(func() {
				n := 0
				for _, err := range h.Follow(ctx, fmt.Sprint("log", i), 0, slow) {
					if n++; err != nil || n == 3 {
						break
					}
				}
				if n != 3 {
					t.Errorf("a follower saw %d events", n)
				}
			})
		}
		group.Wait()
		if most != maxReads {
			t.Errorf("%d followers read at once, want %d", most, maxReads)
		}
		group.Go(func() { // a follower that leaves does not wait for its turn
			for range h.Follow(ctx, "another log", 0, func(ctx context.Context, _ string, _ int64, _ int) ([]cairn.Event, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}) {
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
	})
}
