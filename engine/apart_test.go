package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// drives drives a run by hand, to an end that it must come to.
func drives(t *testing.T, eng *engine.Engine, b engine.Begun, want cairn.RunStatus) {
	t.Helper()
	if status, err := engine.Drive(hand{t, eng}, b); status != want || err != nil {
		t.Fatalf("driving the run: %q, want %q; error %v", status, want, err)
	}
}

// clocked returns a store with a clock that the test moves, and an option for engines that have the same.
func clocked() (st *memstore.Store, pass func(time.Duration), clock option) {
	at := time.Now()
	now := func() time.Time { return at }
	return memstore.New(&memstore.Options{Now: now}), func(d time.Duration) { at = at.Add(d) },
		with(func(o *engine.Options) { o.Now = now })
}

// What followed steps that were put off is repeated with them, though a reply that delegates is kept otherwise.
func TestStepsPutOffAreRepeatedWithWhatFollowed(t *testing.T) {
	t.Parallel()
	st, pass, clock := clocked()
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("found"), scripted.Text("found"))}
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch len(req.Messages) {
		case 1:
			return scripted.Reply(scripted.Text("first "), scripted.Call("note", in{"n"}).ID("c1"))
		case 3:
			return scripted.Reply(scripted.Text("second "), scripted.Call("helper", map[string]string{"input": "look"}).ID("c2"))
		}
		return scripted.Text("bye")
	})
	agent := bot(model, note(), cairn.SubAgent(helper))
	agent.Durability = cairn.Manual
	h := &byHand{}
	one, two := open(t, st, agent, hostedBy(h), clock), open(t, st, agent, hostedBy(h), clock, named("b"))
	start(t, one, "s", "go")
	first := h.begun[0]
	carry(t, one, engine.EffectPlan, next(first, ""))
	carry(t, one, engine.EffectTool, next(first, "c1"))
	carry(t, one, engine.EffectCommit, next(first, ""))
	second := first
	second.Step++
	carry(t, one, engine.EffectPlan, next(second, ""))

	pass(time.Hour)
	if _, err := two.Resume(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	drives(t, two, h.begun[1], cairn.RunCompleted)
	wantSound(t, tapOn(st), "s")
}
