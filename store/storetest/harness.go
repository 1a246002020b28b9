package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	agentName = "support"
	// patience is how long a test waits for something that must happen, even on a slow machine.
	patience = 2 * time.Minute
	// brief is the TTL of a lease that must lapse in a test.
	brief = time.Millisecond
)

// harness is one test's store with the verbs that tests are written in.
type harness struct {
	*testing.T
	st     driver.Store
	open   OpenStore // opens further stores
	opts   *Options
	serial *atomic.Int64 // shared by all harnesses of a test
	logs   *sync.Map     // log names by root, shared by all harnesses of a test
}

// on returns a harness for another handle on the same data.
func (h *harness) on(st driver.Store) *harness {
	return &harness{T: h.T, st: st, open: h.open, opts: h.opts, serial: h.serial, logs: h.logs}
}

// log returns the name of a root's event log. A store that has a copy of the tree uses the same name.
func (h *harness) log(root string) string {
	h.Helper()
	if s, err := driver.Load(h.Context(), h.st, root); err == nil {
		h.logs.Store(root, s.Log())
		return s.Log()
	}
	if name, ok := h.logs.Load(root); ok {
		return name.(string)
	}
	return root
}

// sweeper returns the store as a Sweeper. Only tests that need one call it.
func (h *harness) sweeper() driver.Sweeper { return h.st.(driver.Sweeper) }

// must fails the test on an error.
func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// create makes a session of the suite's agent that begins with an empty state.
func (h *harness) create(id string) *cairn.Session { return h.createWith(id, "") }

func (h *harness) createWith(id, state string) *cairn.Session {
	h.Helper()
	tick()
	s, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: agentName}, []byte(state))
	if err != nil {
		h.Fatalf("create %q: %v", id, err)
	}
	return s
}

func (h *harness) commit(id string, c *driver.Commit) *cairn.Session {
	h.Helper()
	tick()
	s, err := h.st.Commit(h.Context(), id, c)
	if err != nil {
		h.Fatalf("commit to %q: %v", id, err)
	}
	return s
}

// grew fails the test unless row was written after before.
func (h *harness) grew(row, before *cairn.Session) {
	h.Helper()
	if row.Version <= before.Version {
		h.Fatalf("session %q has version %d after %d", row.ID, row.Version, before.Version)
	}
}

// tick waits until the clock shows another microsecond, the precision that stores keep, so that consecutive writes have
// times in their order. A store in memory may be faster than that.
func tick() {
	for now := time.Now().UnixMicro(); time.Now().UnixMicro() == now; {
		runtime.Gosched()
	}
}

func (h *harness) load(id string) *cairn.Session {
	h.Helper()
	s, err := driver.Load(h.Context(), h.st, id)
	if err != nil {
		h.Fatalf("load %q: %v", id, err)
	}
	return s
}

// newID returns an identifier that is unique in this test.
func (h *harness) newID(prefix string) string { return fmt.Sprintf("%s-%d", prefix, h.serial.Add(1)) }

// beginCommit returns the commit that begins a run on a session that is not active.
func beginCommit(runID, owner string, ttl time.Duration) *driver.Commit {
	return &driver.Commit{
		Guard:    driver.Guard{Idle: true},
		StartRun: &cairn.Run{ID: runID, Agent: agentName, Kind: cairn.RunExecute, Status: cairn.RunRunning},
		Messages: []cairn.Message{cairn.User(cairn.TextPart("question of " + runID))},
		Status:   cairn.SessionActive,
		Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: owner, TTL: ttl},
	}
}

// begin begins a run that holds a valid lease.
func (h *harness) begin(id, runID string) *cairn.Session {
	h.Helper()
	return h.commit(id, beginCommit(runID, "worker", time.Hour))
}

// stepCommit returns the commit of a step of the run that holds s: one message with a text, and one checkpoint.
func (h *harness) stepCommit(s *cairn.Session, text string) *driver.Commit {
	id := h.newID("checkpoint-of-" + s.ID)
	return &driver.Commit{
		Guard:      driver.Guard{Token: s.Lease.Token, Version: s.Version},
		Messages:   []cairn.Message{{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(text)}, RunID: s.RunID}},
		Step:       s.Step + 1,
		Checkpoint: &cairn.Checkpoint{ID: id, RunID: s.RunID, StepID: "step-of-" + id, Step: s.Step + 1},
	}
}

