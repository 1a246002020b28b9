package pgstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// throughProxy opens a store behind a proxy.
func throughProxy(t *testing.T, opts Options) (*Store, *proxy) {
	t.Helper()
	wire := newProxy(t, testenv.FastPostgres(t))
	opts.Schema = newSchema()
	return openAt(t, wire.url(), &opts), wire
}

// wantSteps checks that each step of a session was committed once.
func wantSteps(t *testing.T, s *Store, id string, steps int) {
	t.Helper()
	snap, err := s.Read(t.Context(), id, driver.ToDrive(0))
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Checkpoints(t.Context(), id, driver.PageQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	row := snap.Session
	if len(snap.Messages) != 2*steps || row.MessageCount != 2*steps || len(page.Items) != steps || row.Version < int64(steps+1) ||
		row.Usage.ModelCalls != int64(steps) {
		t.Errorf("%d steps: %d messages, %d counted, %d checkpoints, version %d, %d model calls", steps, len(snap.Messages),
			row.MessageCount, len(page.Items), row.Version, row.Usage.ModelCalls)
	}
	for i, cp := range page.Items {
		if want := fmt.Sprintf("step-%d", i+1); cp.StepID != want {
			t.Errorf("checkpoint %d is of %s, want %s", i+1, cp.StepID, want)
		}
	}
}

// TestCutConnections cuts connections in the middle of commits, at any point: no step fails, and each is committed
// once.
func TestCutConnections(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			// A quarter of all requests is cut, those that connect included. However many tries that takes, no step
			// fails.
			s, wire := throughProxy(t, Options{SimpleProtocol: p.simple, RetryFor: 5 * time.Minute})
			const writers, steps = 12, 30 // so that some go together
			root := newStepper(t, s, "root", nil).row
			steppers := make([]*stepper, writers)
			for i := range steppers {
				steppers[i] = newChild(t, s, fmt.Sprint("session-", i), []*cairn.Session{nil, root}[i%2])
			}
			fates := []fate{cutBefore, cutAfter, cutWithout}
			wire.plan(func(n int64) fate {
				if rand.IntN(4) == 0 {
					return fates[rand.IntN(len(fates))]
				}
				return pass
			})
			errs := make([]error, writers)
			var group sync.WaitGroup
			for i, st := range steppers {
				group.Go(func() {
					for range steps {
						if errs[i] = st.publish(); errs[i] != nil {
							return
						}
					}
				})
			}
			group.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			wire.plan(nil)
			for _, st := range steppers {
				wantSteps(t, s, st.row.ID, steps)
				wantPublished(t, s, st.row, st)
			}
		})
	}
}

// TestLostAnswer cuts the connection at each request of each kind of write in turn. Idempotent writes are retried. For
// the others the caller gets an error, and the write was applied once or not at all.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fate fate
		// messages after an append of one message that has nothing to be known by
		unkeyed int
	}{"before": {cutBefore, 0}, "after": {cutAfter, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, wire := throughProxy(t, Options{})
			s.notifier.close() // its requests are not among those counted
			first := func(n int64) fate {
				if n == 1 {
					return c.fate
				}
				return pass
			}
			keyed := newStepper(t, s, "keyed", nil)
			for range 3 { // begin, and steps whose statement is known to the connection or not
				wire.plan(first)
				if err := keyed.step(); err != nil {
					t.Errorf("a step: %v", err)
				}
			}
			wire.plan(nil)
			wantSteps(t, s, "keyed", 3)

			row := newStepper(t, s, "unkeyed", nil).row
			message := &driver.Commit{Messages: []cairn.Message{cairn.User(cairn.TextPart("once"))}}
			warm(t, s, message)
			wire.plan(first)
			_, err := s.Commit(t.Context(), row.ID, message)
			if !errors.Is(err, cairn.ErrUnavailable) {
				t.Errorf("a commit with no key: error %v, want ErrUnavailable", err)
			}
			wire.plan(nil)
			if got := len(must(driver.Messages(t.Context(), s, row.ID, 0, 0))); got != c.unkeyed {
				t.Errorf("%d messages of a commit with no key, want %d", got, c.unkeyed)
			}

			token := keyed.row.Lease.Token
			wire.plan(first)
			if err := s.Stage(t.Context(), "keyed", token, driver.Staged{StepID: "step", Key: "key", Data: []byte("1")}); err != nil {
				t.Errorf("staging: %v", err)
			}
			wire.plan(first)
			if _, err := s.Renew(t.Context(), "keyed", token, time.Hour); err != nil {
				t.Errorf("renewing: %v", err)
			}
			wire.plan(first)
			if err := s.RequestStop(t.Context(), "keyed", cairn.Stop{RunID: "run-0", Kind: cairn.StopInterrupt}); err != nil {
				t.Errorf("requesting a stop: %v", err)
			}
			w := driver.Writer{Session: "keyed", Token: token, ID: "writer"}
			for w.Batch = range int64(4) { // the first is to an unknown log and has no number, but no events either
				events := slices.Repeat([]cairn.Event{{Type: cairn.EventTextDelta}}, int(w.Batch))
				wire.plan(first)
				if last, err := s.log.AppendFenced(t.Context(), "keyed", driver.AnySequence, w, events...); err != nil || last != w.Batch*(w.Batch+1)/2 {
					t.Errorf("appending batch %d ends at %d: %v", w.Batch, last, err)
				}
			}
			wire.plan(first)
			if got := must(driver.StagedOf(t.Context(), s, "keyed", "")); len(got) != 1 {
				t.Errorf("%d pieces are staged", len(got))
			}
		})
	}
}

