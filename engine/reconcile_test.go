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

// Wherever a process dies between its store and its log, another one completes the log: one mark for each beginning,
// step and end, and nothing of lost steps.
func TestLogIsCompletedWhereverItsWriterDied(t *testing.T) {
	t.Parallel()
	deaths := map[string]func(st *tap) error{
		"the log fails":    func(*tap) error { return cairn.Errorf(cairn.CodeInternal, "the disk is full") },
		"the process dies": func(st *tap) error { st.cut(); return context.Canceled },
	}
	for name, death := range deaths {
		for _, d := range durabilities {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				for k, fired := 0, true; fired; k++ {
					t.Run(fmt.Sprint(k), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							st := tapOn(nil)
							agent := eventful(d)
							eng := open(t, st, agent, shortLease)
							step, hit := after(k, func() error { return death(st) })
							st.log.stepIn(step)
							_, _ = start(t, eng, "s", "go").Wait(t.Context())
							wantSound(t, bringToEnd(t, st, agent), "s")
							fired = hit()
						})
					})
				}
			})
		}
	}
}

// The same holds for the first turn of a branch, which closes the calls that the original waits for.
func TestLogOfABranchIsCompletedWhereverItsWriterDied(t *testing.T) {
	t.Parallel()
	agent := bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if len(r.Messages) == 1 {
			return scripted.Call("pay", map[string]string{"text": "42"})
		}
		return scripted.Text("done")
	}), echo("pay", cairn.RequireApproval()))
	for k, fired := 0, true; fired; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
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
				fired = hit()
			})
		})
	}
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
	for k, fired := 0, true; fired; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
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
				if fired = hit(); fired {
					return
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
			})
		})
	}
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

// The events of a run whose last ones were never written end all the same, in the process that drove it and in any
// other.
func TestReadersDoNotHangWhenTheEndWasNotLogged(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"here", "elsewhere"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				eng := open(t, st, bot(scripted.New(scripted.Text("done"))))
				st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
					for i := range events {
						if events[i].Type == cairn.EventStepCommitted {
							return cairn.Errorf(cairn.CodeInternal, "no log any more")
						}
					}
					return nil
				})
				run := start(t, eng, "s", "go")
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				st.log.stepIn(nil)
				if where == "elsewhere" {
					var err error
					if run, err = open(t, tapOn(st.Store), bot(scripted.New())).Attach(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
				}
				wantEnd(t, run)
				wantSound(t, st.Store, "s")
			})
		})
	}
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
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				first := open(t, st, bot(scripted.New(scripted.Reply(scripted.Text("half an ans"), scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease)
				start(t, first, "s", "go")
				synctest.Wait() // the process is gone now

				other := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("whole"))), shortLease, named("b"))
				run, err := other.Attach(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(ttl)
				heard := make(chan struct{})
				go func() { wantEnd(t, run); close(heard) }()
				do(t, other)
				<-heard
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// A short outage of the log loses nothing.
func TestLogThatIsAwayForAMomentLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(counter(3), note()))
		n := 0
		st.log.stepIn(func(context.Context, []cairn.Event) error {
			if n++; n%4 != 0 {
				return cairn.Errorf(cairn.CodeUnavailable, "no log at the moment")
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

// The next turn, begun by any process, completes the log of a run whose process died between its last commit and its
// log.
func TestNextTurnCompletesTheLogOfTheOneBefore(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"the same process", "another process"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("done") }))
				eng := open(t, st, agent)
				st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
					if events[0].Type == cairn.EventStepCommitted {
						return cairn.Errorf(cairn.CodeInternal, "no log")
					}
					return nil
				})
				turn(t, eng, "s", "go")
				st.log.stepIn(nil)
				time.Sleep(time.Minute)
				if who == "another process" {
					eng = open(t, tapOn(st.Store), agent, named("b"))
				}
				turn(t, eng, "s", "go on")
				wantSound(t, st, "s")
			})
		})
	}
}

// A run that had no effect has one beginning and one end on its log, too.
func TestLogOfARunWithoutStepsIsCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Pause(time.Hour))))
		start(t, eng, "s", "go")
		synctest.Wait()
		st.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.CodeInternal, "no log") })
		_ = eng.Interrupt(t.Context(), "s", "") // the log lacks it
		st.log.stepIn(nil)
		other := open(t, tapOn(st.Store), bot(scripted.New()), named("b"))
		wantEnd(t, attach(t, other, "s"))
		wantSound(t, st, "s")
	})
}

// The end of a wait that is stopped is published once, whether by the process that stopped it or by one that detects
// it.
func TestStoppedWaitIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(scripted.New(scripted.Call("refund", in{"42"}), scripted.Text("Never mind.")), echo("refund", cairn.RequireApproval()))
		one := open(t, st, agent)
		turn(t, one, "s", "refund it")
		other := open(t, tapOn(st.Store), agent, named("b"))
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

// A run that replaced a wait, waited itself and was stopped has each cancelled call on the log once, whichever process
// completes its log.
func TestWithdrawnCallsAreToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(scripted.New(scripted.Call("ask", in{}), scripted.Call("note", in{}), scripted.Call("ask", in{})), note(),
			cairn.ClientTool[in, string]("ask", "Asks."))
		eng := open(t, st, agent)
		turn(t, eng, "s", "go")
		wantStatus(t, turn(t, eng, "s", "no, this", withdraw), cairn.SuspendedClientTool, cairn.ReasonSuspended)
		st.log.stepIn(func(context.Context, []cairn.Event) error {
			return cairn.Errorf(cairn.CodeInternal, "the disk is full")
		})
		_ = eng.Interrupt(t.Context(), "s", "stop") // the log lacks it
		st.log.stepIn(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range until(t, ctx, open(t, tapOn(st.Store), agent, named("b")).Events(ctx, "s", cairn.Cursor{})) {
		}
		wantSound(t, st, "s")
	})
}

// A reader that completes the log of a run first publishes the earlier runs, which the processes that began and stopped
// the run did not publish.
func TestReadersTellOfEveryRunThatIsUntold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		dies := func(eng func(*tap) *engine.Engine) {
			dead := tapOn(st.Store)
			dead.log.stepIn(func(context.Context, []cairn.Event) error { dead.cut(); return context.Canceled })
			_, _ = start(t, eng(dead), "s", "go").Wait(t.Context())
			time.Sleep(ttl)
		}
		for _, name := range []string{"a", "b"} {
			dies(func(dead *tap) *engine.Engine {
				return open(t, dead, bot(scripted.New(scripted.Text("lost"))), shortLease, named(name))
			})
			if name == "a" {
				unheard := tapOn(st.Store)
				unheard.log.stepIn(func(context.Context, []cairn.Event) error {
					return cairn.Errorf(cairn.CodeInternal, "the disk is full")
				})
				_ = open(t, unheard, bot(scripted.New()), named("stops")).Interrupt(t.Context(), "s", "stop")
			}
		}
		st.log.stepIn(func(context.Context, []cairn.Event) error {
			return cairn.Errorf(cairn.CodeInternal, "the disk is full")
		})
		_ = open(t, st, bot(scripted.New()), named("c")).Interrupt(t.Context(), "s", "stop") // the log lacks it
		if row := load(t, st, "s"); row.Status != cairn.SessionInterrupted || row.Turn != 2 {
			t.Fatalf("row: %+v", row)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range until(t, ctx, open(t, tapOn(st.Store), bot(scripted.New()), named("d")).Events(ctx, "s", cairn.Cursor{})) {
		}
		wantSound(t, st, "s")
	})
}
