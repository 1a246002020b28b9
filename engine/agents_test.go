package engine_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A run under way keeps its agent, and the agents that this delegates to, when others are registered; the next run has the
// new ones.
func TestAgentsAreReplaced(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("helped"))}
	old := bot(scripted.New(scripted.Call("hold", in{"x"}).ID("c1"), scripted.Call("helper", map[string]string{"input": "go"}).ID("c2"), scripted.Text("the old one")),
		tool("hold", func(context.Context, *cairn.Call, in) (string, error) {
			close(began)
			<-release
			return "held", nil
		}), cairn.SubAgent(helper))
	st := memstore.New(nil)
	eng := open(t, st, old)
	run := start(t, eng, "s", "hi")
	<-began
	if err := eng.Replace(bot(scripted.New(scripted.Text("the new one"))), &cairn.Agent{Name: "other", Model: scripted.New()}); err != nil {
		t.Fatal(err)
	}
	close(release)
	if res := wait(t, run); res.Status != cairn.RunCompleted || res.Text != "the old one" {
		t.Errorf("the run under way ended %s with %q", res.Status, res.Text)
	}
	if r := result(t, messages(t, st, "s"), callOf(t, st, "s", 1)); r.IsError || string(r.Output) != `"helped"` {
		t.Errorf("its sub-agent, which is not registered any more, came to %s", r.Output)
	}
	if res := turn(t, eng, "s", "again"); res.Text != "the new one" {
		t.Errorf("the next turn says %q", res.Text)
	}
	if _, err := eng.Execute(t.Context(), "t", "helper", cairn.Text("hi")); err == nil {
		t.Error("an agent runs that is not registered any more")
	}
	if _, err := eng.Execute(t.Context(), "t", "other", cairn.Text("hi")); err != nil {
		t.Errorf("an agent that was added does not run: %v", err)
	}
}

func TestAgentsThatAreWrongReplaceNone(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("still here"))))
	twice := &cairn.Agent{Name: "twice", Model: scripted.New()}
	for name, list := range map[string][]*cairn.Agent{
		"nil": {nil}, "without a model": {{Name: "empty"}}, "of one name": {twice, {Name: "twice", Model: scripted.New()}},
		"of the name of a sub-agent": {twice, bot(scripted.New(), cairn.SubAgent(&cairn.Agent{Name: "twice", Model: scripted.New()}))},
	} {
		wantError(t, eng.Replace(list...), cairn.ErrInvalid)
		if t.Failed() {
			t.Fatalf("agents %s", name)
		}
	}
	if res := turn(t, eng, "s", "hi"); res.Text != "still here" {
		t.Errorf("the agent says %q", res.Text)
	}
}
