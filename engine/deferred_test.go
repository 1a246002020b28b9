package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// drawer is a toolset of deferred tools with long descriptions; full is their number.
type drawer struct{ full int }

func (d *drawer) Name() string { return "drawer" }

func (d *drawer) Offer(_ context.Context, _ *cairn.Step, pinned json.RawMessage) (*cairn.Offer, error) {
	if now := fmt.Sprint(d.full); now != string(pinned) {
		return &cairn.Offer{Pinned: json.RawMessage(now), Note: "The drawer has changed."}, nil
	}
	return nil, nil
}

func (d *drawer) Tools(pinned json.RawMessage) (list []cairn.Tool, err error) {
	n := 0
	err = json.Unmarshal(pinned, &n)
	for i := range n {
		list = append(list, cairn.Func(fmt.Sprint("spoon_", i), strings.Repeat("Stirs. ", 50), stirs, cairn.Deferred()))
	}
	return list, err
}

func stirs(context.Context, *cairn.Call, struct{}) (string, error) { return "stirred", nil }

// Deferred tools are listed while the list is small enough. Once the model has found some, they are not listed any more
// in that session, so that its cached prefix does not change with the size of an offer.
func TestDeferredToolsAreListedWhileThereAreFew(t *testing.T) {
	t.Parallel()
	var listed []string
	says := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		var names []string
		for _, tool := range req.Tools {
			names = append(names, tool.Name)
		}
		listed = append(listed, strings.Join(names, " "))
		last := len(req.Messages) - 1
		for req.Messages[last].Hidden {
			last--
		}
		if m := req.Messages[last]; m.Role == cairn.RoleUser && m.Text() == "find" {
			return scripted.Call(cairn.FindTools, map[string]string{"query": "spoon"})
		}
		return scripted.Text("Yes.")
	})
	d := &drawer{full: 2}
	agent := &cairn.Agent{Name: "bot", Model: says, Toolsets: []cairn.Toolset{d}, DeferAbove: 1000,
		Tools: []cairn.Tool{cairn.Func("look", "Looks.", stirs)}}
	st := tapOn(nil)
	eng := open(t, st, agent)
	all := func(n int) string {
		names := []string{"look"}
		for i := range n {
			names = append(names, fmt.Sprint("spoon_", i))
		}
		return strings.Join(names, " ")
	}
	const few = "look tools__find tools__call"
	say := func(session, text, want string) {
		t.Helper()
		listed = nil
		turn(t, eng, session, text)
		if got := slices.Compact(listed); len(got) != 1 || got[0] != want {
			t.Errorf("%s %q: the requests list %q, want %q", session, text, got, want)
		}
	}
	say("s", "hello", all(2))
	d.full = 20
	say("s", "hello again", few)
	d.full = 3
	say("s", "and again", all(3)) // nothing was found
	d.full = 20
	say("s", "find", few)
	d.full = 3
	say("s", "and again", few)
	say("other", "hello", all(3))

	agent = &cairn.Agent{Name: "bot", Model: says, Toolsets: agent.Toolsets, DeferAbove: -1, Tools: agent.Tools}
	d.full = 200
	eng = open(t, st, agent, named("two"))
	say("s", "hello", all(200))
	agent = &cairn.Agent{Name: "bot", Model: says, Toolsets: agent.Toolsets, Tools: agent.Tools}
	eng = open(t, st, agent, named("three"))
	say("s", "hello", few)
	d.full = 10
	say("other", "hello", all(10))
}

// A summary says which tools the model has found, and they can still be called.
func TestFoundToolsAfterASummary(t *testing.T) {
	t.Parallel()
	var last *cairn.Request
	says := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.System == cairn.SummaryInstructions {
			return scripted.Text("There was talk.")
		}
		last = req
		m := req.Messages[len(req.Messages)-1]
		switch text := m.Text(); {
		case m.Role != cairn.RoleUser:
		case text == "find":
			return scripted.Call(cairn.FindTools, map[string]string{"query": "stir"})
		case text == "call":
			return scripted.Call(cairn.CallTool, map[string]string{"name": "stir"})
		}
		return scripted.Text(strings.Repeat("Yes. ", 100))
	})
	agent := &cairn.Agent{Name: "bot", Model: says, DeferAbove: 1, Tools: []cairn.Tool{cairn.Func("stir", "Stirs.", stirs, cairn.Deferred())}}
	st := tapOn(nil)
	eng := open(t, st, agent)
	for _, text := range []string{"find", "hello", "hello", "hello"} {
		turn(t, eng, "s", text)
	}
	for range 2 { // a summary of the summary says so too
		if _, err := eng.Compact(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		turn(t, eng, "s", "call")
		first := last.Messages[0]
		if first.Summary == nil || !slices.Equal(first.Summary.Found, []string{"stir"}) || !strings.Contains(first.Text(), "tools__find shows their schemas again: stir") {
			t.Fatalf("the summary is %+v", first)
		}
		result := last.Messages[len(last.Messages)-1].ToolResults()[0]
		use := last.Messages[len(last.Messages)-2].ToolUses()[0]
		if use.Tool != cairn.CallTool || string(use.Input) != `{"name":"stir","input":{}}` {
			t.Errorf("the model is sent its call as %+v", use)
		}
		if result.IsError || result.Tool != cairn.CallTool {
			t.Errorf("the call came to %+v", result)
		}
		for range 3 {
			turn(t, eng, "s", "hello")
		}
	}
}
