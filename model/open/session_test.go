package open_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
	"github.com/cairn-agents/cairn/model/gemini/geminitest"
	"github.com/cairn-agents/cairn/model/open"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestConversationOfAllProviders moves a conversation with reasoning, parallel tools and a file from Anthropic to
// OpenAI, Gemini, Chat Completions and back to each, with a separate engine for every turn. The servers reject what
// the providers would reject: calls without results, roles out of turn, and signatures that they did not give out
// or that belong to something else.
func TestConversationOfAllProviders(t *testing.T) {
	t.Parallel()
	claude := anthropictest.NewServer()
	gpt := openaitest.NewServer()
	gemini := geminitest.NewServer()
	chat := openaichattest.NewServer()
	servers := map[string]string{"anthropic": claude.BaseURL, "openai": gpt.BaseURL, "gemini": gemini.BaseURL, "openai-chat": chat.BaseURL}
	for _, end := range []func(){claude.Close, gpt.Close, gemini.Close, chat.Close} {
		t.Cleanup(end)
	}
	for range 2 { // one pair per turn: a reply with two calls, and one after their results
		claude.Add(anthropictest.Content(anthropictest.Part{Thinking: "Claude thinks."}, anthropictest.Part{Text: "Let me look."},
			anthropictest.Part{Call: &anthropictest.Call{Tool: "lookup", Arguments: `{"order":1}`}}, anthropictest.Part{Call: &anthropictest.Call{Tool: "lookup", Arguments: `{"order":2}`}}),
			anthropictest.Content(anthropictest.Part{Thinking: "Claude is done."}, anthropictest.Part{Text: "Both are there."}))
		gpt.Add(openaitest.Output(openaitest.Item{Reasoning: "GPT thinks."}, openaitest.Item{Text: "Let me look.", Phase: "commentary"},
			openaitest.Item{Call: &openaitest.Call{ID: "call_same", Tool: "lookup", Arguments: `{"order":1}`}}, openaitest.Item{Call: &openaitest.Call{Tool: "lookup", Arguments: `{"order":2}`}}),
			openaitest.Output(openaitest.Item{Hidden: true}, openaitest.Item{Text: "Both are there.", Phase: "final_answer"}))
		gemini.Add(geminitest.Content(geminitest.Part{Thought: "Gemini thinks."}, geminitest.Part{Text: "Let me look."},
			geminitest.Part{Call: &geminitest.Call{Tool: "lookup", Arguments: `{"order":1}`}}, geminitest.Part{Call: &geminitest.Call{Tool: "lookup", Arguments: `{"order":2}`}}),
			geminitest.Content(geminitest.Part{Text: "Both are there.", Signed: true}))
		chat.Add(openaichattest.Reply{Reasoning: "Chat thinks.", Text: "Let me look.",
			Calls: []openaichattest.Call{{ID: "call/same:1", Tool: "lookup", Arguments: `{"order":1}`}, {ID: "call_same", Tool: "lookup", Arguments: `{"order":2}`}}},
			openaichattest.Text("Both are there."))
	}
	type order struct {
		Order int `json:"order"`
	}
	find := cairn.Func("lookup", "Look up an order.", func(_ context.Context, _ *cairn.Call, in order) (string, error) {
		return strings.Repeat("x", in.Order), nil
	})
	st := memstore.New(nil)
	turns := []string{"anthropic:claude", "openai:gpt", "gemini:pro", "openai-chat:local", "anthropic:claude", "openai:gpt", "gemini:pro", "openai-chat:local"}
	for i, id := range turns {
		provider, _, _ := strings.Cut(id, ":")
		model, err := open.Model(id, &open.Options{BaseURL: servers[provider], APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Instructions: "Help.", Model: model, Tools: []cairn.Tool{find}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := cairn.Messages(cairn.User(cairn.TextPart("Look at this."), cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")})))
		h, err := eng.Execute(t.Context(), "s", "bot", in)
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.Wait(t.Context())
		if err != nil || res.Status != cairn.RunCompleted {
			t.Fatalf("turn %d, of %s, is %v: %v", i+1, id, res.Status, res.Error)
		}
		if err := eng.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bodies := map[string][][]byte{}
	for _, r := range claude.Requests() {
		bodies["Claude"] = append(bodies["Claude"], r.Body)
	}
	for _, r := range gpt.Requests() {
		bodies["GPT"] = append(bodies["GPT"], r.Body)
	}
	for _, r := range gemini.Requests() {
		bodies["Gemini"] = append(bodies["Gemini"], r.Body)
	}
	for _, r := range chat.Requests() {
		bodies["Chat"] = append(bodies["Chat"], r.Body)
	}
	for name, list := range bodies {
		if len(list) != 4 {
			t.Errorf("%s had %d requests", name, len(list))
		}
		for _, body := range list {
			for other := range bodies {
				if other != name && bytes.Contains(body, []byte(other+" thinks")) {
					t.Errorf("%s is sent what %s thought", name, other)
				}
			}
		}
		if own := bytes.Contains(list[len(list)-1], []byte(name+" thinks")); own == (name == "Gemini") {
			t.Errorf("%s is sent its own thoughts: %t", name, own)
		}
	}
	list, err := driver.Messages(t.Context(), st, "s", 0, 100)
	if err != nil || len(list) != 4*len(turns) {
		t.Fatalf("the session has %d messages, %v", len(list), err)
	}
	for i := range list {
		public := list[i].Public()
		raw, err := json.Marshal(public)
		if err != nil || strings.Contains(string(raw), "encrypted") || strings.Contains(string(raw), "ignature") {
			t.Errorf("the user may read %s, %v", raw, err)
		}
	}
}
