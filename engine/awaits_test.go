package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// elsewhere is a model that stands for an agent on another server: it asks for answers, and says what it received.
func elsewhere(asks ...cairn.Awaits) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		if results := last.ToolResults(); len(results) > 0 {
			var said []string
			for _, r := range results {
				word := string(r.Output)
				if r.IsError {
					word = string(r.Code) + ": " + word
				}
				said = append(said, word)
			}
			slices.Sort(said)
			return scripted.Text(strings.Join(said, "; "))
		}
		list := []scripted.Step{scripted.Text("Let me ask. ")}
		for i := range asks {
			id := string(rune('a' + i))
			list = append(list, scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: id, Tool: "far", Awaits: &asks[i],
				Provider: json.RawMessage(`{"call":"` + id + `"}`), Model: "far:agent"}),
				scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: id, Text: `{"amount":10}`}))
		}
		return scripted.Reply(list...)
	})
}

// A model's requests become pending calls of the session, whatever tools its agent has. The model receives all answers,
// even after every process has lost its memory.
func TestModelAwaitsAnswers(t *testing.T) {
	st := memstore.New(nil)
	far := &cairn.Agent{Name: "far", Description: "Knows.", Model: elsewhere(
		cairn.Awaits{Kind: cairn.CallApproval, Prompt: "may it?", Schema: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"integer"}}}`)},
		cairn.Awaits{Kind: cairn.CallClientTool, Schema: json.RawMessage(`{"type":"string"}`)},
		cairn.Awaits{Kind: cairn.CallQuestion, Prompt: "which?", Payload: json.RawMessage(`["a","b"]`)},
		cairn.Awaits{Kind: cairn.CallApproval, NoEdits: true})}
	root := &cairn.Agent{Name: "root", Tools: []cairn.Tool{cairn.SubAgent(far)},
		Model: scripted.New(scripted.Call("far", map[string]string{"input": "do it"}), scripted.Text("done"))}
	with := func(do func(eng *engine.Engine)) {
		eng, err := engine.New(st, []*cairn.Agent{root}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(t.Context())
		do(eng)
	}
	with(func(eng *engine.Engine) {
		run, err := eng.Execute(t.Context(), "s", "root", cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.Reason != cairn.ReasonChildren || len(res.Suspended.Calls) != 4 {
			t.Fatalf("%+v, %v", res, err)
		}
		for i, kind := range []cairn.CallKind{cairn.CallApproval, cairn.CallClientTool, cairn.CallQuestion, cairn.CallApproval} {
			if c := res.Suspended.Calls[i]; c.Kind != kind || c.Tool != "far" || string(c.Input) != `{"amount":10}` || len(c.ID) < 20 {
				t.Errorf("call %d: %+v", i, c)
			}
		}
		if c := res.Suspended.Calls[2]; c.Prompt != "which?" || string(c.Payload) != `["a","b"]` {
			t.Errorf("the question: %+v", c)
		}
		if c := res.Suspended.Calls[1]; submitted(t, eng, cairn.Answer(c, 7)) != cairn.OutcomeInvalid {
			t.Error("a result that violates the schema was accepted")
		}
		for i, s := range []cairn.Submission{cairn.Approve(res.Suspended.Calls[0]).WithInput(map[string]int{"amount": 5}), cairn.Answer(res.Suspended.Calls[1], "seen"),
			cairn.Answer(res.Suspended.Calls[2], "b"), cairn.Deny(res.Suspended.Calls[3], "too dear")} {
			if out := submitted(t, eng, s); out != cairn.OutcomeAccepted {
				t.Errorf("answer %d: %s", i, out)
			}
		}
	})
	with(func(eng *engine.Engine) {
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" {
			t.Fatalf("%+v, %v", res, err)
		}
		page, err := eng.Messages(t.Context(), "s", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		got := string(page[2].ToolResults()[0].Output)
		if want := `"\"b\"; \"seen\"; denied: \"not approved by the user: too dear\"; {\"arguments_edited_by_reviewer\":{\"amount\":5},\"approved\":true,\"input\":{\"amount\":5}}"`; got != want {
			t.Errorf("the agent got %s", got)
		}
	})
}

func submitted(t *testing.T, eng *engine.Engine, s cairn.Submission) cairn.Outcome {
	t.Helper()
	receipt, err := eng.Submit(t.Context(), "s", s)
	if err != nil && receipt.Outcome == "" {
		t.Fatal(err)
	}
	return receipt.Outcome
}

// A call that is not answered in time fails, and the model receives that.
func TestModelAwaitsAnswersForATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		far := &cairn.Agent{Name: "far", Model: elsewhere(cairn.Awaits{Kind: cairn.CallApproval, WaitAtMost: cairn.Duration(time.Millisecond)},
			cairn.Awaits{Kind: cairn.CallQuestion, Prompt: "which?", WaitAtMost: cairn.Duration(time.Millisecond)})}
		eng, err := engine.New(memstore.New(nil), []*cairn.Agent{far}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(t.Context())
		run, err := eng.Execute(t.Context(), "s", "far", cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Reason != cairn.ReasonCalls {
			t.Fatalf("%+v, %v", res, err)
		}
		testclock.Advance(time.Millisecond)
		if run, err = eng.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != `timeout: "nobody answered in time"; timeout: "nobody answered in time"` {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A reply that the model begins again is shown and stored from its new beginning.
func TestModelRestarts(t *testing.T) {
	bot := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Reply(scripted.Text("No, wait."), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkRestart}), scripted.Text("Yes.")))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{bot}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	var types []cairn.EventType
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Type {
		case cairn.EventStepStart, cairn.EventStepDiscarded, cairn.EventStepCommitted:
			types = append(types, ev.Type)
		case cairn.EventTextDelta:
			shown.WriteString(ev.Text)
		}
		if ev.Type == cairn.EventStepDiscarded {
			shown.Reset()
		}
	}
	want := []cairn.EventType{cairn.EventStepStart, cairn.EventStepDiscarded, cairn.EventStepStart, cairn.EventStepCommitted}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "Yes." || shown.String() != "Yes." || !slices.Equal(types, want) {
		t.Errorf("%+v, %v; shown %q, events %v", res, err, shown.String(), types)
	}
}
