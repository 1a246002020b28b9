package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// clockOff gives an engine a clock that is off by a duration.
func clockOff(by time.Duration) option {
	return with(func(o *engine.Options) { o.Now = func() time.Time { return time.Now().Add(by) } })
}

// wrong holds the offsets of processes' clocks. The store's clock is another one.
var wrong = []time.Duration{0, time.Hour, -time.Hour, 31 * time.Second, -31 * time.Second}

// onEachClock runs a test with each wrong clock.
func onEachClock(t *testing.T, fn func(t *testing.T, clock option)) {
	for _, by := range wrong {
		t.Run(fmt.Sprint(by), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { fn(t, clockOff(by)) }) })
	}
}

// asking is an agent that calls a client tool with a deadline of ten minutes.
func asking(steps ...scripted.Step) *cairn.Agent {
	return bot(scripted.New(append([]scripted.Step{scripted.Call("ask", in{"?"})}, steps...)...),
		cairn.ClientTool[in, string]("ask", "Asks.", cairn.WaitAtMost(10*time.Minute)))
}

func TestDeadlineIsTheStores(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st := tapOn(nil)
		call := turn(t, open(t, st, asking(), clock), "s", "go").Suspended.Calls[0]
		want := time.Now().Add(10 * time.Minute)
		row, kept := load(t, st, "s"), rowOf(t, st, call)
		if !row.NextDeadline.Equal(want) || !kept.Deadline.Equal(want) {
			t.Errorf("the deadline of the row is %v, that of the call %v, want %v", row.NextDeadline, kept.Deadline, want)
		}
		for _, ev := range history(t, st, "s") {
			if ev.Type == cairn.EventToolPending && !ev.Deadline.Equal(want) {
				t.Errorf("the event tells of %v, want %v", ev.Deadline, want)
			}
			if late := time.Since(ev.Time); late < 0 || late > time.Second {
				t.Errorf("%s is said to be of %v, which is %v ago", ev.Type, ev.Time, late)
			}
		}
		for _, m := range messages(t, st, "s") {
			if late := time.Since(m.CreatedAt); late < 0 || late > time.Second {
				t.Errorf("message %s is said to be of %v, which is %v ago", m.ID, m.CreatedAt, late)
			}
		}
		testclock.Advance(10*time.Minute - time.Second)
		if due := dueOf(t, st); len(due) > 0 {
			t.Errorf("due before the deadline: %+v", due)
		}
		testclock.Advance(time.Second)
		if due := dueOf(t, st); len(due) != 1 || due[0].Kind != store.DueDeadline {
			t.Errorf("due at the deadline: %+v", due)
		}
	})
}

func TestAnswerIsLateByTheStoresClock(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		want  cairn.Outcome
	}{"in time": {10*time.Minute - time.Second, cairn.OutcomeAccepted}, "late": {10 * time.Minute, cairn.OutcomeLate}} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, clock option) {
				st := tapOn(nil)
				call := turn(t, open(t, st, asking()), "s", "go").Suspended.Calls[0]
				testclock.Advance(test.after)
				receipt, err := open(t, st, asking(), named("b"), clock).Submit(t.Context(), "s", cairn.Answer(call, "yes"))
				if err != nil || receipt.Outcome != test.want {
					t.Errorf("the answer is %s, %v, want %s", receipt.Outcome, err, test.want)
				}
			})
		})
	}
}

// A claim lasts as long as requested, whatever the process's clock.
func TestClaimLastsByTheStoresClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st := tapOn(nil)
		eng := open(t, st, asking(), clock)
		call := turn(t, eng, "s", "go").Suspended.Calls[0]
		claimed, err := eng.Claim(t.Context(), "s", call.ID, "ann", time.Minute)
		if err != nil || !claimed.ClaimedUntil.Equal(time.Now().Add(time.Minute)) {
			t.Fatalf("claimed until %v, %v", claimed.ClaimedUntil, err)
		}
		testclock.Advance(time.Minute - time.Second)
		_, err = eng.Claim(t.Context(), "s", call.ID, "bob", time.Minute)
		wantError(t, err, cairn.ErrClaimed)
		testclock.Advance(time.Second)
		if _, err = eng.Claim(t.Context(), "s", call.ID, "bob", time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// A session that waits can be resumed only after its deadline.
func TestResumeWaitsForTheStoresClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st := tapOn(nil)
		call := turn(t, open(t, st, asking()), "s", "go").Suspended.Calls[0]
		other := open(t, st, bot(scripted.New(scripted.Text("too late")), asking().Tools...), named("b"), clock)
		testclock.Advance(10*time.Minute - time.Second)
		_, err := other.Resume(t.Context(), "s")
		wantError(t, err, cairn.ErrNotResumable)
		if can, err := other.CanResume(t.Context(), "s"); err != nil || can.Resume {
			t.Errorf("before the deadline: %+v, %v", can, err)
		}
		testclock.Advance(time.Second)
		run, err := other.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		if c := rowOf(t, st, call); c.Answer.Kind != cairn.DecisionTimeout {
			t.Errorf("the call is %s, %s", c.Status, c.Answer.Kind)
		}
	})
}

