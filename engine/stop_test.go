package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// storyteller speaks for an hour, then answers briefly.
func storyteller() *scripted.Model {
	return scripted.New(scripted.Reply(scripted.Text("once upon a time "), scripted.Pause(time.Hour), scripted.Text("the end")), scripted.Text("next"))
}

// mute is a store that does not publish stop requests: heartbeats find them.
type mute struct {
	store.Store
	log store.Log
}

func (m mute) EventLog() store.Log { return m.log }
func (m mute) Self() store.Store   { return m }

func TestInterruptKeepsWhatTheUserSaw(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"the same process", "another process", "another process without notices"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				var ours store.Store = st
				if from == "another process without notices" {
					ours = mute{st, st.log}
				}
				eng := open(t, ours, bot(storyteller()), shortLease)
				other := eng
				if from != "the same process" {
					other = open(t, tapOn(st.Store), bot(scripted.New()), named("b"))
				}
				run := start(t, eng, "s", "tell me")
				testclock.Advance(ttl * 10) // a lease that is renewed does not run out
				begun := time.Now()
				if err := other.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				limit := time.Second / 4 // the waiting process looks that often
				if from == "another process without notices" {
					limit += ttl / 3
				}
				if took := time.Since(begun); took > limit {
					t.Errorf("the stop took %s", took)
				}
				if status := load(t, st, "s").Status; status != cairn.SessionInterrupted {
					t.Fatalf("the stop is acknowledged, the session is %s", status)
				}
				if got := messages(t, st, "s")[1].Text(); got != "once upon a time " {
					t.Errorf("kept %q", got)
				}
				res := turn(t, eng, "s", "and now?") // is accepted at once
				wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
				if res.Text != "next" || res.Turn != 2 {
					t.Errorf("next turn %+v", res)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

func TestAbortFailsTheRunWithATypedError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()))
		run := start(t, eng, "s", "tell me")
		testclock.Advance(time.Second)
		if err := eng.Abort(t.Context(), "s", "too long"); err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		wantError(t, err, cairn.ErrAborted)
		wantStatus(t, res, cairn.RunFailed, cairn.ReasonAborted)
		wantStatus(t, turn(t, eng, "s", "and now?"), cairn.RunCompleted, cairn.ReasonReply)
		wantSound(t, st, "s")
	})
}

func TestStopOfASessionThatDoesNotRun(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("ok"))))
	wantError(t, eng.Interrupt(t.Context(), "s", ""), cairn.ErrNotFound)
	turn(t, eng, "s", "go")
	before := render(t, st, "s")
	wantError(t, eng.Interrupt(t.Context(), "s", ""), cairn.ErrNotRunning)
	wantError(t, eng.Abort(t.Context(), "s", ""), cairn.ErrNotRunning)
	if render(t, st, "s") != before {
		t.Error("the refused stop left a trace")
	}
}

func TestInterruptDuringTools(t *testing.T) {
	t.Parallel()
	wait1 := func(ctx context.Context, _ *cairn.Call, _ in) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	deaf := func(context.Context, *cairn.Call, in) (string, error) {
		testclock.Deaf(time.Hour)
		return "too late", nil
	}
	for name, c := range map[string]struct {
		fn   func(context.Context, *cairn.Call, in) (string, error)
		took time.Duration
	}{"that heed their context": {wait1, 0}, "that do not": {deaf, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				finished := false
				agent := bot(scripted.New(
					scripted.Reply(scripted.Call("note", in{"kept"}).ID("c1"), scripted.Call("wait", in{}).ID("c2"), scripted.Call("finish", in{}).ID("c3"),
						scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c4"))),
					note(), tool("wait", c.fn),
					tool("finish", func(context.Context, *cairn.Call, in) (string, error) { finished = true; return "", nil }, cairn.FinishWith()))
				agent.Output = cairn.OutputOf[verdict]()
				eng := open(t, st, agent)
				run := start(t, eng, "s", "go")
				testclock.Advance(time.Second)
				begun := time.Now()
				if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != c.took {
					t.Errorf("the stop took %s, want %s", took, c.took)
				}
				wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
				list := messages(t, st, "s")
				for id, code := range map[string]cairn.Code{"c1": "", "c2": cairn.ErrStopped, "c3": cairn.ErrNotExecuted, "c4": cairn.ErrNotExecuted} {
					if r := result(t, list, id); r.Code != code {
						t.Errorf("call %s: %s (%s), want %q", id, r.Output, r.Code, code)
					}
				}
				if finished {
					t.Error("a finish tool was begun after the stop")
				}
				if got := state(t, st, "s"); got != `{"notes":["kept"]}` {
					t.Errorf("state %s: what was done is kept", got)
				}
				wantSound(t, st, "s")
				testclock.Advance(time.Hour) // until the deaf tool has ended, too
			})
		})
	}
}

