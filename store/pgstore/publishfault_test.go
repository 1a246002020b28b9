package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// TestFaultsOfEvents makes each internal write of commits that append events in several statements fail: the log has the
// events if and only if the commit was written.
func TestFaultsOfEvents(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	own := ownTable(t, s, "(n int)")
	taking := func(id string) *driver.Commit {
		return &driver.Commit{Messages: stepMessages("run"), Events: eventsOf(id, "one", "two"), Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}}
	}
	three := func(t *testing.T, id string) *cairn.Session {
		st := newStepper(t, s, id, nil)
		for range 3 {
			if err := st.step(); err != nil {
				t.Fatal(err)
			}
		}
		return st.row
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, id string) *cairn.Session
		write   func(id string) (*cairn.Session, error)
	}{
		"a log that is missing": {three, func(id string) (*cairn.Session, error) { return s.Commit(t.Context(), id, taking(id)) }},
		"rewind": {three, func(id string) (*cairn.Session, error) {
			c := taking(id)
			c.Rewind = "cp-1"
			return s.Commit(t.Context(), id, c)
		}},
		"statements": {three, func(id string) (*cairn.Session, error) {
			c := taking(id)
			c.Statements = []driver.Statement{{Dialect: dialect, SQL: "INSERT INTO " + own + " VALUES (1)"}}
			return s.Commit(t.Context(), id, c)
		}},
		"branch": {nil, func(id string) (*cairn.Session, error) {
			return s.Branch(t.Context(), "source", driver.BranchPoint{Events: eventsOf(id, "one", "two")}, &cairn.Session{ID: id, Agent: "support"})
		}},
		"creation": {nil, func(id string) (*cairn.Session, error) {
			c := taking(id)
			c.Guard, c.Create = driver.Guard{New: true}, &cairn.Session{Agent: "support"}
			return s.Commit(t.Context(), id, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "branch" {
				three(t, "source")
			}
			for n, failed := 1, true; failed; n++ {
				id := fmt.Sprintf("%s %d", name, n)
				var before *cairn.Session
				if c.prepare != nil {
					before = c.prepare(t, id)
				}
				disarm := failNth(t, s, n)
				row, err := c.write(id)
				if failed = disarm(); err != nil {
					if now, gone := driver.Load(t.Context(), s, id); before != nil && (gone != nil || now.Version != before.Version || now.LogSequence != 0) || before == nil && !errors.Is(gone, cairn.ErrNotFound) {
						t.Fatalf("after the failure of write %d there is %+v, %v", n, now, gone)
					}
					if before != nil {
						wantLog(t, s, before, "")
					}
					row = must(c.write(id))
				}
				wantLog(t, s, row, "one two")
				if row.LogSequence != 2 || must(driver.Load(t.Context(), s, id)).LogSequence != 2 {
					t.Errorf("the row is at %d, want 2", row.LogSequence)
				}
			}
		})
	}
}

// The answer to a commit with events is lost, and its followers see them all the same, once.
func TestLostAnswerWithEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]fate{"before": cutBefore, "after": cutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, wire := throughProxy(t, Options{PollInterval: time.Hour})
			other := openAt(t, testenv.FastPostgres(t), &s.opts)
			st := newStepper(t, s, "session", nil)
			const steps = 13 // with the end of a run and the beginning of the next
			var following sync.WaitGroup
			for _, on := range []*Store{s, other} {
				following.Go(func() {
					n := int64(0)
					for ev, err := range on.log.Follow(t.Context(), st.row.Log(), 0) {
						if err != nil || ev.Sequence != n+1 {
							t.Errorf("event %d after %d: %v", ev.Sequence, n, err)
							return
						}
						if n++; n == 2*steps {
							return
						}
					}
				})
			}
			for range steps {
				wire.plan(func(n int64) fate {
					if n == 1 {
						return c
					}
					return pass
				})
				if err := st.publish(); err != nil {
					t.Fatal(err)
				}
			}
			following.Wait()
			wantPublished(t, s, st.row, st)
			wantSteps(t, s, "session", steps)
		})
	}
}

// The answer to a commit that cannot be repeated is lost: its followers here look whether the log has its events.
func TestUnknownOutcomeWithEvents(t *testing.T) {
	t.Parallel()
	s, wire := throughProxy(t, Options{PollInterval: time.Hour})
	direct := openAt(t, testenv.FastPostgres(t), &s.opts)
	st := newStepper(t, s, "session", nil)
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string)
	var following sync.WaitGroup
	following.Go(func() {
		for ev, err := range s.log.Follow(ctx, st.row.Log(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			seen <- ev.Name
		}
	})
	commit := func(name string) error {
		_, err := s.Commit(t.Context(), "session", &driver.Commit{Events: eventsOf("session", name)})
		return err
	}
	want := func(name string) {
		t.Helper()
		if got := <-seen; got != name {
			t.Fatalf("event %q follows, want %q", got, name)
		}
	}
	for n := 0; ; n++ { // until the request that is cut is that of the commit
		name := fmt.Sprint("commit ", n)
		if err := commit(name); err != nil { // prepares the statement
			t.Fatal(err)
		}
		want(name)
		wire.plan(func(n int64) fate { return []fate{cutAfter, pass}[min(n, 2)-1] })
		err := commit("lost")
		wire.plan(nil)
		written := strings.HasSuffix(logged(t, direct, st.row), "lost")
		if written {
			want("lost")
		}
		if err != nil && !errors.Is(err, cairn.ErrUnavailable) {
			t.Fatal(err)
		}
		if err != nil && written {
			break
		}
	}
	cancel()
	following.Wait()
}