// warm makes every connection of the pool prepare the statement of a commit, by using it on a session of its own.
func warm(t *testing.T, s *Store, c *driver.Commit) {
	t.Helper()
	row := newStepper(t, s, "warm", nil).row
	if _, err := s.Commit(t.Context(), row.ID, c); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestServerCrash kills the server under writers and restarts it: no step fails, and each is committed once.
func TestServerCrash(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	s := openAt(t, server.URL(), &Options{RetryFor: time.Minute})
	const writers, crashes = 4, 3
	stop := make(chan struct{})
	steppers := make([]*stepper, writers)
	errs := make([]error, writers)
	progress := make(chan struct{}, 1)
	var group sync.WaitGroup
	root := newStepper(t, s, "root", nil).row
	for i := range steppers {
		st := newChild(t, s, fmt.Sprint("session-", i), []*cairn.Session{nil, root}[i%2])
		steppers[i] = st
		group.Go(func() {
			for {
				if errs[i] = st.publish(); errs[i] != nil {
					return
				}
				select {
				case progress <- struct{}{}:
				default:
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range crashes {
		for range 50 {
			<-progress
		}
		server.Kill()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	<-progress
	close(stop)
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, st := range steppers {
		wantSteps(t, s, st.row.ID, st.n)
		wantPublished(t, s, st.row, st)
	}
}

// TestFailover promotes a replica when the server it follows is gone.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := testenv.NewPostgres(t)
	replica := primary.Replica(t)
	both := "postgres:///postgres?" + url.Values{"user": {"postgres"}, "host": {primary.Dir + "," + replica.Dir},
		"target_session_attrs": {"primary"}}.Encode()
	s := openAt(t, both, &Options{RetryFor: time.Minute})
	st := newStepper(t, s, "session", nil)
	for range 20 {
		if err := st.step(); err != nil {
			t.Fatal(err)
		}
	}
	waitForReplica(t, primary, replica)
	primary.Stop()
	promoted := make(chan error, 1)
	go func() { promoted <- execAt(t, replica.URL(), "SELECT pg_promote()::text") }()
	for range 20 {
		if err := st.step(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-promoted; err != nil {
		t.Fatal(err)
	}
	wantSteps(t, s, "session", 40)
}

// TestRetryEnds checks that retries end after RetryFor.
func TestRetryEnds(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	s := openAt(t, server.URL(), &Options{RetryFor: 50 * time.Millisecond})
	st := newStepper(t, s, "session", nil)
	server.Stop()
	if err := st.step(); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("a step without a server: error %v, want ErrUnavailable", err)
	}
	if _, err := driver.Load(t.Context(), s, "session"); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("a read without a server: error %v, want ErrUnavailable", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := st.step(); err != nil {
		t.Errorf("a step when the server is back: %v", err)
	}
	wantSteps(t, s, "session", 1)
}

// TestFollowThroughCuts follows a log that another process writes while the listening connection is cut repeatedly:
// every event arrives once and in order.
func TestFollowThroughCuts(t *testing.T) {
	t.Parallel()
	s, wire := throughProxy(t, Options{PollInterval: time.Hour})
	other := openAt(t, testenv.FastPostgres(t), &s.opts)
	const events = 200
	seen := make(chan int64, 1)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(seen)
	writing.Go(func() {
		for n := range seen { // the follower waits for the next one by the time that it is written
			if n%20 == 0 {
				wire.cutAll()
			}
			if _, err := other.log.Append(t.Context(), "log", driver.AnySequence, cairn.Event{Type: cairn.EventTextDelta}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	seen <- 0
	next := int64(1)
	for ev, err := range s.log.Follow(t.Context(), "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Sequence != next {
			t.Fatalf("event %d, want %d", ev.Sequence, next)
		}
		if next == events {
			break
		}
		seen <- next
		next++
	}
}