func TestInterruptBeforeTheModelSaysAnything(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]scripted.Step{
		"while it thinks":            scripted.Pause(time.Hour),
		"while the next try is due":  scripted.Fail(&cairn.Error{Code: cairn.ErrRateLimited, Message: "later", RetryAfter: cairn.Duration(30 * time.Second)}),
		"before the arguments":       scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, Tool: "note", CallID: "c"}), scripted.Pause(time.Hour)),
		"half-way through arguments": scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, Tool: "note", CallID: "c"}), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: "c", Text: `{"te`}), scripted.Pause(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				eng := open(t, st, bot(scripted.New(step, scripted.Text("hello")), note()))
				run := start(t, eng, "s", "go")
				testclock.Advance(time.Second)
				// The answer of the commit that ends the run is lost, too.
				lost := false
				st.stepIn(nil, func(_ context.Context, op string) error {
					if op == "Commit" && !lost {
						lost = true
						return cairn.Errorf(cairn.ErrUnavailable, "answer lost")
					}
					return nil
				})
				if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
					t.Fatal(err)
				}
				res := wait(t, run)
				wantStatus(t, res, cairn.RunInterrupted, cairn.ReasonInterrupted)
				if len(messages(t, st, "s")) != 1 || res.Steps != 0 {
					t.Errorf("transcript %s after %d steps", marshal(messages(t, st, "s")), res.Steps)
				}
				if total := load(t, st, "s").Usage; total.ModelCalls != res.Usage.ModelCalls {
					t.Errorf("usage of the session %+v, of its one run %+v", total, res.Usage)
				}
				resumed, err := eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				if res := wait(t, resumed); res.Text != "hello" {
					t.Errorf("resumed: %+v", res)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

// A process that checks whether the log is complete leaves a run alone that has published its end.
func TestStepThatWasStoppedEndsWithItsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Pause(time.Hour))))
		run := start(t, eng, "s", "go")
		testclock.Advance(time.Second)
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		wait(t, run)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last cairn.Event
		for ev := range until(t, ctx, open(t, tapOn(st.Store), bot(scripted.New()), named("b")).Events(ctx, "s", cairn.Cursor{})) {
			last = ev
		}
		if !last.Ends(run.ID()) {
			t.Errorf("the log ends with %+v", last)
		}
	})
}

func TestAbortOverridesInterruptAndNotTheOtherWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Call("deaf", in{})), tool("deaf", func(context.Context, *cairn.Call, in) (string, error) {
			testclock.Deaf(3 * time.Second)
			return "", nil
		})))
		run := start(t, eng, "s", "go")
		synctest.Wait()
		var both sync.WaitGroup
		for i, stop := range []func(context.Context, string, string, ...engine.StopOption) error{eng.Interrupt, eng.Abort, eng.Interrupt} {
			if i > 0 {
				testclock.Advance(time.Second / 2)
			}
			both.Go(func() {
				if err := stop(t.Context(), "s", ""); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		wantStatus(t, wait(t, run), cairn.RunFailed, cairn.ReasonAborted)
		wantSound(t, st, "s")
	})
}

func TestStopRequestStandsWhenItsClientGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New()))
		other := open(t, tapOn(st.Store), bot(scripted.New(scripted.Call("deaf", in{})), tool("deaf", func(context.Context, *cairn.Call, in) (string, error) {
			testclock.Deaf(4 * time.Second)
			return "", nil
		})), shortLease, named("b"))
		run := start(t, other, "s", "go")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, eng.Interrupt(ctx, "s", ""), context.DeadlineExceeded)
		wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
	})
}

// A stop requested before the process died applies to the process that takes the run over.
func TestStopRequestOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		start(t, open(t, st, bot(scripted.New(scripted.Reply(scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease), "s", "go")
		synctest.Wait()
		model := scripted.New()
		other := open(t, tapOn(st.Store), bot(model), shortLease, named("b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, other.Interrupt(ctx, "s", ""), context.DeadlineExceeded)
		testclock.Advance(ttl)
		run, err := other.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
		if model.Calls() != 0 {
			t.Errorf("the model was called %d times", model.Calls())
		}
		wantSound(t, st.Store, "s")
	})
}

func TestStopDoesNotWaitForTheNextRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Pause(time.Hour) })))
		first := start(t, eng, "s", "go")
		next := make(chan *engine.Run)
		go func() {
			wait(t, first)
			next <- start(t, eng, "s", "at once")
		}()
		synctest.Wait()
		begun := time.Now()
		if err := open(t, tapOn(st.Store), bot(scripted.New()), named("b")).Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
		if row := load(t, st, "s"); row.RunID != (<-next).ID() || row.Status != cairn.SessionActive {
			t.Errorf("the next run was stopped, too: %+v", row)
		}
	})
}

