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

// TestErrorsOfToolsStayPrivate fails tools in several ways: the model reads all errors, the event log has those that were
// composed for others.
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
		"composed by a tool": {fail(cairn.Errorf(cairn.CodeTool, "hunter2 is no such order")), false, true},
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

// TestSnapshotAsJSON encodes what a reader is given: it has no lease and nothing that only the model reads.
func TestSnapshotAsJSON(t *testing.T) {
	st := tapOn(nil)
	gate := make(chan struct{})
	eng := open(t, st, bot(scripted.New(scripted.Reply(scripted.Gate(gate), scripted.Text("done")))))
	run := start(t, eng, "s", "hello")
	if err := eng.AddContext(t.Context(), "s", "the customer is in arrears"); err != nil {
		t.Fatal(err)
	}
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
	if !strings.Contains(string(raw), "hello") || len(snap.Messages) != 2 {
		t.Errorf("a snapshot lacks messages: %s", raw)
	}
	close(gate)
	wait(t, run)
}
