package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestCloseLetsRunsComeToTheirEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()))
		run := start(t, eng, "s", "go")
		closed := make(chan error)
		go func() { closed <- eng.Close(context.Background()) }()
		synctest.Wait()
		_, err := eng.Execute(t.Context(), "other", "bot", cairn.Text("go"))
		wantError(t, err, cairn.ErrClosed)
		_, err = eng.Resume(t.Context(), "s")
		if err == nil {
			t.Error("resumed on a closing engine")
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantSound(t, st, "s")
		if err := eng.Work(t.Context()); err != nil {
			t.Errorf("work on a closed engine, as when it was closed a moment before: %v", err)
		}
	})
}

func TestCloseLetsGoOfRunsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					switch len(req.Messages) {
					case 1:
						return scripted.Call("note", in{"x"})
					case 3:
						return scripted.Reply(scripted.Text("half of "), scripted.Pause(time.Minute), scripted.Text("it all"))
					}
					return scripted.Text("more")
				}), note())
				agent.Durability = d
				eng := open(t, st, agent)
				run := start(t, eng, "s", "go")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				wantError(t, eng.Close(ctx), context.DeadlineExceeded)
				_, err := run.Wait(t.Context())
				wantError(t, err, cairn.ErrClosed)
				var last error
				for _, err := range run.Events(t.Context()) {
					last = err
				}
				wantError(t, last, cairn.ErrClosed)

				// Another process continues at once, without waiting for the lease.
				begun := time.Now()
				other := open(t, tapOn(st.Store), agent, named("b"))
				again, err := other.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				res := wait(t, again)
				if res.RunID != run.ID() || res.Text != "half of it all" || time.Since(begun) != time.Minute {
					t.Errorf("outcome %+v after %s", res, time.Since(begun))
				}
				if got := state(t, st, "s"); got != `{"notes":["x"]}` {
					t.Errorf("state %s", got)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

func TestCloseInAHurryWithNothingToDoIsFine(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Text("ok"))))
		turn(t, eng, "s", "go")
		if err := eng.Close(gone); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := eng.Close(context.Background()); err != nil {
			t.Fatalf("close again: %v", err)
		}
	}
}

func TestResumeOnAClosedEngineChangesNothing(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(2), note()))
	turn(t, eng, "s", "go")
	first := checkpoints(t, eng, "s")[0].ID
	leave(t, eng)
	before := render(t, st, "s")
	_, err := eng.Resume(t.Context(), "s", engine.FromCheckpoint(first))
	wantError(t, err, cairn.ErrClosed)
	if render(t, st, "s") != before {
		t.Error("it left a trace")
	}

	stranger := bot(scripted.New())
	stranger.Name = "stranger"
	other, err := engine.New(st, []*cairn.Agent{stranger}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Resume(t.Context(), "s", engine.FromCheckpoint(first))
	wantError(t, err, cairn.ErrNotFound)
	if render(t, st, "s") != before {
		t.Error("an engine without the agent left a trace")
	}
}

func TestWorkersShareWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions = 40
		st := tapOn(nil)
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			return scripted.Reply(scripted.Do(func() { count(1) }), scripted.Pause(time.Minute), scripted.Do(func() { count(-1) }), scripted.Text("done"))
		})
		forever := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Pause(24 * time.Hour) })
		stranger := bot(forever)
		stranger.Name = "stranger" // no worker knows it, and its sessions have been due the longest
		lost, err := engine.New(st, []*cairn.Agent{stranger}, &engine.Options{NewID: counted("lost")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := lost.Execute(t.Context(), fmt.Sprint("lost", i), "stranger", cairn.Text("go")); err != nil {
				t.Fatal(err)
			}
		}
		leave(t, lost)
		testclock.Advance(time.Second)
		first := open(t, st, bot(forever), named("d"))
		for i := range sessions {
			start(t, first, fmt.Sprint("s", i), "go")
		}
		leave(t, first)

		for i := range 2 {
			eng := open(t, tapOn(st.Store), bot(model), named(fmt.Sprint("w", i, "_")), with(func(o *engine.Options) { o.WorkConcurrency = 4 }))
			defer work(t, eng)()
		}
		testclock.Advance(sessions/8*time.Minute + 30*time.Second) // plus the time until a worker looks again
		mu.Lock()
		if most != 8 {
			t.Errorf("%d runs at once, want 4 in each of 2 workers", most)
		}
		mu.Unlock()
		for i := range sessions {
			wantSound(t, st, fmt.Sprint("s", i))
		}
		if row := load(t, st, "lost0"); row.Status != cairn.SessionActive || row.Recoveries != 0 {
			t.Errorf("the session of an unknown agent was touched: %+v", row)
		}
	})
}

func TestWorkStopsWithItsContextOrItsEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, tapOn(nil), bot(scripted.New()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := eng.Work(ctx); err != nil {
			t.Errorf("work: %v", err)
		}
		done := make(chan error)
		go func() { done <- eng.Work(t.Context()) }()
		synctest.Wait()
		leave(t, eng)
		if err := <-done; err != nil {
			t.Errorf("work, when the engine was closed: %v", err)
		}
	})
}

