package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// TestOneStatementAndOneRoundTrip counts what a turn sends: one statement and one request per write, n + 1 for n steps.
// It ignores the first turns, in which statements are prepared.
func TestOneStatementAndOneRoundTrip(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			wire := newProxy(t, testenv.FastPostgres(t))
			s := openAt(t, wire.url()+"&pool_max_conns=1", &Options{Schema: newSchema(), SimpleProtocol: p.simple})
			const warm, turns, steps = 2, 10, 5
			var requests, executes int64
			for n := range warm + turns {
				if n == warm {
					requests, executes = wire.requests.Load(), wire.executes.Load()
				}
				turn(t, s, fmt.Sprint("run-", n), steps)
			}
			const want = turns * (steps + 1)
			if got := wire.requests.Load() - requests; got != want {
				t.Errorf("%d requests for %d turns of %d steps, want %d", got, turns, steps, want)
			}
			if got := wire.executes.Load() - executes; got != want {
				t.Errorf("%d statements for %d turns of %d steps, want %d", got, turns, steps, want)
			}
		})
	}
}

// turn is a turn as an engine writes it: a begin that may create the session, steps with state, a call that waits in
// one of them, and a last step that ends the run.
func turn(t *testing.T, s *Store, runID string, steps int) {
	t.Helper()
	row := commit(t, s, &driver.Commit{Guard: driver.Guard{Idle: true, Agent: "support"}, Create: &cairn.Session{Agent: "support"},
		StartRun: &cairn.Run{ID: runID, Agent: "support", Status: cairn.RunRunning}, Status: cairn.SessionActive,
		Messages: []cairn.Message{cairn.User(cairn.TextPart("question"))},
		Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}})
	for n := range steps {
		id := fmt.Sprint(runID, "-", n)
		c := &driver.Commit{Guard: driver.Guard{Token: row.Lease.Token, Version: row.Version}, Step: n + 1, DropStaged: true,
			Messages:   stepMessages(runID),
			State:      &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: []byte("1")}}},
			Checkpoint: &cairn.Checkpoint{ID: "cp-" + id, StepID: "step-" + id, RunID: runID, Step: n + 1},
			Usage:      cairn.Usage{ModelCalls: 1, Custom: map[string]float64{"cost": 0.1}},
			Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Hour}}
		switch n {
		case 1:
			c.Suspend = &driver.Suspend{StepID: "step-" + id, OpenCalls: 1}
			c.Calls = []driver.CallWrite{{Call: openCall(id)}}
		case 2:
			answered := openCall(fmt.Sprint(runID, "-", 1))
			answered.Status = cairn.CallSettled
			c.Suspend = &driver.Suspend{}
			c.Calls = []driver.CallWrite{{Call: answered, Seen: 1}}
			c.Cache = []driver.CacheEntry{{Key: "key", Tool: "refund", Output: []byte("1")}}
		case steps - 1:
			c.EndRun = &cairn.Run{ID: runID, Agent: "support", Status: cairn.RunCompleted}
			c.Status, c.Lease = cairn.SessionCompleted, driver.LeaseChange{Action: driver.LeaseRelease}
		}
		row = commit(t, s, c)
	}
}

func openCall(id string) cairn.PendingCall {
	return cairn.PendingCall{CallRef: cairn.CallRef{ID: "call-" + id, Kind: cairn.CallApproval, Tool: "refund", Reviewers: []string{"ann", "bob"}},
		StepID: "step-" + id, Status: cairn.CallOpen}
}

func commit(t *testing.T, s *Store, c *driver.Commit) *cairn.Session {
	t.Helper()
	row, err := s.Commit(t.Context(), "session", c)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestAppendIsOneRoundTrip counts what appends to an existing log send, without the notifications of other processes.
func TestAppendIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	wire := newProxy(t, testenv.FastPostgres(t))
	s := openAt(t, wire.url()+"&pool_max_conns=1", &Options{Schema: newSchema()})
	s.notifier.close()
	ev := cairn.Event{Type: cairn.EventTextDelta, Text: "words"}
	appendOne := func() {
		if _, err := s.log.AppendFenced(t.Context(), "log", driver.AnySequence, driver.Writer{Session: "session", Token: 1}, ev, ev); err != nil {
			t.Fatal(err)
		}
	}
	appendOne()
	before := wire.requests.Load()
	for range 10 {
		appendOne()
	}
	if got := wire.requests.Load() - before; got != 10 {
		t.Errorf("%d requests for 10 appends", got)
	}
}

// TestSnapshotIsOneRoundTrip counts what a cold process sends to continue a session.
func TestSnapshotIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	wire := newProxy(t, testenv.FastPostgres(t))
	s := openAt(t, wire.url()+"&pool_max_conns=1", &Options{Schema: newSchema()})
	turn(t, s, "run", 5)
	for n := range 3 {
		before := wire.requests.Load()
		if _, err := s.Read(t.Context(), "session", driver.ToDrive(0)); err != nil {
			t.Fatal(err)
		}
		if got := wire.requests.Load() - before; n > 0 && got != 1 {
			t.Errorf("%d requests for a snapshot", got)
		}
	}
}
