package redisstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// throughProxy opens a store behind a proxy.
func throughProxy(t *testing.T) (*Store, *proxy) {
	t.Helper()
	p := newProxy(t, testenv.Redis(t))
	return openAt(t, p.url, &Options{Prefix: newPrefix()}), p
}

// everyOther cuts the connection at every second request that runs a script with an argument.
func everyOther(how cutting, argument string) func([]byte) cutting {
	n := 0
	return func(request []byte) cutting {
		if !bytes.Contains(request, []byte(argument)) {
			return cutNot
		}
		if n++; n%2 == 1 {
			return how
		}
		return cutNot
	}
}

func texts(t *testing.T, s *Store, id string) []string {
	t.Helper()
	list, err := driver.AllMessages(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range list {
		all = append(all, m.Text())
	}
	return all
}

// A commit whose answer was lost is sent again and not applied twice, though it names neither a step nor a run.
func TestLostAnswerOfACommit(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cutting{"request": cutRequest, "answer": cutAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := throughProxy(t)
			row, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			p.setCut(everyOther(how, "attempt"))
			for n := range 50 {
				guard := driver.Guard{Version: row.Version}
				if n%2 == 0 {
					guard = driver.Guard{} // only the attempt's name distinguishes it from another commit
				}
				row, err = s.Commit(t.Context(), "session", &driver.Commit{Guard: guard,
					Messages: []cairn.Message{cairn.User(cairn.TextPart(fmt.Sprint("attempt ", n)))}, Usage: cairn.Usage{ModelCalls: 1}})
				if err != nil {
					t.Fatalf("commit %d: %v", n, err)
				}
			}
			p.setCut(nil)
			if got := texts(t, s, "session"); len(got) != 50 || got[49] != "attempt 49" || row.Usage.ModelCalls != 50 {
				t.Errorf("50 commits came to %d messages, %d model calls", len(got), row.Usage.ModelCalls)
			}
		})
	}
}

func TestLostAnswerOfAnAppend(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cutting{"request": cutRequest, "answer": cutAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := throughProxy(t)
			p.setCut(everyOther(how, "attempt"))
			for n := range 50 {
				expect := driver.AnySequence
				if n%2 == 0 {
					expect = int64(2 * n)
				}
				ev := cairn.Event{Type: cairn.EventTextDelta, Text: fmt.Sprint("attempt ", n)}
				var last int64
				var err error
				switch n % 3 {
				case 0:
					last, err = s.log.Append(t.Context(), "log", expect, ev, ev)
				case 1: // not numbered
					last, err = s.log.AppendFenced(t.Context(), "log", expect, driver.Writer{Session: "session", Token: 1}, ev, ev)
				case 2:
					w := driver.Writer{Session: "session", Token: 1, ID: "writer", Batch: int64(n)}
					last, err = s.log.AppendFenced(t.Context(), "log", expect, w, ev, ev)
				}
				if err != nil || last != int64(2*n+2) {
					t.Fatalf("append %d ends at %d: %v", n, last, err)
				}
			}
			p.setCut(nil)
			list, err := s.log.Read(t.Context(), "log", 0, 0)
			if err != nil || len(list) != 100 {
				t.Fatalf("50 appends of two events came to %d events, %v", len(list), err)
			}
			for i, ev := range list {
				if want := fmt.Sprint("attempt ", i/2); ev.Text != want || ev.Sequence != int64(i+1) {
					t.Fatalf("event %d is %d %q, want %q", i+1, ev.Sequence, ev.Text, want)
				}
			}
		})
	}
}

// A removal whose answer was lost is sent again and returns the original answer.
func TestLostAnswerOfARemoval(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cutting{"request": cutRequest, "answer": cutAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := throughProxy(t)
			p.setCut(everyOther(how, "hide"))
			var want []driver.Removed
			for n := range 10 {
				id := fmt.Sprint("session ", n)
				if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: id, Agent: "support"}, nil); err != nil {
					t.Fatal(err)
				}
				removed, err := s.Remove(t.Context(), id, driver.Deleted)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, *removed)
			}
			p.setCut(nil)
			if page, err := s.Removed(t.Context(), 0, driver.PageQuery{}); err != nil || !slices.Equal(page.Items, want) {
				t.Errorf("removed: %+v, %v, want %+v", page.Items, err, want)
			}
		})
	}
}

