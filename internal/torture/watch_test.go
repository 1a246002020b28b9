package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// forgetful is a store that omits a session from Due.
type forgetful struct {
	driver.Store
	hidden string
}

func (s *forgetful) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	page, err := s.Store.Due(ctx, q)
	page.Items = slices.DeleteFunc(page.Items, func(d driver.Due) bool { return d.SessionID == s.hidden })
	return page, err
}

// abandoned returns a store with a session whose run has begun, and its fencing token.
func abandoned(t *testing.T, owner string, ttl time.Duration) (driver.Store, int64) {
	t.Helper()
	st := memstore.New(nil)
	row, err := st.Commit(t.Context(), "session", &driver.Commit{
		Create: &cairn.Session{Agent: "agent"}, StartRun: &cairn.Run{ID: "run", Agent: "agent"}, Status: cairn.SessionActive,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: owner, TTL: ttl},
	})
	if err != nil {
		t.Fatal(err)
	}
	return st, row.Lease.Token
}

// questioned runs the checks on a store and returns the problems.
func questioned(t *testing.T, w *watch) string {
	t.Helper()
	list := w.ask(t.Context(), time.Time{})
	return join(list, func(err error) string { return err.Error() })
}

// The checks find released sessions, and sessions whose lease has lapsed.
func TestWhatIsNotDueIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, token := abandoned(t, "p", time.Second)
		hour := func() time.Duration { return time.Hour }
		sound := &watch{st: st, idle: hour}
		blind := &watch{st: &forgetful{st, "session"}, idle: hour}
		if wrong := questioned(t, sound) + questioned(t, blind); wrong != "" {
			t.Fatalf("while its lease is good: %s", wrong)
		}
		testclock.Advance(2 * time.Second)
		if wrong := questioned(t, sound); wrong != "" {
			t.Fatal(wrong)
		}
		if wrong := questioned(t, blind); !strings.Contains(wrong, "is not due") {
			t.Fatalf("a lease that ran out: %q", wrong)
		}
		release := &driver.Commit{Guard: driver.Guard{Token: token}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}}
		if _, err := st.Commit(t.Context(), "session", release); err != nil {
			t.Fatal(err)
		}
		if wrong := questioned(t, sound); wrong != "" {
			t.Fatal(wrong)
		}
		if wrong := questioned(t, blind); !strings.Contains(wrong, "is not due") {
			t.Fatalf("a session that was let go: %q", wrong)
		}
	})
}

// A session that no process claims is found in the end. A session that is claimed repeatedly is not.
func TestWhatStaysActiveIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, _ := abandoned(t, "p", time.Second)
		w := &watch{st: st, idle: func() time.Duration { return time.Minute }}
		testclock.Advance(2 * time.Second)
		for range 3 {
			if wrong := questioned(t, w); wrong != "" {
				t.Fatal(wrong)
			}
			testclock.Advance(50 * time.Second)
			take := &driver.Commit{Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "q", TTL: time.Millisecond}}
			if _, err := st.Commit(t.Context(), "session", take); err != nil {
				t.Fatal(err)
			}
			testclock.Advance(time.Second)
		}
		if wrong := questioned(t, w); wrong != "" {
			t.Fatal(wrong)
		}
		testclock.Advance(2 * time.Minute)
		if wrong := questioned(t, w); !strings.Contains(wrong, "active without a lease") {
			t.Fatalf("nobody has taken it on for two minutes: %q", wrong)
		}
	})
}

// No worker runs, so a session without a lease stays without one.
func TestWhatIsNotTakenOnIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, _ := abandoned(t, "p", time.Second)
		w := &watch{st: st}
		if err := w.taken(t.Context(), time.Minute); err != nil {
			t.Fatalf("while its lease is good: %v", err)
		}
		testclock.Advance(2 * time.Second)
		since := time.Now()
		if err := w.taken(t.Context(), time.Minute); err == nil {
			t.Error("a session without a lease is taken for one that is driven")
		}
		if took := time.Since(since); took > 2*time.Minute {
			t.Errorf("it was found after %v", took)
		}
	})
}

// Sessions are taken on one after the other, and the first is without a lease again when the second is taken on.
func TestSessionsAreTakenOnOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, token := abandoned(t, "p", time.Second)
		second, err := st.Commit(t.Context(), "second", &driver.Commit{
			Create: &cairn.Session{Agent: "agent"}, StartRun: &cairn.Run{ID: "run2", Agent: "agent"}, Status: cairn.SessionActive,
			Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "p", TTL: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		testclock.Advance(2 * time.Second)
		taken := make(chan error)
		go func() { taken <- (&watch{st: st}).taken(t.Context(), time.Minute) }()
		for id, token := range map[string]int64{"session": token, "second": second.Lease.Token} {
			testclock.Advance(10 * time.Second)
			select {
			case err := <-taken:
				t.Fatalf("before %s is taken on: %v", id, err)
			default:
			}
			if _, err := st.Renew(t.Context(), id, token, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-taken; err != nil {
			t.Fatal(err)
		}
	})
}

// While a session gets somewhere, a worker may be busy with it, for an hour at most. A change that is no progress, like
// that of a run which is taken over again and again, does not count.
func TestWhatProgressesIsWaitedFor(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		change func(n int) *driver.Commit
		least  int // number of changes
	}{
		"messages": {func(n int) *driver.Commit {
			m := cairn.Context("news")
			m.ID = fmt.Sprint("m", n)
			return &driver.Commit{Messages: []cairn.Message{m}}
		}, 100},
		"a title": {func(n int) *driver.Commit {
			return &driver.Commit{Context: &driver.ContextChange{Title: new(fmt.Sprint(n))}}
		}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, _ := abandoned(t, "p", time.Second)
				testclock.Advance(2 * time.Second)
				taken := make(chan error, 1)
				go func() { taken <- (&watch{st: st}).taken(t.Context(), time.Minute) }()
				for n := range test.least + 10 {
					select {
					case err := <-taken:
						if n < test.least || err == nil {
							t.Fatalf("after %d changes: %v", n, err)
						}
						return
					default:
					}
					if _, err := driver.Update(t.Context(), st, "session", func(*cairn.Session) (*driver.Commit, error) {
						return test.change(n), nil
					}); err != nil {
						t.Fatal(err)
					}
					testclock.Advance(35 * time.Second)
				}
				t.Error("it is waited for without an end")
			})
		})
	}
}

func TestLeaseOfAClosedEngineIsFound(t *testing.T) {
	t.Parallel()
	st, _ := abandoned(t, "host:4711:engine", time.Hour)
	w := &watch{st: st}
	if err := w.left(t.Context(), 471); err != nil {
		t.Error(err)
	}
	if err := w.left(t.Context(), 4711); err == nil {
		t.Error("the lease that the process has was not found")
	}
}
