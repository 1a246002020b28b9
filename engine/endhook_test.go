package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// ears are hooks that record which of them were called.
type ears struct {
	mu    sync.Mutex
	heard []string
}

func (e *ears) hooks() *cairn.Hooks {
	hear := func(what string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, what)
	}
	return &cairn.Hooks{
		RunStart:    func(context.Context, *cairn.Step) { hear("start") },
		RunResumed:  func(context.Context, *cairn.Step, string) { hear("resumed") },
		RunComplete: func(context.Context, *cairn.Step, *cairn.Result) { hear("complete") },
		RunFail:     func(_ context.Context, _ *cairn.Step, r *cairn.Result) { hear("fail: " + string(r.Error.Code)) },
		RunInterrupt: func(_ context.Context, _ *cairn.Step, r *cairn.Result) {
			hear(fmt.Sprintf("interrupt: %s %s", r.Reason, r.StopReason))
		},
		RunSuspended: func(context.Context, *cairn.Step, *cairn.Result) { hear("suspended") },
		BeforeTool:   func(_ context.Context, c *cairn.Call) error { hear("before " + c.Tool); return nil },
		AfterTool:    func(_ context.Context, c *cairn.Call, r *cairn.ToolResult) { hear("after " + c.Tool) },
	}
}

// want checks what the hooks recorded since the last check.
func (e *ears) want(t *testing.T, want ...string) {
	t.Helper()
	if heard := e.flush(); !slices.Equal(heard, want) {
		t.Errorf("hooks heard %q, want %q", heard, want)
	}
}

func (e *ears) flush() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

func TestHooksAreNotifiedOfAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ears
		agent := bot(storyteller())
		agent.Hooks = e.hooks()
		st := tapOn(nil)
		eng := open(t, st, agent)
		start(t, eng, "s", "go")
		synctest.Wait()
		const why = "the budget of team blue is used up"
		if err := eng.Interrupt(t.Context(), "s", why); err != nil {
			t.Fatal(err)
		}
		e.want(t, "start", "interrupt: interrupted "+why)
		if run := runsOf(t, st, "s")[0]; run.StopReason != why {
			t.Errorf("the run was stopped because of %q, want %q", run.StopReason, why)
		}
		events := history(t, st, "s")
		if end := events[len(events)-1]; end.Type != cairn.EventRunEnd || end.Text != why {
			t.Errorf("the last event is %+v, want the run's end with its reason", end)
		}
	})
}

// TestHooksAreNotifiedOfAnEndWhileWaiting stops a session that waits and has one of two answers: the hooks of both
// calls are closed, and the usage counts both.
func TestHooksAreNotifiedOfAnEndWhileWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*engine.Engine, context.Context) error
		want string
	}{
		"abort":     {func(eng *engine.Engine, ctx context.Context) error { return eng.Abort(ctx, "s", "why") }, "fail: aborted"},
		"interrupt": {func(eng *engine.Engine, ctx context.Context) error { return eng.Interrupt(ctx, "s", "why") }, "interrupt: interrupted why"},
	} {
		t.Run(name, func(t *testing.T) {
			var e ears
			ask := cairn.ClientTool[in, string]("ask", "Asks.")
			agent := bot(scripted.New(scripted.Reply(scripted.Call("ask", in{"1"}), scripted.Call("ask", in{"2"}))), ask)
			agent.Hooks = e.hooks()
			st := tapOn(nil)
			eng := open(t, st, agent)
			res := turn(t, eng, "s", "go")
			if _, err := eng.Submit(t.Context(), "s", cairn.Answer(res.Suspended.Calls[0], "yes")); err != nil {
				t.Fatal(err)
			}
			e.want(t, "start", "before ask", "before ask", "suspended")
			if err := c.stop(eng, t.Context()); err != nil {
				t.Fatal(err)
			}
			e.want(t, "after ask", "after ask", c.want)
			run, row := runsOf(t, st, "s")[0], load(t, st, "s")
			if run.Usage.ToolCalls != 2 || run.Usage.ToolErrors != 1 || row.Usage.ToolCalls != 2 || run.StopReason != "why" {
				t.Errorf("run %+v, session's usage %+v", run, row.Usage)
			}
		})
	}
}

// TestHooksAreNotifiedOfADeadRun lets a process die during a run. The hooks are notified of its end, whichever process
// ends it or continues it.
func TestHooksAreNotifiedOfADeadRun(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*testing.T, *engine.Engine)
		want []string
	}{
		"crash loop": {func(t *testing.T, eng *engine.Engine) { _, _ = eng.Resume(t.Context(), "s") }, []string{"fail: crash_loop"}},
		"interrupt": {func(t *testing.T, eng *engine.Engine) { _ = eng.Interrupt(t.Context(), "s", "why") },
			[]string{"interrupt: interrupted why"}},
		"next turn": {func(t *testing.T, eng *engine.Engine) { turn(t, eng, "s", "next") },
			[]string{"start", "complete", "start", "complete"}},
		"interrupting turn": {func(t *testing.T, eng *engine.Engine) {
			turn(t, eng, "s", "next", engine.WithOnBusy(engine.BusyInterrupt))
		}, []string{"interrupt: interrupted replaced by another turn", "start", "complete"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e ears
				st := tapOn(nil)
				dying := tapOn(st.Store)
				process := func(tp *tap, owner string, m cairn.Model) *engine.Engine {
					agent := bot(m)
					agent.Hooks = e.hooks()
					return open(t, tp, agent, shortLease, named(owner), with(func(o *engine.Options) { o.MaxRecoveries = 1 }))
				}
				stuck := func(tp *tap) cairn.Model {
					return scripted.New(scripted.Reply(scripted.Do(tp.cut), scripted.Pause(time.Hour)))
				}
				start(t, process(dying, "a", stuck(dying)), "s", "go")
				testclock.Advance(2 * ttl)
				if name == "crash loop" {
					again := tapOn(st.Store)
					if _, err := process(again, "b", stuck(again)).Resume(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
					testclock.Advance(2 * ttl)
				}
				e.flush()
				c.end(t, process(st, "c", scripted.New(scripted.Text("done"), scripted.Text("done"))))
				synctest.Wait() // a turn has ended before its hooks are called
				e.want(t, c.want...)
			})
		})
	}
}