// Two writers add to one session while connections are cut constantly: every message exists once, or its writer got the
// error that the outcome is unknown.
func TestTwoWritersOverBadConnections(t *testing.T) {
	t.Parallel()
	a, p := throughProxy(t)
	b := openAt(t, p.url, &a.opts)
	if _, err := driver.Create(t.Context(), a, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	const each = 500
	p.setCut(func([]byte) cutting {
		if n := rand.IntN(20); n < 2 {
			return cutting(n + 1)
		}
		return cutNot
	})
	var lost [2]int
	var group sync.WaitGroup
	for i, s := range []*Store{a, b} {
		group.Go(func() {
			for n := range each {
				_, err := driver.AppendMessages(t.Context(), s, "session", cairn.User(cairn.TextPart(fmt.Sprint(i, " ", n))))
				if errors.Is(err, cairn.ErrUnavailable) {
					lost[i]++
				} else if err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
	p.setCut(nil)
	seen := map[string]int{}
	for _, text := range texts(t, a, "session") {
		seen[text]++
		if seen[text] > 1 {
			t.Errorf("%q is there %d times", text, seen[text])
		}
	}
	if missing := 2*each - len(seen); missing > lost[0]+lost[1] {
		t.Errorf("%d messages are missing, %d writes answered that they may be", missing, lost[0]+lost[1])
	}
	if lost[0]+lost[1] > each/10 {
		t.Errorf("%d of %d writes failed", lost[0]+lost[1], 2*each)
	}
}

// No update is lost in a thousand races of two writers on one session.
func TestTwoWritersLoseNothing(t *testing.T) {
	t.Parallel()
	a := openNew(t)
	b := second(t, a)
	if _, err := driver.Create(t.Context(), a, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	const races = 1000
	for n := range races {
		var group sync.WaitGroup
		for i, s := range []*Store{a, b} {
			group.Go(func() {
				op := cairn.Op{Kind: cairn.OpAppend, Path: "/list", Items: []json.RawMessage{fmt.Append(nil, 2*n+i)}}
				if _, err := driver.MergeState(t.Context(), s, "session", op); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	raw, err := driver.State(t.Context(), a, "session", "")
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ List []int }
	if err := backend.DecodeJSON("state", string(raw), &state); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, n := range state.List {
		seen[n] = true
	}
	if len(state.List) != 2*races || len(seen) != 2*races {
		t.Errorf("%d updates came to %d, %d of them different", 2*races, len(state.List), len(seen))
	}
}

// A follower and a watcher continue after their connection was cut, and miss nothing that is stored.
func TestListenersOutliveTheirConnection(t *testing.T) {
	t.Parallel()
	s, p := throughProxy(t)
	writer := openAt(t, testenv.Redis(t), &s.opts)
	const total = 200
	got := make(chan int64)
	failed := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() {
		for ev, err := range s.log.Follow(t.Context(), "log", 0) {
			if err != nil {
				failed <- err
				return
			}
			got <- ev.Sequence
			if ev.Sequence == total {
				return
			}
		}
	})
	deadline := time.After(30 * time.Second)
	for n := int64(1); n <= total; n++ {
		if _, err := writer.log.Append(t.Context(), "log", n-1, cairn.Event{Type: cairn.EventTextDelta}); err != nil {
			t.Fatal(err)
		}
		select {
		case sequence := <-got:
			if sequence != n {
				t.Fatalf("event %d arrived, want %d", sequence, n)
			}
		case err := <-failed:
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("event %d does not arrive", n)
		}
		if n%20 == 0 {
			p.cutAll()
		}
	}
	group.Wait()
}
