package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
)

// An attempt at a call publishes that it consults another agent and dies before it has begun a session. If the run is
// stopped before the next attempt, the log says that the consultation has ended and that the call was under way.
func TestStopAfterAnAttemptThatConsulted(t *testing.T) {
	t.Parallel()
	companion, _ := companions(cairn.NonBlocking, &cairn.Agent{Name: "scribe", Model: scripted.New(scripted.Text("done"))}, spawn("c1", "ann", "ask"), scripted.Text("fine"))
	for kind, agent := range map[string]*cairn.Agent{
		"a companion": companion,
		"a sub-agent": {Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(&cairn.Agent{Name: "scribe", Model: scripted.New(scripted.Text("done"))})}, Model: scripted.New(
			scripted.Call("scribe", map[string]string{"input": "ask"}).ID("c1"), scripted.Text("fine"))},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := &byHand{}
			st := tapOn(nil)
			dies := tapOn(st.Store)
			one, two := open(t, dies, agent, hostedBy(h)), open(t, st, agent, hostedBy(h), named("b"))
			start(t, one, "s", "go")
			run := h.begun[0]
			plan := decode[struct{ Children []string }](t, json.RawMessage(carry(t, one, host.EffectPlan, next(run, ""))))
			call := plan.Children[0]
			ctx, die := context.WithCancel(t.Context())
			dies.stepIn(func(_ context.Context, op string) error {
				if op == "Commit" {
					die()
				}
				return ctx.Err()
			}, nil)
			if out, err := one.ForHost().Effect(ctx, host.EffectChild, next(run, call)); err == nil {
				t.Fatalf("the attempt came to %s", out)
			}
			if err := st.RequestStop(t.Context(), "s", cairn.Stop{RunID: run.RunID, Kind: cairn.StopInterrupt, Reason: "enough"}); err != nil {
				t.Fatal(err)
			}
			carry(t, two, host.EffectChild, next(run, call))
			carry(t, two, host.EffectCommit, next(run, ""))
			var ends []string
			for _, ev := range history(t, st, "s") {
				if ev.CallID == call && (ev.Type == cairn.EventSubagentStart || ev.Type == cairn.EventSubagentEnd || ev.Type == cairn.EventToolEnd) {
					ends = append(ends, string(ev.Type))
				}
			}
			if want := []string{"subagent_start", "subagent_end", "tool_end"}; !slices.Equal(ends, want) {
				t.Errorf("the call has the events %q, want %q", ends, want)
			}
			if r := result(t, messages(t, st.Store, "s"), call); !r.IsError || r.Code != cairn.ErrStopped {
				t.Errorf("the call came to %+v", r)
			}
		})
	}
}

// A host asks again for a sub-agent's run whose beginning it did not learn of, and the caller was stopped before: that
// run is still driven to its end within the call.
func TestStopBeforeASecondAttemptAtAConsultation(t *testing.T) {
	t.Parallel()
	h, st := &byHand{}, tapOn(nil)
	agent := bot(scripted.New(scripted.Call("scribe", map[string]string{"input": "ask"}), scripted.Text("fine")),
		cairn.SubAgent(&cairn.Agent{Name: "scribe", Model: scripted.New(scripted.Text("done"))}))
	eng := open(t, st, agent, hostedBy(h))
	start(t, eng, "s", "go")
	run := h.begun[0]
	call := decode[struct{ Children []string }](t, json.RawMessage(carry(t, eng, host.EffectPlan, next(run, "")))).Children[0]
	first := carry(t, eng, host.EffectChild, next(run, call))
	if err := st.RequestStop(t.Context(), "s", cairn.Stop{RunID: run.RunID, Kind: cairn.StopInterrupt, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	second := carry(t, eng, host.EffectChild, next(run, call))
	type answer struct{ Drive *host.Run }
	drive := decode[answer](t, json.RawMessage(second)).Drive
	if drive == nil || drive.RunID != decode[answer](t, json.RawMessage(first)).Drive.RunID {
		t.Fatalf("the second attempt says %s, the first said %s", second, first)
	}
	drives(t, eng, *drive, cairn.RunInterrupted)
	carry(t, eng, host.EffectCommit, next(run, ""))
	wantSound(t, st, "s")
}

// A process begins another agent's session and dies before it has staged that. If the run is stopped before the next
// attempt, the session's run ends within the call all the same, before the run that consulted it.
func TestStopAfterAnAttemptThatBeganASession(t *testing.T) {
	t.Parallel()
	scribe := func() *cairn.Agent {
		return &cairn.Agent{Name: "scribe", Model: scripted.New(scripted.Text("done"), scripted.Text("done"))}
	}
	again, _ := companions(cairn.Blocking, scribe(), spawn("c0", "ann", "ask"), send("c1", "ann", "again"))
	spawned, _ := companions(cairn.Blocking, scribe(), spawn("c1", "ann", "ask"), scripted.Text("fine"))
	for kind, test := range map[string]struct {
		agent  *cairn.Agent
		before bool // the companion is spawned by a step before
	}{
		"a sub-agent": {bot(scripted.New(scripted.Call("scribe", map[string]string{"input": "ask"}).ID("c1"), scripted.Text("fine")), cairn.SubAgent(scribe())), false},
		"a companion": {spawned, false},
		"a message":   {again, true},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, st := &byHand{}, tapOn(nil)
				dies := tapOn(st.Store)
				one, two := open(t, dies, test.agent, hostedBy(h)), open(t, st, test.agent, hostedBy(h), named("b"))
				start(t, one, "s", "go")
				run := h.begun[0]
				child := func(eng *engine.Engine, call string) *host.Run {
					return decode[struct{ Drive *host.Run }](t, json.RawMessage(carry(t, eng, host.EffectChild, next(run, call)))).Drive
				}
				call := decode[struct{ Children []string }](t, json.RawMessage(carry(t, one, host.EffectPlan, next(run, "")))).Children[0]
				if test.before {
					drives(t, one, *child(one, call), cairn.RunCompleted)
					child(one, call)
					carry(t, one, host.EffectCommit, next(run, ""))
					run.Step++
					call = decode[struct{ Children []string }](t, json.RawMessage(carry(t, one, host.EffectPlan, next(run, "")))).Children[0]
				}
				ctx, die := context.WithCancel(t.Context())
				dies.stepIn(func(_ context.Context, op string) error {
					if op == "Stage" {
						die()
					}
					return ctx.Err()
				}, nil)
				if out, err := one.ForHost().Effect(ctx, host.EffectChild, next(run, call)); err == nil {
					t.Fatalf("the attempt came to %s", out)
				}
				if err := st.RequestStop(t.Context(), "s", cairn.Stop{RunID: run.RunID, Kind: cairn.StopInterrupt, Reason: "enough"}); err != nil {
					t.Fatal(err)
				}
				drive := child(two, call)
				if drive == nil {
					t.Fatal("the next attempt drives no run")
				}
				drives(t, two, *drive, cairn.RunInterrupted)
				child(two, call)
				carry(t, two, host.EffectCommit, next(run, ""))
				wantSound(t, st, "s")
			})
		})
	}
}