func TestTurnThatIsBeginningDoesNotEndWithItsClient(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"new", "old"} {
		t.Run(session, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })))
			turn(t, eng, "old", "go")
			ctx, cancel := context.WithCancel(t.Context())
			st.stepIn(func(_ context.Context, op string) error {
				if op == "Commit" {
					cancel()
				}
				return nil
			}, nil)
			run, err := eng.Execute(ctx, session, "bot", cairn.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)

			before := st.seen()
			_, err = eng.Execute(ctx, session, "bot", cairn.Text("go")) // the client has long gone
			wantError(t, err, context.Canceled)
			if calls := st.seen(); len(calls) > 0 {
				t.Errorf("store calls %v after %v", calls, before)
			}
		})
	}
}

func TestClientThatGoesAwayIsNoStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()), patient)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 1))
		run, err := eng.Execute(ctx, "s", "bot", cairn.Text("tell me"))
		if err != nil {
			t.Fatal(err)
		}
		testclock.Advance(time.Second)
		cancel()
		if _, err := run.Wait(ctx); err != context.Canceled {
			t.Errorf("wait: %v", err)
		}
		for _, err := range run.Events(ctx) {
			if err != context.Canceled {
				t.Errorf("events of a reader that has gone: %v", err)
			}
		}
		if res := wait(t, run); res.Text != "once upon a time the end" {
			t.Errorf("outcome %+v", res)
		}
	})
}

func TestStopOfACrashedSessionSettlesIt(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		for _, abort := range []bool{false, true} {
			t.Run(fmt.Sprint(d, " abort ", abort), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					agent := eventful(d)
					agent.Tools = append(agent.Tools, echo("last"))
					calls := 0
					agent.Hooks.AfterModel = func(context.Context, *cairn.Step, *cairn.Message, cairn.Usage) {
						if calls++; calls == 2 {
							st.cut()
						}
					}
					_, _ = start(t, open(t, st, agent, shortLease), "s", "go").Wait(t.Context())
					other := open(t, tapOn(st.Store), agent, shortLease, named("b"))
					stop, status := other.Interrupt, cairn.SessionInterrupted
					if abort {
						stop, status = other.Abort, cairn.SessionFailed
					}
					if err := stop(t.Context(), "s", "dead"); err != nil {
						t.Fatal(err)
					}
					if row := load(t, st.Store, "s"); row.Status != status {
						t.Errorf("the session is %s", row.Status)
					}
					wantSound(t, st.Store, "s")
					wantStatus(t, turn(t, other, "s", "again"), cairn.RunCompleted, cairn.ReasonReply)
					wantSound(t, st.Store, "s")
				})
			})
		}
	}
}

func TestStopAndCompletionRace(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(3), note()))
	for i := range 200 {
		id := fmt.Sprint("s", i)
		run := start(t, eng, id, "go")
		err := eng.Interrupt(t.Context(), id, "")
		res := wait(t, run)
		switch {
		case err == nil && (res.Status == cairn.RunInterrupted || res.Status == cairn.RunCompleted):
		case err != nil && res.Status == cairn.RunCompleted:
			wantError(t, err, cairn.ErrNotRunning)
		default:
			t.Fatalf("stop: %v, run: %s", err, res.Status)
		}
		wantStatus(t, turn(t, eng, id, "again"), cairn.RunCompleted, cairn.ReasonReply) // no stop is left over
		wantSound(t, st, id)
	}
}

func TestStopsAndTurnsFromManyProcesses(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var engines []*engine.Engine
	for i := range 3 {
		engines = append(engines, open(t, tapOn(st.Store), bot(counter(4), note()), named(fmt.Sprint("p", i, "_"))))
	}
	turn(t, engines[0], "s", "go")
	var all sync.WaitGroup
	for i, eng := range engines {
		all.Go(func() {
			for n := range 40 {
				run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(fmt.Sprint(i, n)))
				if err == nil && n%2 == 0 {
					_, err = run.Wait(t.Context())
				} else if err == nil {
					_ = eng.Interrupt(t.Context(), "s", "")
				}
				_ = err // another caller's turn
			}
		})
	}
	all.Wait()
	if row := load(t, st, "s"); row.Status == cairn.SessionActive {
		_ = engines[0].Interrupt(t.Context(), "s", "")
	}
	wantSound(t, st, "s")
}