func (h *harness) step(s *cairn.Session, text string) *cairn.Session {
	h.Helper()
	return h.commit(s.ID, h.stepCommit(s, text))
}

// stepState commits a step that also changes state.
func (h *harness) stepState(s *cairn.Session, text string, list ...cairn.Op) *cairn.Session {
	h.Helper()
	c := h.stepCommit(s, text)
	c.State = h.change(s, list...)
	return h.commit(s.ID, c)
}

// change returns a state change, with a keyframe if one is due.
func (h *harness) change(s *cairn.Session, list ...cairn.Op) *driver.StateChange {
	h.Helper()
	change, err := driver.NewStateChange(s.State, h.state(s.ID, ""), list)
	h.must(err)
	return change
}

func endCommit(s *cairn.Session) *driver.Commit {
	return &driver.Commit{
		Guard: driver.Guard{Token: s.Lease.Token},
		EndRun: &cairn.Run{ID: s.RunID, Agent: s.Agent, Kind: cairn.RunExecute, Status: cairn.RunCompleted,
			Reason: cairn.ReasonReply, Steps: s.Step},
		Status: cairn.SessionCompleted,
		Lease:  driver.LeaseChange{Action: driver.LeaseRelease},
	}
}

// end completes the run that holds s.
func (h *harness) end(s *cairn.Session) *cairn.Session {
	h.Helper()
	return h.commit(s.ID, endCommit(s))
}

// crash makes a session whose run is held by a process that died. It returns once the session is due.
func (h *harness) crash(id, runID string) *cairn.Session {
	h.Helper()
	h.create(id)
	h.commit(id, beginCommit(runID, "dead worker", brief))
	h.awaitDue(id)
	return h.load(id)
}

func (h *harness) awaitDue(id string) driver.Due {
	h.Helper()
	var found driver.Due
	testclock.Await(h.T, "the session "+id+" to be due", func() bool {
		for _, due := range h.due(1000) {
			if due.SessionID == id {
				found = due
				return true
			}
		}
		return false
	})
	return found
}

// wantError checks that err is a *cairn.Error with the sentinel's code.
func (h *harness) wantError(err error, want cairn.Code, what string) {
	h.Helper()
	wantError(h.T, err, want, what)
}

func wantError(t *testing.T, err error, want cairn.Code, what string) {
	t.Helper()
	var e *cairn.Error
	switch {
	case err == nil:
		t.Fatalf("%s: no error, want %q", what, want)
	case !errors.Is(err, want):
		t.Fatalf("%s: error %q, want one of code %q", what, err, want)
	case !errors.As(err, &e):
		t.Fatalf("%s: error %q is not a *cairn.Error", what, err)
	}
}

// wantConflict checks that err is a ConflictError with the sentinel's code, and returns the row that it saw.
func (h *harness) wantConflict(err error, want cairn.Code, what string) *cairn.Session {
	h.Helper()
	h.wantError(err, want, what)
	var c *driver.ConflictError
	if !errors.As(err, &c) {
		h.Fatalf("%s: error %q is not a *driver.ConflictError", what, err)
	}
	seen := driver.Seen(err)
	if seen == nil {
		h.Fatalf("%s: the conflict does not say which row the store saw", what)
	}
	return seen
}

// race calls fn(0) … fn(n-1) concurrently and returns their errors.
func race(n int, fn func(i int) error) []error {
	start := make(chan struct{})
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	group.Wait()
	return errs
}

// oneWins checks that exactly one racer had no error and all others a conflict of the given code, and returns the
// winner and the rows that the losers saw.
func (h *harness) oneWins(errs []error, lost cairn.Code) (winner int, seen []*cairn.Session) {
	h.Helper()
	winner = -1
	for i, err := range errs {
		switch {
		case err != nil:
			seen = append(seen, h.wantConflict(err, lost, fmt.Sprintf("writer %d of %d", i, len(errs))))
		case winner >= 0:
			h.Fatalf("writers %d and %d both won", winner, i)
		default:
			winner = i
		}
	}
	if winner < 0 {
		h.Fatalf("none of %d writers won", len(errs))
	}
	return winner, seen
}

func (h *harness) rounds(n int) int    { return rounds(n, h.opts.Brief) }
func (h *logHarness) rounds(n int) int { return rounds(n, h.opts.Brief) }

// rounds is how often a race runs: n times, or a tenth of that if brief is set.
func rounds(n int, brief bool) int {
	if brief || testing.Short() {
		return max(n/10, 1)
	}
	return n
}
