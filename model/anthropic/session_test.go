package anthropic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestSession moves a conversation with thinking, a search, parallel tools and a file from Anthropic to Chat
// Completions and back, with a separate engine for each turn. Both servers reject what the providers would reject,
// such as signatures that do not match.
func TestSession(t *testing.T) {
	t.Parallel()
	type order struct {
		Order int `json:"order"`
	}
	find := cairn.Func("lookup", "Look up an order.", func(_ context.Context, _ *cairn.Call, in order) (string, error) {
		return strings.Repeat("x", in.Order), nil
	})
	call := func(order string) anthropictest.Part {
		return anthropictest.Part{Call: &anthropictest.Call{ID: "toolu_" + order, Tool: "lookup", Arguments: `{"order": ` + order + `}`}}
	}
	claude := anthropictest.NewServer(
		anthropictest.Content(anthropictest.Part{Thinking: "Search first."},
			anthropictest.Part{Item: map[string]any{"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": map[string]any{"query": "<go>"}}},
			anthropictest.Part{Item: map[string]any{"type": "web_search_tool_result", "tool_use_id": "srv_1",
				"content": []any{map[string]any{"type": "web_search_result", "url": "https://go.dev/", "title": "Go", "encrypted_content": "E"}}}},
			anthropictest.Part{Text: "Go is good.", Citations: []any{map[string]any{"type": "web_search_result_location", "url": "https://go.dev/",
				"title": "Go", "cited_text": "good", "encrypted_index": "I"}}},
			anthropictest.Part{Redacted: "ENC"}, call("1"), call("2")),
		anthropictest.Content(anthropictest.Part{Thinking: "Two results."}, anthropictest.Part{Text: "Both are there."}),
		anthropictest.Content(anthropictest.Part{Thinking: "Welcome back."}, call("3")),
		anthropictest.Text("That one as well."))
	t.Cleanup(claude.Close)
	chat := openaichattest.NewServer(
		openaichattest.Reply{Reasoning: "Hm.", Text: "Let me see.", Calls: []openaichattest.Call{{ID: "call/4:x", Tool: "lookup", Arguments: `{"order":4}`}}},
		openaichattest.Text("Four."))
	t.Cleanup(chat.Close)

	st := memstore.New(nil)
	turn := func(model cairn.Model, in cairn.Input) {
		t.Helper()
		agent := &cairn.Agent{Name: "bot", Instructions: "Help.", Model: model, Tools: []cairn.Tool{find}}
		eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = eng.Close(context.Background()) }()
		h, err := eng.Execute(t.Context(), "s", "bot", in)
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if res.Status != cairn.RunCompleted {
			t.Fatalf("the run is %s: %v", res.Status, res.Error)
		}
	}
	one := func() cairn.Model {
		return anthropic.Model("claude-test", &anthropic.Options{BaseURL: claude.BaseURL,
			ServerTools: []any{map[string]any{"type": "web_search_20250305", "name": "web_search"}}})
	}
	two := openaichat.Model("gpt-test", &openaichat.Options{BaseURL: chat.BaseURL})
	turn(one(), cairn.Messages(cairn.User(cairn.TextPart("Look at this."), cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}))))
	turn(two, cairn.Text("And four?"))
	turn(one(), cairn.Text("And three?"))

	seen := claude.Requests()
	if before, now := seen[1].Prefix(), seen[2].Prefix(); !slices.Equal(now[:len(before)], before) {
		t.Error("the other model's turn changed what the request begins with")
	}
	if body := seen[3].Body; !bytes.Contains(body, []byte(`"encrypted_content":"E"`)) || !bytes.Contains(body, []byte(`"encrypted_index":"I"`)) ||
		bytes.Contains(body, []byte("Hm.")) {
		t.Errorf("the model is sent\n%s", body)
	}
	for _, r := range chat.Requests() {
		if body := string(r.Body); strings.Contains(body, "signature") || strings.Contains(body, "encrypted") || strings.Contains(body, "Search first") {
			t.Errorf("the other model is sent\n%s", body)
		}
	}
	var sources []cairn.Source
	list, err := driver.Messages(t.Context(), st, "s", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		public := list[i].Public()
		if raw, err := json.Marshal(public); err != nil || strings.Contains(string(raw), "encrypted") || strings.Contains(string(raw), "signature") {
			t.Errorf("the user may read %s, %v", raw, err)
		}
		for _, p := range public.Parts {
			sources = append(sources, p.Sources...)
		}
	}
	if want := []cairn.Source{{URL: "https://go.dev/", Title: "Go"}, {URL: "https://go.dev/", Title: "Go", Quote: "good"}}; !slices.Equal(sources, want) {
		t.Errorf("the sources are %+v", sources)
	}
}
