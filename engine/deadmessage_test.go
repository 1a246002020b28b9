package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// cashier is an agent whose one reply calls pay, directly or through a sub-agent, and a tool that hangs the first time.
type cashier struct {
	*cairn.Agent
	paid []string // idempotency keys of the payments
	slow int      // calls of the tool that hangs
}

func newCashier(throughSub bool) *cashier {
	c := &cashier{}
	pay := tool("pay", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		c.paid = append(c.paid, call.IdempotencyKey())
		return "paid", nil
	})
	slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
		if c.slow++; c.slow == 1 {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "done", nil
	})
	calls := scripted.Reply(scripted.Call("pay", in{}), scripted.Call("slow", in{}))
	if throughSub {
		helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Call("pay", in{}), scripted.Text("It is paid.")), Tools: []cairn.Tool{pay}}
		calls, pay = scripted.Reply(scripted.Call("helper", map[string]string{"input": "pay"}), scripted.Call("slow", in{})), cairn.SubAgent(helper)
	}
	c.Agent = bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if slices.ContainsFunc(req.Messages, func(m cairn.Message) bool { return len(m.ToolResults()) > 0 }) {
			return scripted.Text("It is paid.")
		}
		return calls
	}), pay, slow)
	return c
}

// die leaves a run of c under way in a process that is dead, with a lease that has lapsed: it has paid, and hangs.
func (c *cashier) die(t *testing.T) *tap {
	t.Helper()
	st := tapOn(nil)
	eng := open(t, st, c.Agent, shortLease)
	start(t, eng, "s", "Pay 1.")
	synctest.Wait()
	st.cut()
	testclock.Advance(2 * ttl)
	if row := load(t, st.Store, "s"); !row.Crashed(row.AsOf) || len(c.paid) != 1 || c.slow != 1 {
		t.Fatalf("the dead process left %d payments, %d slow calls and %+v", len(c.paid), c.slow, row)
	}
	return tapOn(st.Store)
}

// TestMessageToDeadSessionRepeatsNoResult sends a message to a session whose process has died, in each way. What the
// step under way has staged is kept: the run is taken over and driven to its end, or stopped with its results.
func TestMessageToDeadSessionRepeatsNoResult(t *testing.T) {
	t.Parallel()
	say := func(opts ...engine.RunOption) func(context.Context, *engine.Engine) (*engine.Run, error) {
		return func(ctx context.Context, eng *engine.Engine) (*engine.Run, error) {
			return eng.Execute(ctx, "s", "bot", cairn.Text("Is it paid?"), opts...)
		}
	}
	for name, c := range map[string]struct {
		say func(context.Context, *engine.Engine) (*engine.Run, error)
		// slow is how often the call is made that was at work when the process died; stopped reports whether it is
		// closed instead.
		slow    int
		stopped bool
	}{
		"reject":    {say(), 2, false},
		"enqueue":   {say(engine.WithOnBusy(engine.BusyEnqueue)), 2, false},
		"steer":     {say(engine.WithOnBusy(engine.BusySteer)), 2, false},
		"interrupt": {say(engine.WithOnBusy(engine.BusyInterrupt)), 1, true},
		"resume with input": {func(ctx context.Context, eng *engine.Engine) (*engine.Run, error) {
			return eng.Resume(ctx, "s", engine.WithInput(cairn.Text("Is it paid?")))
		}, 2, false},
		"named": {say(engine.WithRunID("mine")), 2, false},
	} {
		for made, throughSub := range map[string]bool{"by a tool": false, "by a sub-agent": true} {
			t.Run(name+"/"+made, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					agent := newCashier(throughSub)
					if !throughSub {
						agent.Durability = cairn.PerTool // a finished sub-agent is kept with any durability
					}
					st := agent.die(t)
					eng := open(t, st, agent.Agent, shortLease, named("b"))
					run, err := c.say(t.Context(), eng)
					if err != nil {
						t.Fatal(err)
					}
					wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
					if len(agent.paid) != 1 || agent.slow != c.slow {
						t.Errorf("%d payments and %d slow calls, want 1 and %d", len(agent.paid), agent.slow, c.slow)
					}
					closed := false
					for _, m := range messages(t, st.Store, "s") {
						for _, r := range m.ToolResults() {
							closed = closed || r.Tool == "slow" && r.Code == cairn.ErrStopped
						}
					}
					if closed != c.stopped {
						t.Errorf("the call at work is closed as stopped: %t, want %t", closed, c.stopped)
					}
					wantSound(t, st, "s")
				})
			})
		}
	}
}

// A rollback drops what a dead process left, and its result names the tools that may have had effects.
func TestRollbackOfDeadRunNamesItsTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := newCashier(false)
		agent.Durability = cairn.PerTool
		st := agent.die(t)
		res := turn(t, open(t, st, agent.Agent, shortLease, named("b")), "s", "Pay 2.", engine.WithOnBusy(engine.BusyRollback))
		if want := []string{"pay", "slow"}; !slices.Equal(res.RolledBack, want) {
			t.Errorf("the result names %v, want %v", res.RolledBack, want)
		}
		if list := messages(t, st.Store, "s"); list[0].Text() != "Pay 2." {
			t.Errorf("the transcript begins with %q", list[0].Text())
		}
		wantSound(t, st, "s")
	})
}

