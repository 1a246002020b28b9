package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A stop of the caller stops the agent on the other server, whether it works or is suspended. So does a new turn.
func TestRemoteAgentIsStopped(t *testing.T) {
	t.Parallel()
	stopped := func(c *callee) {
		testclock.Await(t, "it to be interrupted", func() bool { return c.only("sage").Status == cairn.SessionInterrupted })
	}
	t.Run("at work", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Reply(scripted.Text("Half "), scripted.Gate(make(chan struct{}))))})
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		run := ask(t, eng)
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == cairn.EventTextDelta {
				break
			}
		}
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		came(t, run, cairn.RunInterrupted)
		stopped(c)
	})
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, asking())
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		came(t, ask(t, eng), cairn.RunSuspended)
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		stopped(c)
	})
	t.Run("another turn", func(t *testing.T) {
		t.Parallel()
		c := newCallee(t, asking())
		eng := caller(t, memstore.New(nil), asks(c.remote("sage")))
		came(t, ask(t, eng), cairn.RunSuspended)
		if _, err := eng.Execute(t.Context(), "s", "boss", cairn.Text("again"), engine.WithOnWaiting(engine.WaitingWithdraw)); err != nil {
			t.Fatal(err)
		}
		testclock.Await(t, "one session to be interrupted", func() bool {
			page, err := c.eng.Sessions(t.Context(), store.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionInterrupted}})
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Items) == 1
		})
	})
}

// spoken returns once a run's remote agent has said something.
func spoken(t *testing.T, run *engine.Run) {
	t.Helper()
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == cairn.EventTextDelta && ev.Agent == "sage" {
			return
		}
	}
}

// approved approves what the session waits for and resumes it.
func approved(t *testing.T, eng *engine.Engine, res *cairn.Result) *engine.Run {
	t.Helper()
	for _, call := range res.Suspended.Calls {
		if _, err := eng.Submit(t.Context(), "s", cairn.Approve(call)); err != nil {
			t.Fatal(err)
		}
	}
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// speaking is an agent that speaks without end.
func speaking() *cairn.Agent {
	return &cairn.Agent{Name: "sage", Model: scripted.New(scripted.Reply(scripted.Text("Half "), scripted.Gate(make(chan struct{}))))}
}

// pendingStops returns the number of stops in a caller's store that are still owed.
func pendingStops(t *testing.T, st *memstore.Store) int {
	t.Helper()
	page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: driver.StopRecords})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range page.Items {
		if strings.Contains(string(rec.Value), calleeToken) {
			t.Errorf("the token is in %s", rec.Value)
		}
	}
	return len(page.Items)
}

// A stop that the other server does not receive, because it is down, is delivered later by whichever process of the
// caller is working then. After rejected credentials it stays owed as well. The run there is stopped, and none of
// it is stored.
func TestRemoteAgentIsStoppedLater(t *testing.T) {
	t.Parallel()
	states := []struct {
		name  string
		agent func() *cairn.Agent
		until func(t *testing.T, run *engine.Run)
	}{
		{"at work", speaking, spoken},
		{"waiting", asking, func(t *testing.T, run *engine.Run) { came(t, run, cairn.RunSuspended) }},
	}
	for _, state := range states {
		for _, away := range []int{0, 401, 404, 502} { // 404 from a proxy
			t.Run(fmt.Sprint(state.name, "/", away), func(t *testing.T) {
				t.Parallel()
				c, st := newCallee(t, state.agent()), memstore.New(nil)
				other := c.remote("sage")
				first, err := engine.New(st, []*cairn.Agent{asks(other)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close(context.Background())
				run := ask(t, first)
				state.until(t, run)
				real := *c.handler.Load()
				c.away(away)
				if err := first.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				if err := first.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := pendingStops(t, st); n != 1 {
					t.Fatalf("%d stops are recorded", n)
				}
				if row := c.only("sage"); row.Status == cairn.SessionInterrupted {
					t.Fatal("it is stopped already")
				}
				second := caller(t, st, asks(other))
				ctx, cancel := context.WithCancel(t.Context())
				worked := make(chan error, 1)
				go func() { worked <- second.Work(ctx) }()
				c.handler.Store(&real)
				testclock.Await(t, "the stop to be delivered", func() bool { return pendingStops(t, st) == 0 })
				if row := c.only("sage"); row.Status != cairn.SessionInterrupted {
					t.Errorf("it is %s", row.Status)
				}
				cancel()
				if err := <-worked; err != nil {
					t.Error(err)
				}
			})
		}
	}
}
