package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// suspending is a store in which something happens right before a session is suspended.
type suspending struct {
	*tap
	before func()
}

func (s *suspending) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if c.EndRun != nil && c.EndRun.Status == cairn.RunSuspended && s.before != nil {
		s.before()
		s.before = nil
	}
	return s.tap.Commit(ctx, id, c)
}

// A turn that replaces a dead one ends its sub-agents, including those that their host drives until they would wait for
// an answer.
func TestSubAgentOfADeadTurnDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"at work": false, "about to wait": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			h, st := &byHand{}, &suspending{tap: tapOn(memstore.New(&memstore.Options{Now: func() time.Time { return now }}))}
			eng := open(t, st, consulting(), hostedBy(h), with(func(o *engine.Options) { o.Now = func() time.Time { return now } }))
			start(t, eng, "s", "go")
			b := h.begun[0]
			replace := func() {
				now = now.Add(time.Hour)
				start(t, eng, "s", "on", engine.FromMessage(0))
			}
			plan := decode[struct{ Children []string }](t, json.RawMessage(carry(t, eng, host.EffectPlan, next(b, ""))))
			child := decode[struct{ Drive host.Run }](t, json.RawMessage(carry(t, eng, host.EffectChild, next(b, plan.Children[0])))).Drive
			if late {
				st.before = replace
			} else {
				replace()
			}
			if _, err := loop.Drive(hand{t, eng}, child); err != nil {
				t.Fatal(err)
			}
			if status := load(t, st, child.SessionID).Status; status != cairn.SessionInterrupted && !late {
				t.Errorf("the sub-agent at work was not stopped: its session is %s", status)
			}
			carry(t, eng, host.EffectChild, json.RawMessage(strings.TrimSuffix(string(next(b, plan.Children[0])), "}")+`,"driven":"`+child.RunID+`"}`))
			if status, err := loop.Drive(hand{t, eng}, b); status != cairn.RunInterrupted || err != nil {
				t.Errorf("driving the run that was given up: %q, %v", status, err)
			}
			if row := load(t, st, child.SessionID); row.Status != cairn.SessionInterrupted || row.OpenCalls != 0 {
				t.Errorf("the sub-agent's session is %s and waits for %d", row.Status, row.OpenCalls)
			}
			if status, err := loop.Drive(hand{t, eng}, h.begun[1]); status != cairn.RunCompleted || err != nil {
				t.Errorf("driving the next run: %q, %v", status, err)
			}
			wantSound(t, st, "s")
		})
	}
}

// A process that loses a run ends the sub-agents that had just begun to wait for it.
func TestSubAgentOfALostRunDoesNotWait(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	clock := with(func(o *engine.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	})
	st := tapOn(memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }}))
	agent := consulting()
	two := open(t, tapOn(st.Store), agent, clock, named("two"))
	one := open(t, &suspending{tap: st, before: func() {
		passed.Store(int64(time.Hour))
		wantStatus(t, turn(t, two, "s", "on", engine.WithOnBusy(engine.BusyInterrupt)), cairn.RunCompleted, cairn.ReasonReply)
	}}, agent, clock, named("one"))
	_, err := start(t, one, "s", "go").Wait(t.Context())
	wantError(t, err, cairn.ErrFenced)
	children, err := st.List(t.Context(), store.SessionQuery{ParentID: "s"})
	if err != nil || len(children.Items) != 1 || children.Items[0].Status != cairn.SessionInterrupted {
		t.Errorf("%+v, %v", children.Items, err)
	}
	wantSound(t, st, "s")
}

// consulting is an agent whose first turn consults a sub-agent that asks a question.
func consulting() *cairn.Agent {
	sub := &cairn.Agent{Name: "sub", Model: scripted.New(scripted.Call("ask", in{"may we?"})),
		Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")}}
	return bot(scripted.New(scripted.Call("sub", map[string]string{"input": "go"}), scripted.Text("bye")), cairn.SubAgent(sub))
}

// A process dies behind the commit that begins a sub-agent, and the step is discarded. The sub-agent's run ends when
// its lease has lapsed, although its parent waits for another one.
func TestSubAgentOfADiscardedStepEndsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sub := &cairn.Agent{Name: "sub", Model: scripted.New(scripted.Call("ask", in{"may we?"})), Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")}}
		consult := scripted.Call("sub", map[string]string{"input": "go"})
		agent := func(pause time.Duration) *cairn.Agent {
			return bot(scripted.New(scripted.Reply(scripted.Pause(pause), consult), scripted.Reply(consult)), cairn.SubAgent(sub))
		}
		st := tapOn(nil)
		commits := 0
		st.stepIn(func(_ context.Context, op string) error {
			if op == "Renew" {
				return cairn.Errorf(cairn.ErrUnavailable, "no store")
			}
			return nil
		}, func(_ context.Context, op string) error {
			if op != "Commit" {
				return nil
			}
			if commits++; commits < 2 {
				return nil
			}
			st.cut()
			return cairn.Errorf(cairn.ErrUnavailable, "cut off")
		})
		start(t, open(t, st, agent(ttl/2), shortLease), "s", "go")
		testclock.Advance(ttl)

		two := open(t, tapOn(st.Store), agent(ttl/4), shortLease, named("b"))
		run, err := two.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		next := start(t, two, "s", "on", engine.WithOnBusy(engine.BusyEnqueue))
		go func() {
			if err := two.Abort(t.Context(), "s", "enough"); err != nil { // it waits for the whole tree
				t.Error(err)
			}
		}()
		wantStatus(t, wait(t, run), cairn.RunFailed, cairn.ReasonAborted)
		wantStatus(t, wait(t, next), cairn.RunSuspended, cairn.ReasonChildren)
		stop := work(t, two)
		testclock.Advance(time.Hour)
		stop()
		wantSound(t, st.Store, "s")
	})
}
