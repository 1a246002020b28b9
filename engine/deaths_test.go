package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// after returns a step that lets k appends pass and then calls something for every further one.
func after(k int, fn func() error) (step func(context.Context, []cairn.Event) error, fired func() bool) {
	appends := make(chan struct{}, 1<<20)
	return func(context.Context, []cairn.Event) error {
		appends <- struct{}{}
		if len(appends) <= k {
			return nil
		}
		return fn()
	}, func() bool { return len(appends) > k }
}

// diesAtEachAppend runs a test for every append of a process and every kind of log: the process dies at the k-th one.
// The test reports whether that append came.
func diesAtEachAppend(t *testing.T, from int, test func(t *testing.T, st *tap, k int) (fired bool)) {
	for name, log := range logs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k, fired := from, true; fired; k++ {
				t.Run(fmt.Sprint(k), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { fired = test(t, log(), k) })
				})
			}
		})
	}
}

// Wherever a process dies at an append to its log, the log comes to be whole: it has one mark for each beginning, step
// and end, and nothing of lost steps.
func TestLogIsWholeWhereverItsWriterDied(t *testing.T) {
	t.Parallel()
	deaths := map[string]func(st *tap) error{
		"the log fails":    func(*tap) error { return cairn.Errorf(cairn.ErrInternal, "the disk is full") },
		"the process dies": func(st *tap) error { st.cut(); return context.Canceled },
	}
	for name, death := range deaths {
		for _, d := range durabilities {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				diesAtEachAppend(t, 0, func(t *testing.T, st *tap, k int) bool {
					agent := eventful(d)
					eng := open(t, st, agent, shortLease)
					step, hit := after(k, func() error { return death(st) })
					st.log.stepIn(step)
					_, _ = start(t, eng, "s", "go").Wait(t.Context())
					wantSound(t, bringToEnd(t, st, agent), "s")
					return hit()
				})
			})
		}
	}
}

// The same holds for the first turn of a branch, which closes the calls that the original waits for.
func TestLogOfABranchIsWholeWhereverItsWriterDied(t *testing.T) {
	t.Parallel()
	agent := bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if len(r.Messages) == 1 {
			return scripted.Call("pay", map[string]string{"text": "42"})
		}
		return scripted.Text("done")
	}), echo("pay", cairn.RequireApproval()))
	diesAtEachAppend(t, 0, func(t *testing.T, st *tap, k int) bool {
		eng := open(t, st, agent, shortLease)
		turn(t, eng, "original", "pay")
		if _, err := eng.Branch(t.Context(), "original", "s"); err != nil {
			t.Fatal(err)
		}
		step, hit := after(k, func() error { st.cut(); return context.Canceled })
		st.log.stepIn(step)
		if run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go")); err == nil {
			_, _ = run.Wait(t.Context())
		}
		wantSound(t, bringToEnd(t, st, agent), "s")
		return hit()
	})
}

// A turn that takes the place of one which closed calls closes them again, and says so on the log behind the rewind,
// wherever its process dies.
func TestTurnInPlaceOfOneThatClosedCalls(t *testing.T) {
	t.Parallel()
	agent := bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if len(r.Messages) == 1 {
			return scripted.Call("pay", map[string]string{"text": "42"})
		}
		return scripted.Text("done")
	}), echo("pay", cairn.RequireApproval()))
	diesAtEachAppend(t, 0, func(t *testing.T, st *tap, k int) bool {
		eng := open(t, st, agent, shortLease)
		turn(t, eng, "original", "pay")
		if _, err := eng.Branch(t.Context(), "original", "s"); err != nil {
			t.Fatal(err)
		}
		turn(t, eng, "s", "first") // behind the message that closes the call
		step, hit := after(k, func() error { st.cut(); return context.Canceled })
		st.log.stepIn(step)
		if run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("second"), engine.FromMessage(3)); err == nil {
			_, _ = run.Wait(t.Context())
		}
		again := bringToEnd(t, st, agent)
		wantSound(t, again, "s")
		if hit() {
			return true
		}
		ends, rewound := 0, false
		events, err := open(t, again, agent).History(t.Context(), "s", cairn.Cursor{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			rewound = rewound || ev.Type == cairn.EventRewound
			if rewound && ev.Type == cairn.EventToolEnd {
				ends++
			}
		}
		if !rewound || ends != 1 {
			t.Errorf("behind the rewind (%t) the closed call ends %d times on the log, want once", rewound, ends)
		}
		return false
	})
}

