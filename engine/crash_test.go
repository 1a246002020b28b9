package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// work runs an engine's worker until the test calls the function it returns.
func work(t *testing.T, eng *engine.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Work(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("work: %v", err)
		}
	}
}

func attach(t *testing.T, eng *engine.Engine, session string) *engine.Run {
	t.Helper()
	run, err := eng.Attach(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestWorkerContinuesTheRunOfADeadProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(counter(3), note())
		calls := 0
		agent.Hooks = &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error {
			if calls++; calls == 2 {
				st.cut()
			}
			return nil
		}}
		dead := start(t, open(t, st, agent, shortLease), "s", "go")
		_, err := dead.Wait(t.Context())
		if err == nil {
			t.Fatal("the run did not end")
		}
		died := time.Now()
		if row := load(t, st.Store, "s"); !row.Running(time.Now()) || row.Step != 1 {
			t.Fatalf("the dead process left %+v", row)
		}

		other := open(t, tapOn(st.Store), agent, shortLease, named("b"))
		defer work(t, other)()
		run := attach(t, other, "s")
		if run.ID() != dead.ID() {
			t.Errorf("run %s became %s", dead.ID(), run.ID())
		}
		res := wait(t, run)
		if res.Turn != 1 || res.Steps != 3 || res.RunID != dead.ID() {
			t.Errorf("outcome %+v", res)
		}
		if took := time.Since(died); took < ttl || took > ttl+time.Second {
			t.Errorf("taken over after %s: the lease is %s, the worker looks each second", took, ttl)
		}
		wantSound(t, st.Store, "s")
	})
}

func TestSuspectedProcessIsFencedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		gate := make(chan struct{})
		slow := bot(scripted.New(scripted.Call("note", in{"zombie"})), note())
		slow.Hooks = &cairn.Hooks{AfterTool: func(context.Context, *cairn.Call, *cairn.ToolResult) { <-gate }}
		// It cannot renew its lease, and does not notice: its step is done and only the commit remains.
		st.stepIn(func(ctx context.Context, op string) error {
			if op == "Renew" {
				return cairn.Errorf(cairn.ErrUnavailable, "no store")
			}
			return nil
		}, nil)
		zombie := start(t, open(t, st, slow, shortLease), "s", "go")
		testclock.Advance(ttl)

		other := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("I took over"))), shortLease, named("b"))
		run, err := other.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		want := marshal(messages(t, st.Store, "s"))
		close(gate)
		_, err = zombie.Wait(t.Context())
		wantError(t, err, cairn.ErrFenced)
		if got := marshal(messages(t, st.Store, "s")); got != want {
			t.Errorf("the zombie changed the transcript to %s", got)
		}
		if got := state(t, st.Store, "s"); got != "{}" {
			t.Errorf("the zombie wrote the state %s", got)
		}
	})
}

// A process that has lost its lease without knowing it cannot publish between the events of its successor.
func TestSuspectedProcessIsFencedOffTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		st := tapOn(memstore.New(&memstore.Options{Now: now}))
		speak := func(text string) *cairn.Agent { return bot(scripted.New(scripted.Text(text).Pace(ttl / 30))) }
		zombie := start(t, open(t, st, speak("a b c d e f g h i j k l m n o p"), shortLease), "s", "go")
		testclock.Advance(ttl/6 + time.Millisecond)
		ahead.Store(int64(ttl)) // the lease has lapsed by the store's clock
		other := open(t, tapOn(st.Store), speak("1 2 3 4 5 6 7 8 9"), shortLease, named("b"), with(func(o *engine.Options) { o.Now = now }))
		run, err := other.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if res := wait(t, run); res.RunID != zombie.ID() || res.Text != "1 2 3 4 5 6 7 8 9" {
			t.Errorf("outcome %+v", res)
		}
		_, err = zombie.Wait(t.Context())
		wantError(t, err, cairn.ErrFenced)
		wantSound(t, st, "s")
	})
}

// A process that cannot renew its lease stops by itself by the time another process may have the session.
func TestProcessWithoutLeaseStopsByItself(t *testing.T) {
	t.Parallel()
	type renewal struct {
		answer func(ctx context.Context) error
		good   int // renewals that succeed before
	}
	refuse := func(context.Context) error { return cairn.Errorf(cairn.ErrUnavailable, "no store") }
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, renew := range map[string]renewal{
		"the store refuses":       {refuse, 0},
		"the store hangs":         {hang, 0},
		"the store refuses later": {refuse, 10},
		"the store hangs later":   {hang, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				begun := time.Now()
				beats := 0
				var ended time.Time
				agent := bot(scripted.Func(func(ctx context.Context, _ *cairn.Request) scripted.Step {
					<-ctx.Done()
					ended = time.Now()
					return scripted.Break()
				}))
				st.stepIn(func(ctx context.Context, op string) error {
					if op != "Renew" {
						return nil
					}
					if beats++; beats > renew.good {
						return renew.answer(ctx)
					}
					begun = time.Now()
					return nil
				}, nil)
				_, err := start(t, open(t, st, agent, shortLease), "s", "go").Wait(t.Context())
				wantError(t, err, cairn.ErrFenced)
				if took := ended.Sub(begun); took > ttl {
					t.Errorf("it went on for %s, its lease is %s", took, ttl)
				}
			})
		})
	}
}

func TestProcessTakesItsOwnLapsedRunOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		var calls atomic.Int32
		deaf := tool("deaf", func(context.Context, *cairn.Call, in) (string, error) {
			if calls.Add(1) == 1 {
				testclock.Deaf(2 * ttl)
			}
			return "ok", nil
		})
		model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) > 1 {
				return scripted.Reply(scripted.Pause(3*ttl), scripted.Text("done"))
			}
			return scripted.Call("deaf", in{})
		})
		eng := open(t, st, bot(model, deaf), shortLease, with(func(o *engine.Options) { o.StopGrace = time.Hour }))
		st.stepIn(func(_ context.Context, op string) error {
			if op == "Renew" {
				return cairn.Errorf(cairn.ErrUnavailable, "no store")
			}
			return nil
		}, nil)
		lost := start(t, eng, "s", "go")
		testclock.Advance(ttl)
		st.stepIn(nil, nil)
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		_, err = lost.Wait(t.Context())
		wantError(t, err, cairn.ErrFenced)
		if load(t, st.Store, "s").Status != cairn.SessionActive {
			t.Fatal("the run that took over ended too early for this test")
		}
		if again := attach(t, eng, "s"); again != run {
			t.Error("the run that took over is no longer known to be driven here")
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantSound(t, st.Store, "s")
	})
}

// With PerTool, whatever write a process dies at, staged work is not done again.
func TestPerToolRepeatsNothingThatIsStaged(t *testing.T) {
	t.Parallel()
	for k, fired := 1, true; fired; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				var mu sync.Mutex
				done := map[string]int{} // how often each call and each reply was made
				kept := map[string]bool{}
				count := func(what string) { mu.Lock(); done[what]++; mu.Unlock() }
				agent := eventful(cairn.PerTool)
				agent.Hooks.BeforeTool = func(_ context.Context, call *cairn.Call) error { count("call:" + call.ID); return nil }
				agent.Hooks.AfterModel = func(_ context.Context, step *cairn.Step, _ *cairn.Message, _ cairn.Usage) {
					count(fmt.Sprintf("%s/%d reply", step.RunID, step.Number))
				}
				begins := agent.Hooks.RunStart
				agent.Hooks.RunStart = func(ctx context.Context, step *cairn.Step) { count("opening"); begins(ctx, step) }
				step, hit := nth(k, func(context.Context) error { st.cut(); return context.Canceled })
				st.stepIn(nil, step)
				if run, err := open(t, st, agent, shortLease).Execute(t.Context(), "s", "bot", cairn.Text("go")); err == nil {
					_, _ = run.Wait(t.Context())
				}
				staged, err := driver.StagedOf(t.Context(), st.Store, "s", "")
				if err != nil {
					t.Fatal(err)
				}
				for _, piece := range staged {
					what := piece.Key
					if what == "reply" {
						what = piece.StepID + " reply"
					}
					kept[what] = true
				}
				before := done
				done = map[string]int{}
				bringToEnd(t, st, agent)
				for what := range kept {
					if before[what] != 1 || done[what] != 0 {
						t.Errorf("%s was staged, but done %d times before the crash and %d times after it", what, before[what], done[what])
					}
				}
				wantSound(t, st.Store, "s")
				fired = hit()
			})
		})
	}
}

// A process that is asked to end keeps the results that its tools still returned.
func TestPerToolKeepsWhatEndsWhileTheProcessIsLeaving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		ran := 0
		model := func() *scripted.Model {
			return scripted.New(scripted.Call("pay", in{}), scripted.Text("paid"))
		}
		first := model()
		agent := bot(first, tool("pay", func(context.Context, *cairn.Call, in) (string, error) {
			ran++
			testclock.Deaf(time.Second)
			return "paid", nil
		}))
		agent.Durability = cairn.PerTool
		eng := open(t, st, agent, shortLease)
		run := start(t, eng, "s", "go")
		synctest.Wait()
		leave(t, eng)
		_, err := run.Wait(t.Context())
		wantError(t, err, cairn.ErrClosed)

		rest := *agent
		rest.Model = scripted.New(scripted.Text("all paid"))
		other := open(t, tapOn(st.Store), &rest, shortLease, named("b"))
		begun := time.Now()
		again, err := other.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if res := wait(t, again); res.Text != "all paid" || res.RunID != run.ID() {
			t.Errorf("outcome %+v", res)
		}
		if ran != 1 || time.Since(begun) > 0 {
			t.Errorf("the tool ran %d times", ran)
		}
		wantSound(t, st.Store, "s")
	})
}

func TestRunThatKillsItsProcessFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := tapOn(nil)
		agent := bot(counter(3), note())
		process := func(n int) *engine.Engine {
			st := tapOn(mem.Store)
			deadly := *agent
			deadly.Tools = []cairn.Tool{tool("note", func(context.Context, *cairn.Call, in) (string, error) {
				st.cut()
				return "", nil
			})}
			return open(t, st, &deadly, shortLease, named(fmt.Sprint("p", n, "_")), with(func(o *engine.Options) { o.MaxRecoveries = 3 }))
		}
		_, _ = start(t, process(0), "s", "go").Wait(t.Context())
		for n := 1; n <= 3; n++ {
			testclock.Advance(ttl)
			run, err := process(n).Resume(t.Context(), "s")
			if err != nil {
				t.Fatalf("recovery %d: %v", n, err)
			}
			if _, err := run.Wait(t.Context()); err == nil {
				t.Fatalf("recovery %d did not end", n)
			}
		}
		testclock.Advance(ttl)
		last := process(4)
		_, err := last.Resume(t.Context(), "s")
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrCrashLoop {
			t.Fatalf("error %v", err)
		}
		if r := runsOf(t, mem, "s")[0]; r.Status != cairn.RunFailed || r.Error.Code != cairn.ErrCrashLoop {
			t.Errorf("run %+v", r)
		}
		wantSound(t, mem, "s")

		retry, err := open(t, tapOn(mem.Store), agent, named("r")).Retry(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, retry), cairn.RunCompleted, cairn.ReasonReply)
		wantSound(t, mem, "s")
	})
}

func TestCommittedStepResetsTheCountOfRecoveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := tapOn(nil)
		for n := range 7 { // each process gets one step further
			st := tapOn(mem.Store)
			agent := bot(counter(8), tool("note", func(_ context.Context, call *cairn.Call, in in) (string, error) {
				if call.Number == n+2 && n < 6 {
					st.cut()
				}
				return "", nil
			}))
			eng := open(t, st, agent, shortLease, named(fmt.Sprint("p", n, "_")), with(func(o *engine.Options) { o.MaxRecoveries = 1 }))
			var run *engine.Run
			var err error
			if n == 0 {
				run = start(t, eng, "s", "go")
			} else if run, err = eng.Resume(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			_, _ = run.Wait(t.Context())
			testclock.Advance(ttl)
		}
		if r := runsOf(t, mem, "s")[0]; r.Status != cairn.RunCompleted || r.Steps != 8 {
			t.Errorf("run %+v", r)
		}
		wantSound(t, mem, "s")
	})
}

// Concurrent additions to a session with a run under way are kept, and so are the run's writes.
func TestOthersMayWriteWhileARunIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			other := tapOn(st.Store)
			var eng *engine.Engine
			interfere := tool("interfere", func(ctx context.Context, call *cairn.Call, in in) (string, error) {
				add := cairn.Op{Kind: cairn.OpAppend, Path: "/notes", Items: []json.RawMessage{json.RawMessage(marshal("other " + in.Text))}}
				if _, err := driver.MergeState(ctx, other, "s", add); err != nil {
					return "", err
				}
				return "done", errors.Join(eng.AddContext(ctx, "s", "news "+in.Text), call.Append([]string{"notes"}, "mine "+in.Text))
			})
			model := scripted.New(scripted.Call("interfere", in{"1"}), scripted.Call("interfere", in{"2"}), scripted.Text("ok"))
			agent := bot(model, interfere)
			agent.Durability = d
			eng = open(t, st, agent)
			wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)

			notes := decode[map[string][]string](t, []byte(state(t, st, "s")))["notes"]
			slices.Sort(notes)
			if want := []string{"mine 1", "mine 2", "other 1", "other 2"}; !slices.Equal(notes, want) {
				t.Errorf("notes %v, want %v", notes, want)
			}
			news := 0
			for _, m := range messages(t, st, "s") {
				if m.Hidden {
					news++
				}
			}
			if news != 2 {
				t.Errorf("%d context rows, want 2", news)
			}
			if last := model.Requests()[2].Messages; !slices.ContainsFunc(last, func(m cairn.Message) bool { return m.Text() == "news 2" }) {
				t.Errorf("the model did not see what was added: %s", marshal(last))
			}
			wantSound(t, st, "s")

			st.seen()
			turn(t, eng, "s", "again") // the process has caught up: fails as beyond the script, in one step
			if calls, want := st.seen(), []string{"Commit", "Commit"}; !slices.Equal(calls, want) {
				t.Errorf("store calls %v of the next turn, want %v", calls, want)
			}
		})
	}
}
