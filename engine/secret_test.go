package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// TestErrorsOfToolsStayPrivate fails tools in several ways: the model reads all errors, the event log only those
// composed for readers.
func TestErrorsOfToolsStayPrivate(t *testing.T) {
	raw := errors.New("dial db: password=hunter2")
	fail := func(err error) func(context.Context, *cairn.Call, in) (string, error) {
		return func(context.Context, *cairn.Call, in) (string, error) { return "", err }
	}
	for name, c := range map[string]struct {
		run     func(context.Context, *cairn.Call, in) (string, error)
		show    bool
		visible bool
	}{
		"a raw error":        {fail(raw), false, false},
		"shown on request":   {fail(raw), true, true},
		"a panic":            {func(context.Context, *cairn.Call, in) (string, error) { panic(raw) }, false, false},
		"composed by a tool": {fail(cairn.Errorf(cairn.ErrTool, "hunter2 is no such order")), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			st := tapOn(nil)
			agent := bot(scripted.New(scripted.Call("look", in{"x"}), scripted.Text("done")), tool("look", c.run))
			agent.ShowToolErrors, agent.Durability = c.show, cairn.PerTool
			eng := open(t, st, agent)
			turn(t, eng, "s", "go")
			const secret = "hunter2"
			if raw, _ := json.Marshal(messages(t, st, "s")); !strings.Contains(string(raw), secret) {
				t.Errorf("the model does not read the error: %s", raw)
			}
			events, err := eng.History(t.Context(), "s", cairn.Cursor{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if raw, _ := json.Marshal(events); strings.Contains(string(raw), secret) != c.visible {
				t.Errorf("the log shows the error: %t, want %t: %s", !c.visible, c.visible, raw)
			}
		})
	}
}

// TestErrorsAgainstCallsStayPrivate refuses calls by hooks, and consults an agent that fails.
func TestErrorsAgainstCallsStayPrivate(t *testing.T) {
	const secret = "hunter2"
	raw := errors.New("dial db: password=" + secret)
	refuse := func(err error) *cairn.Hooks {
		return &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error { return err }}
	}
	for name, c := range map[string]struct {
		tool    string
		hooks   *cairn.Hooks
		show    bool
		visible bool
	}{
		"a hook":             {"look", refuse(raw), false, false},
		"a hook, shown":      {"look", refuse(raw), true, true},
		"a hook's own":       {"look", refuse(cairn.Errorf(cairn.ErrDenied, "hunter2 is not yours")), false, true},
		"a hook that panics": {"look", &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error { panic(raw) }}, false, false},
		"a hook of agents":   {"child", &cairn.Hooks{BeforeSubAgent: func(context.Context, *cairn.Call, string) error { return raw }}, false, false},
		"an agent":           {"child", nil, false, false},
		"an agent, shown":    {"child", nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			child := &cairn.Agent{Name: "child", Model: scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "key hunter2")))}
			args := map[string]any{"look": in{"x"}, "child": map[string]string{"input": "x"}}
			agent := bot(scripted.New(scripted.Call(c.tool, args[c.tool]), scripted.Text("done")), echo("look"), cairn.SubAgent(child))
			agent.ShowToolErrors, agent.Hooks = c.show, c.hooks
			st := tapOn(nil)
			eng := open(t, st, agent)
			turn(t, eng, "s", "go")
			list := messages(t, st, "s")
			if raw, _ := json.Marshal(list); !strings.Contains(string(raw), secret) {
				t.Errorf("the model does not read the error: %s", raw)
			}
			var shown []any
			for i := range list {
				shown = append(shown, list[i].Public())
			}
			for _, ev := range history(t, st, "s") {
				shown = append(shown, ev.Public())
			}
			if raw, _ := json.Marshal(shown); strings.Contains(string(raw), secret) != c.visible {
				t.Errorf("the user is shown the error: %t, want %t: %s", !c.visible, c.visible, raw)
			}
		})
	}
}

// TestSnapshotAsJSON encodes what a reader gets: it has no lease and nothing that only the model reads.
func TestSnapshotAsJSON(t *testing.T) {
	st := tapOn(nil)
	gate := make(chan struct{})
	eng := open(t, st, bot(scripted.New(scripted.Text("hi"), scripted.Reply(scripted.Gate(gate), scripted.Text("done")))))
	turn(t, eng, "s", "hello")
	wantError(t, eng.AddContext(t.Context(), "s", "the customer is in arrears"), nil)
	run := start(t, eng, "s", "and now?")
	wantError(t, eng.AddContext(t.Context(), "s", "the arrears are paid"), nil) // the run has yet to append it
	snap, err := eng.Snapshot(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(snap)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"arrears", `"lease"`, `"token"`, snap.Session.Secret} {
		if strings.Contains(string(raw), word) {
			t.Errorf("a snapshot as JSON has %q: %s", word, raw)
		}
	}
	if !strings.Contains(string(raw), "hello") || len(snap.Messages) != 4 {
		t.Errorf("a snapshot lacks messages: %s", raw)
	}
	close(gate)
	wait(t, run)
}