// The calls that such a turn closes may be in the part of the transcript that a summary stands for.
func TestTurnInPlaceOfOneThatClosedCallsBeforeASummary(t *testing.T) {
	t.Parallel()
	agent := bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if len(r.Messages) == 1 && r.System != cairn.SummaryInstructions {
			return scripted.Call("pay", map[string]string{"text": "42"})
		}
		return scripted.Text("done")
	}), echo("pay", cairn.RequireApproval()))
	agent.Compaction = &cairn.Compaction{}
	st := tapOn(nil)
	eng := open(t, st, agent)
	turn(t, eng, "original", "pay")
	if _, err := eng.Branch(t.Context(), "original", "s"); err != nil {
		t.Fatal(err)
	}
	turn(t, eng, "s", "first")
	for range 20 {
		turn(t, eng, "s", strings.Repeat("more ", 100))
	}
	if row, err := eng.Compact(t.Context(), "s"); err != nil || row.Summary.From <= 3 {
		t.Fatalf("the summary stands for %+v, %v; want more than the calls", row, err)
	}
	turn(t, eng, "s", "second", engine.FromMessage(3))
	wantSound(t, st, "s")
}

// wantEnd reads a run's events up to its end.
func wantEnd(t *testing.T, run *engine.Run) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last cairn.Event
	for ev, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.RunID != run.ID() {
			t.Errorf("among the events of run %s is %s of run %s", run.ID(), ev.Type, ev.RunID)
		}
		last = ev
	}
	if !last.Ends(run.ID()) {
		t.Fatalf("the events end with %s, not with the end of the run", last.Type)
	}
}

// A reader of a run whose process died sees its end from the process that took the run over, or from the one that began
// the next turn.
func TestReadersOfADeadRunHearOfItsEnd(t *testing.T) {
	t.Parallel()
	next := map[string]func(t *testing.T, eng *engine.Engine){
		"it is resumed": func(t *testing.T, eng *engine.Engine) {
			run, err := eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		},
		"the next turn begins": func(t *testing.T, eng *engine.Engine) {
			run := start(t, eng, "s", "again")
			wait(t, run)
			wantEnd(t, run)
		},
		"it is interrupted": func(t *testing.T, eng *engine.Engine) {
			if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, do := range next {
		t.Run(name, func(t *testing.T) {
			bothLogs(t, func(t *testing.T, st *tap) {
				first := open(t, st, bot(scripted.New(scripted.Reply(scripted.Text("half an ans"), scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease)
				start(t, first, "s", "go")
				synctest.Wait() // the process is gone now

				other := open(t, st.twin(), bot(scripted.New(scripted.Text("whole"))), shortLease, named("b"))
				run, err := other.Attach(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				testclock.Advance(ttl)
				heard := make(chan struct{})
				go func() { wantEnd(t, run); close(heard) }()
				do(t, other)
				<-heard
				wantSound(t, st.twin(), "s")
			})
		})
	}
}

// A short outage of the log loses nothing.
func TestLogThatIsAwayForAMomentLosesNothing(t *testing.T) {
	bothLogs(t, func(t *testing.T, st *tap) {
		eng := open(t, st, bot(counter(3), note()))
		n := 0
		st.log.stepIn(func(context.Context, []cairn.Event) error {
			if n++; n%4 != 0 {
				return cairn.Errorf(cairn.ErrUnavailable, "no log at the moment")
			}
			return nil
		})
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		if n < 20 {
			t.Fatalf("only %d appends", n)
		}
		wantSound(t, st, "s")
	})
}

// The end of a wait that is stopped is published once, whether by the process that stopped it or by one that detects
// it.
func TestStoppedWaitIsReportedOnce(t *testing.T) {
	bothLogs(t, func(t *testing.T, st *tap) {
		agent := bot(scripted.New(scripted.Call("refund", in{"42"}), scripted.Text("Never mind.")), echo("refund", cairn.RequireApproval()))
		one := open(t, st, agent)
		turn(t, one, "s", "refund it")
		other := open(t, st.twin(), agent, named("b"))
		st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
			if len(events) > 0 && events[len(events)-1].Type == cairn.EventRunEnd {
				turn(t, other, "s", "go on") // publishes it first
			}
			return nil
		})
		if err := one.Abort(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		wantSound(t, st, "s")
	})
}
