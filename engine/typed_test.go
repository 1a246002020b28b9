package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type notebook struct {
	Notes []string `json:"notes"`
}

func TestStateAs(t *testing.T) {
	t.Parallel()
	note := cairn.Func("note", "Writes down.", func(_ context.Context, call *cairn.Call, in task) (string, error) {
		return "", cairn.UpdateState(call, func(s *notebook) { s.Notes = append(s.Notes, in.Input) })
	})
	agent := bot(scripted.New(scripted.Call("note", task{"milk"}), scripted.Text("done")), note)
	agent.State = cairn.StateOf[notebook]()
	eng := open(t, memstore.New(nil), agent)
	turn(t, eng, "s", "go")
	if state, err := engine.StateAs[notebook](t.Context(), eng, "s"); err != nil || fmt.Sprint(state) != "{[milk]}" {
		t.Errorf("state %+v, %v", state, err)
	}
	if _, err := engine.StateAs[[]int](t.Context(), eng, "s"); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrState {
		t.Errorf("a state of another type: %v", err)
	}
	_, err := engine.StateAs[notebook](t.Context(), eng, "none")
	wantError(t, err, cairn.ErrNotFound)
}

func TestAllMessages(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("hello"))))
	turn(t, eng, "s", "hi")
	for n := range 250 {
		if err := eng.AddContext(t.Context(), "s", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for m, err := range eng.AllMessages(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		if n >= 2 && m.Text() != fmt.Sprint(n-2) {
			t.Fatalf("message %d is %q", n, m.Text())
		}
		n++
	}
	if n != 252 {
		t.Errorf("%d messages", n)
	}
	for range eng.AllMessages(t.Context(), "s") {
		break
	}
	for _, err := range eng.AllMessages(t.Context(), "none") {
		wantError(t, err, cairn.ErrNotFound)
	}
}

func TestTreeUsageCountsEverythingBelow(t *testing.T) {
	t.Parallel()
	leaf := &cairn.Agent{Name: "leaf", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok").Usage(1, 0) })}
	middle := &cairn.Agent{Name: "middle", Model: scripted.New(scripted.Call("leaf", task{"a"}).Usage(10, 0), scripted.Text("ok").Usage(10, 0)),
		Tools: []cairn.Tool{cairn.SubAgent(leaf)}}
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Reply(scripted.Call("middle", task{"a"}), scripted.Call("leaf", task{"b"})).Usage(100, 0),
		scripted.Text("done").Usage(100, 0)), cairn.SubAgent(middle), cairn.SubAgent(leaf)))
	turn(t, eng, "s", "go")
	for s, err := range allSessions(t, eng) {
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"bot": 222, "middle": 21, "leaf": 1}[s.Agent]
		if used, err := eng.TreeUsage(t.Context(), s.ID); err != nil || used.InputTokens != want {
			t.Errorf("%s has used %+v, %v; want %d tokens", s.Agent, used, err, want)
		}
	}
	_, err := eng.TreeUsage(t.Context(), "none")
	wantError(t, err, cairn.ErrNotFound)
}

// The sub-agent gets the arguments; arguments that violate the schema go back to the model that made them.
func TestSubAgentOfATypedTask(t *testing.T) {
	t.Parallel()
	type search struct {
		Topic string `json:"topic"`
		Depth int    `json:"depth" schema:"min=1"`
	}
	model := scripted.New(scripted.Text("found"))
	finder := &cairn.Agent{Name: "finder", Description: "Finds.", Model: model}
	main := scripted.New(scripted.Call("finder", search{"stars", 0}), scripted.Call("finder", search{"stars", 2}), scripted.Text("done"))
	turn(t, open(t, memstore.New(nil), bot(main, cairn.SubAgentOf[search](finder))), "s", "go")
	requests := model.Requests()
	if len(requests) != 1 || requests[0].Messages[0].Text() != `{"topic":"stars","depth":2}` {
		t.Errorf("the sub-agent was asked %+v", requests)
	}
	if n := main.Calls(); n != 3 {
		t.Errorf("the model was called %d times", n)
	}
}