// stuck is the user code of an agent that hangs once it is called, with what it blocks.
var stuck = map[string]func(hang func()) *cairn.Agent{
	"a model": func(hang func()) *cairn.Agent {
		return bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { hang(); return scripted.Text("late") }))
	},
	"a tool": func(hang func()) *cairn.Agent {
		return bot(counter(2), tool("note", func(context.Context, *cairn.Call, in) (string, error) { hang(); return "late", nil }))
	},
	"instructions": func(hang func()) *cairn.Agent {
		a := bot(counter(2), note())
		a.InstructionsFunc = func(context.Context, *cairn.Step) (string, error) { hang(); return "late", nil }
		return a
	},
	"a guard": func(hang func()) *cairn.Agent {
		a := bot(counter(1))
		a.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
			hang()
			return cairn.Accept(), nil
		}
		return a
	},
	"a stop condition": func(hang func()) *cairn.Agent {
		a := bot(counter(2), note())
		a.StopWhen = func(context.Context, *cairn.Step) bool { hang(); return true }
		return a
	},
	"RunStart": func(hang func()) *cairn.Agent {
		a := bot(counter(1))
		a.Hooks = &cairn.Hooks{RunStart: func(context.Context, *cairn.Step) { hang() }}
		return a
	},
	"OnMessage": func(hang func()) *cairn.Agent {
		a := bot(counter(1))
		a.Hooks = &cairn.Hooks{OnMessage: func(context.Context, *cairn.Step, *cairn.Message) { hang() }}
		return a
	},
	"AfterTool": func(hang func()) *cairn.Agent {
		a := bot(counter(2), note())
		a.Hooks = &cairn.Hooks{AfterTool: func(context.Context, *cairn.Call, *cairn.ToolResult) { hang() }}
		return a
	},
	"the condition of an approval": func(hang func()) *cairn.Agent {
		return bot(counter(2), echo("note", cairn.RequireApprovalIf(func(context.Context, *cairn.Call, in) (bool, error) { hang(); return false, nil })))
	},
}

// Execute has begun the run when it returns, whatever the hooks do.
func TestUserCodeThatHangsHoldsNoVerbUp(t *testing.T) {
	t.Parallel()
	for what, agent := range stuck {
		for _, verb := range []string{"close", "interrupt", "abort"} {
			t.Run(what+"/"+verb, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					hung := make(chan struct{})
					eng := open(t, st, agent(func() { close(hung); testclock.Deaf(time.Hour) }), shortLease)
					begun := time.Now()
					run := start(t, eng, "s", "go")
					if took := time.Since(begun); took > 0 {
						t.Errorf("Execute took %s", took)
					}
					<-hung
					begun = time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					switch verb {
					case "close":
						if err := eng.Close(ctx); err != context.DeadlineExceeded {
							t.Errorf("close: %v", err)
						}
						if took := time.Since(begun); took > 12*time.Second {
							t.Errorf("Close returned %s after it was called with 10s", took)
						}
						_, err := run.Wait(t.Context())
						wantError(t, err, cairn.ErrClosed)
						if row := load(t, st, "s"); !row.Lease.Until.IsZero() && time.Now().Before(row.Lease.Until) {
							t.Errorf("the lease is kept until %s", row.Lease.Until)
						}
					default:
						status, reason, stop := cairn.RunInterrupted, cairn.ReasonInterrupted, eng.Interrupt
						if verb == "abort" {
							status, reason, stop = cairn.RunFailed, cairn.ReasonAborted, eng.Abort
						}
						if err := stop(ctx, "s", ""); err != nil {
							t.Errorf("%s: %v", verb, err)
						}
						if took := time.Since(begun); took > 5*time.Second {
							t.Errorf("%s took %s, the grace is 5s", verb, took)
						}
						wantStatus(t, wait(t, run), status, reason)
						wantSound(t, st, "s")
					}
					if n := eng.Abandoned(); n != 1 {
						t.Errorf("%d calls are abandoned", n)
					}
					before := render(t, st, "s")
					testclock.Advance(2 * time.Hour)
					if n := eng.Abandoned(); n != 0 {
						t.Errorf("%d calls are abandoned although all have returned", n)
					}
					if render(t, st, "s") != before {
						t.Error("what was given up has left a trace")
					}
				})
			})
		}
	}
}

// A store that does not answer does not delay Close either.
func TestStoreThatHangsDoesNotHoldCloseUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()), patient)
		start(t, eng, "s", "go")
		synctest.Wait()
		back := make(chan struct{})
		st.stepIn(func(context.Context, string) error { <-back; return nil }, nil)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := eng.Close(ctx); err == nil {
			t.Error("Close has not said that runs were let go of")
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("Close took %s", took)
		}
		close(back)
	})
}

func TestModelThatFallsSilentIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, speaks := range map[string]bool{"at once": false, "in the middle": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				var calls atomic.Int64
				model := rude(func(_ context.Context, yield func(cairn.Chunk, error) bool) {
					if calls.Add(1) == 1 {
						if speaks && !yield(cairn.Chunk{Type: cairn.ChunkText, Text: "we"}, nil) {
							return
						}
						testclock.Deaf(time.Hour)
						yield(cairn.Chunk{Type: cairn.ChunkText, Text: "late"}, nil)
						return
					}
					for range 3 { // slow, but alive
						testclock.Deaf(9 * time.Minute)
						if !yield(cairn.Chunk{Type: cairn.ChunkText, Text: "well "}, nil) {
							return
						}
					}
					yield(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonEnd}, nil)
				})
				begun := time.Now()
				res := turn(t, open(t, st, bot(model)), "s", "go")
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				if res.Text != "well well well " {
					t.Errorf("answer %q", res.Text)
				}
				if took := time.Since(begun); took > 38*time.Minute || took < 37*time.Minute {
					t.Errorf("took %s", took)
				}
				wantSound(t, st, "s")
				testclock.Advance(time.Hour)
			})
		})
	}
}
