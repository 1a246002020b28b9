package journal

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/memstore"
)

// What Redo publishes is recognised as what the reply says, however much it is cut: else each effect would publish it again. What another
// attempt has published is not.
func TestRedoneStepIsRecognised(t *testing.T) {
	t.Parallel()
	const max = 8 << 10
	g := newTestLog(memstore.New(&memstore.Options{MaxEvent: max}).EventLog(), -1)
	row := &cairn.Session{ID: "s", RootID: "s", Agent: "a"}
	attempt := func() *Emitter {
		return g.Attempt(t.Context(), row, "run_1", 0, Attempt{Step: 1, GiveUp: func(error) {}})
	}
	st := step.New("run_1", 1, nil, nil)
	use := func(id string) cairn.Part {
		return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "echo", Input: json.RawMessage(`"` + strings.Repeat("x", 2*max) + `"`)}}
	}
	st.Add(&step.Reply{Message: &cairn.Message{Role: cairn.RoleAssistant, Model: "other:model", Parts: []cairn.Part{
		{Type: cairn.PartReasoning, Text: strings.Repeat("hm", max)}, cairn.TextPart(strings.Repeat("<é>", max)), use("c1"), use("c2")}}})
	st.Add(&step.Result{Began: true, Result: &cairn.ToolResult{CallID: "c1", Tool: "echo", Output: json.RawMessage(`"x"`)}})

	whole := func(e *Emitter, want bool, after string) {
		t.Helper()
		if got, err := e.SkipPublished(t.Context(), 0, st); got != want || err != nil {
			t.Fatalf("after %s the log says the reply: %v, want %v; error %v", after, got, want, err)
		}
	}
	late, e := attempt(), attempt()
	whole(e, true, "nothing")
	e.Event(StepStart(1))
	e.Event(cairn.Event{Type: cairn.EventTextDelta, Step: 1, Text: "another text"})
	whole(late, false, "another attempt")
	e.Event(StepDiscarded(1, nil))
	wantStale(t, late.Redo(t.Context(), st))
	whole(late, false, "a discard")
	if err := late.Redo(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	whole(attempt(), true, "it was published again")
}

func wantStale(t *testing.T, err error) {
	t.Helper()
	if cairn.AsError(err).Code != cairn.CodeStale {
		t.Fatalf("the error is %v, want %s", err, cairn.CodeStale)
	}
}

// An attempt's name is its own, though its writer is that of an attempt before it.
func TestAttemptsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := newTestLog(memstore.New(nil).EventLog(), -1)
	row := &cairn.Session{ID: "s", RootID: "s", Agent: "a"}
	attempt := func() (name, writer string) {
		e := g.Attempt(context.Background(), row, "run_1", 0, Attempt{Step: 1})
		defer e.Leave(1)
		return e.Attempt(), e.writer.ID
	}
	one, first := attempt()
	two, second := attempt()
	if one == two || first != second {
		t.Errorf("attempts %s and %s have the writers %s and %s", one, two, first, second)
	}
}