// Until its lease lapses, a dead run looks like a running one: the refusal says until when.
func TestRefusalSaysWhenTheLeaseLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		start(t, open(t, st, bot(scripted.New(scripted.Reply(scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease), "s", "go")
		synctest.Wait()
		testclock.Advance(ttl / 4)
		eng := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("one"), scripted.Text("two"))), shortLease, named("b"))
		_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hello?"))
		wantError(t, err, cairn.ErrAlreadyRunning)
		if e := cairn.AsError(err); e.RetryAfter != cairn.Duration(ttl-ttl/4) {
			t.Errorf("it is to be retried after %s, want %s", e.RetryAfter, ttl-ttl/4)
		}
		testclock.Advance(time.Duration(cairn.AsError(err).RetryAfter))
		wantStatus(t, turn(t, eng, "s", "hello?"), cairn.RunCompleted, cairn.ReasonReply)
	})
}

// Hooks cannot be queued with a turn. The refusal can be retried: the run is taken over meanwhile.
func TestTurnWithHooksWaitsForDeadRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := newCashier(false)
		agent.Durability = cairn.PerTool
		st := agent.die(t)
		eng := open(t, st, agent.Agent, shortLease, named("b"))
		hooks := engine.WithHooks(&cairn.Hooks{})
		_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Is it paid?"), hooks)
		wantError(t, err, cairn.ErrAlreadyRunning)
		synctest.Wait()
		wantStatus(t, turn(t, eng, "s", "Is it paid?", hooks), cairn.RunCompleted, cairn.ReasonReply)
		if len(agent.paid) != 1 {
			t.Errorf("%d payments", len(agent.paid))
		}
	})
}

// A turn that is queued behind a run which crashes every process begins when that run has failed, without a worker.
func TestTurnBeginsBehindCrashLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		dies := func(owner string) {
			own := tapOn(st.Store)
			eng := open(t, own, bot(scripted.New(scripted.Reply(scripted.Do(own.cut), scripted.Pause(time.Hour)))), shortLease, named(owner), limited(1))
			if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go "+owner)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			testclock.Advance(2 * ttl)
		}
		dies("a") // begins the run
		dies("b") // queues a turn and takes the run over
		eng := open(t, tapOn(st.Store), bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("fine") })), shortLease, named("c"), limited(1))
		res := turn(t, eng, "s", "go c")
		wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
		var said []string
		for _, m := range messages(t, st.Store, "s") {
			if m.Role == cairn.RoleUser {
				said = append(said, m.Text())
			}
		}
		if got := strings.Join(said, ", "); got != "go a, go b, go c" {
			t.Errorf("the transcript has %s", got)
		}
		if r := runsOf(t, st.Store, "s"); !errors.Is(r[0].Error, &cairn.Error{Code: cairn.ErrCrashLoop}) {
			t.Errorf("the first run: %+v", r[0])
		}
	})
}

func limited(recoveries int) option {
	return with(func(o *engine.Options) { o.MaxRecoveries = recoveries })
}

// A message to a companion whose process has died keeps what its tools did: its step is committed with their results
// before the message's turn begins.
func TestMessageToDeadCompanionRepeatsNoResult(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]cairn.CompanionMode{"blocking": cairn.Blocking, "background": cairn.NonBlocking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				helper := newCashier(false)
				helper.Name, helper.Durability = "helper", cairn.PerTool
				parent := bot(scripted.New(
					scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "helper", "name": "ann", "message": "Pay 1."}),
					scripted.Text("I started it."),
					scripted.Call(cairn.CompanionSend, map[string]string{"name": "ann", "message": "Is it paid?"}),
					scripted.Text("Yes.")))
				parent.Companions = []cairn.Companion{{Agent: helper.Agent, Mode: cairn.NonBlocking}}
				st := tapOn(nil)
				wantStatus(t, turn(t, open(t, st, parent, shortLease), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
				synctest.Wait()
				st.cut()
				testclock.Advance(2 * ttl)
				if len(helper.paid) != 1 || helper.slow != 1 {
					t.Fatalf("%d payments, %d slow calls", len(helper.paid), helper.slow)
				}
				again := *parent
				again.Companions = []cairn.Companion{{Agent: helper.Agent, Mode: mode}}
				other := tapOn(st.Store)
				wantStatus(t, turn(t, open(t, other, &again, shortLease, named("b")), "s", "ask it"), cairn.RunCompleted, cairn.ReasonReply)
				if len(helper.paid) != 1 || helper.slow != 1 {
					t.Errorf("%d payments and %d slow calls, want 1 each", len(helper.paid), helper.slow)
				}
				synctest.Wait()
				wantSound(t, other, "s")
			})
		})
	}
}
