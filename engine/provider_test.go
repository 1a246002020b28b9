package engine_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestProviderItems has a model return everything that its provider wants back. The next request, in another process,
// has it unchanged; the event log and the user see nothing of it.
func TestProviderItems(t *testing.T) {
	t.Parallel()
	const model = "anthropic:big"
	raw := func(text string) json.RawMessage {
		return json.RawMessage(`{"secret" : "` + text + `", "n":12345678901234567890}`)
	}
	reply := scripted.Reply(
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkReasoning, Text: "one"}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd, Provider: raw("signature 1"), Model: model}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkReasoning, Text: "two"}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd, Provider: raw("signature 2"), Model: model}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkProvider, Provider: raw("redacted"), Model: model}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkProvider, Provider: raw("search"), Model: model,
			Sources: []cairn.Source{{URL: "https://example.com/\xff", Title: "T\x00"}}}),
		scripted.Text("first"),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd}),
		scripted.Text("second"),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd, Provider: raw("citation"), Model: model,
			Sources: []cairn.Source{{URL: "https://example.com/", Quote: "so it says"}}}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "c", Tool: "echo", Provider: raw("call"), Model: model}),
		scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: "c", Text: `{"text":"x"}`}),
	)
	want := []cairn.Part{
		{Type: cairn.PartReasoning, Text: "one", Provider: raw("signature 1"), Model: model},
		{Type: cairn.PartReasoning, Text: "two", Provider: raw("signature 2"), Model: model},
		{Type: cairn.PartProvider, Provider: raw("redacted"), Model: model},
		{Type: cairn.PartProvider, Provider: raw("search"), Model: model, Sources: []cairn.Source{{URL: "https://example.com/\uFFFD", Title: "T\uFFFD"}}},
		{Type: cairn.PartText, Text: "first"},
		{Type: cairn.PartText, Text: "second", Provider: raw("citation"), Model: model,
			Sources: []cairn.Source{{URL: "https://example.com/", Quote: "so it says"}}},
		{Type: cairn.PartToolUse, Provider: raw("call"), Model: model,
			ToolUse: &cairn.ToolUse{CallID: "c", Tool: "echo", Input: json.RawMessage(`{"text":"x"}`)}},
	}
	var asked [][]cairn.Message
	agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if asked = append(asked, req.Messages); len(asked) == 1 {
			return reply
		}
		return scripted.Text("done")
	}), echo("echo"))
	st := memstore.New(nil)
	turn(t, open(t, st, agent), "s", "go")
	turn(t, open(t, st, agent, named("cold")), "s", "again")
	if len(asked) != 3 {
		t.Fatalf("the model was asked %d times", len(asked))
	}
	for _, messages := range asked[1:] {
		if got := messages[1].Parts; !reflect.DeepEqual(got, want) {
			t.Errorf("the model is sent\n%+v\nwant\n%+v", got, want)
		}
	}
	for _, ev := range history(t, st, "s") {
		if raw, err := json.Marshal(ev); err != nil || strings.Contains(string(raw), "secret") {
			t.Errorf("the log says %s, %v", raw, err)
		}
	}
	public := asked[1][1].Public()
	if text, err := json.Marshal(public); err != nil || strings.Contains(string(text), "secret") || strings.Contains(string(text), model) {
		t.Errorf("the user may read %s, %v", text, err)
	}
	if n := len(public.Parts); n != len(want)-1 || public.Parts[2].Sources[0].Title != "T\uFFFD" || public.Parts[4].Sources[0].Quote == "" {
		t.Errorf("the user may read %d parts: %+v", n, public.Parts)
	}
	if len(asked[1][1].Parts) != len(want) {
		t.Error("the message itself was changed")
	}
}

// TestChunksOutOfPlace has a model send chunks that belong to nothing: the attempt fails, and another one is made.
func TestChunksOutOfPlace(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]scripted.Step{
		"an item without content": scripted.Chunk(cairn.Chunk{Type: cairn.ChunkProvider}),
		"the end of no part":      scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd}),
		"the end of a call": scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "c", Tool: "echo"}),
			scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd})),
	} {
		model := scripted.New(reply, scripted.Text("done"))
		if res := turn(t, open(t, memstore.New(nil), bot(model, echo("echo"))), "s", "go"); res.Text != "done" || model.Calls() != 2 {
			t.Errorf("%s: the run says %q after %d calls of the model, %v", name, res.Text, model.Calls(), res.Error)
		}
	}
}