// A process's clock may suggest that the lease of another process's run has lapsed, or that a dead one's has not.
func TestEnqueueByTheStoresClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st := tapOn(nil)
		first := start(t, open(t, st, bot(scripted.New(scripted.Reply(scripted.Pause(5*time.Second), scripted.Text("one"))))), "s", "one")
		theirs := tapOn(st.Store)
		other := open(t, theirs, bot(scripted.New(scripted.Text("two"))), named("b"), clock)
		run, err := other.Execute(t.Context(), "s", "bot", cairn.Text("two"), engine.WithOnBusy(engine.BusyEnqueue))
		if err != nil {
			t.Fatal(err)
		}
		if calls := theirs.seen(); len(calls) > 6 {
			t.Errorf("it took %d calls of the store: %v", len(calls), calls)
		}
		if row := load(t, st, "s"); row.Queued != 1 {
			t.Errorf("%d turns are queued, want one", row.Queued)
		}
		wait(t, first)
		_ = run
	})
}

// A crashed run is taken over when its lease has lapsed by the store's clock, no sooner and no later.
func TestTakeoverByTheStoresClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st := tapOn(nil)
		dead := start(t, open(t, st, bot(scripted.New(scripted.Reply(scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease, clock), "s", "go")
		_, _ = dead.Wait(t.Context())
		other := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("done"))), shortLease, named("b"), clock)
		if row := load(t, st.Store, "s"); row.Running(row.AsOf) {
			_, err := other.Resume(t.Context(), "s")
			wantError(t, err, cairn.ErrAlreadyRunning)
			_, err = other.Execute(t.Context(), "s", "bot", cairn.Text("again"))
			wantError(t, err, cairn.ErrAlreadyRunning)
			testclock.Advance(time.Until(row.Lease.Until))
		}
		if can, err := other.CanResume(t.Context(), "s"); err != nil || !can.Resume {
			t.Errorf("after the lease: %+v, %v", can, err)
		}
		run, err := other.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	})
}

// A stop of a run whose process is dead ends the run when its lease has lapsed by the store's clock.
func TestStopByTheStoresClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st := tapOn(nil)
		start(t, open(t, st, bot(scripted.New(scripted.Reply(scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease), "s", "go")
		synctest.Wait()
		until := load(t, st.Store, "s").Lease.Until
		if err := open(t, tapOn(st.Store), bot(scripted.New()), named("b"), clock).Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(until); late < 0 || late > time.Second {
			t.Errorf("the run was ended %v after its lease", late)
		}
	})
}

// The age of a cached tool result is measured by the store's clock, whichever process looks.
func TestCacheByTheStoresClock(t *testing.T) {
	onEachClock(t, func(t *testing.T, clock option) {
		st, ran := tapOn(nil), 0
		lookUp := tool("look_up", func(context.Context, *cairn.Call, in) (string, error) { ran++; return "found", nil },
			cairn.Cache(cairn.CachePolicy{TTL: 10 * time.Minute}))
		asks := func() cairn.Model { return scripted.New(scripted.Call("look_up", in{"x"}), scripted.Text("done")) }
		turn(t, open(t, st, bot(asks(), lookUp)), "s", "go")
		testclock.Advance(10*time.Minute - time.Second)
		turn(t, open(t, st, bot(asks(), lookUp), named("b"), clock), "s", "again")
		if ran != 1 {
			t.Errorf("the tool ran %d times within the life of its result", ran)
		}
		testclock.Advance(time.Second)
		turn(t, open(t, st, bot(asks(), lookUp), named("c"), clock), "s", "again")
		if ran != 2 {
			t.Errorf("the tool ran %d times, want a second time after the life of its result", ran)
		}
		turn(t, open(t, st, bot(asks(), lookUp), named("d")), "s", "again")
		if ran != 2 {
			t.Errorf("the tool ran %d times although its result had just been kept", ran)
		}
	})
}

func rowOf(t *testing.T, st store.Store, ref cairn.CallRef) *cairn.PendingCall {
	t.Helper()
	c, err := driver.FindCall(t.Context(), st, ref.RootID, ref.ID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dueOf(t *testing.T, st store.Store) []store.Due {
	t.Helper()
	page, err := st.Due(t.Context(), driver.DueQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}
