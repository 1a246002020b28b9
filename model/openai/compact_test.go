package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
	"github.com/cairn-agents/cairn/store/memstore"
)

// remembering replies to each request with a call and then with text, preceded by reasoning.
func remembering(r *openaitest.Request) openaitest.Reply {
	if r.Last().Type == "function_call_output" {
		return openaitest.Output(openaitest.Item{Reasoning: "It is there."}, openaitest.Item{Text: "Noted. " + strings.Repeat("word ", 60)})
	}
	return openaitest.Output(openaitest.Item{Reasoning: "Look first."},
		openaitest.Item{Call: &openaitest.Call{ID: fmt.Sprintf("call_%d", len(r.Body)), Tool: "lookup", Arguments: `{"order":1}`}})
}

// TestCompactedByOpenAI has conversations compacted by the provider, more than once. It moves them to a model of
// another protocol and to another model of the same, which read the summary, and back.
func TestCompactedByOpenAI(t *testing.T) {
	t.Parallel()
	server := openaitest.NewFunc(remembering)
	t.Cleanup(server.Close)
	chat := openaichattest.NewFunc(func(r *openaichattest.Request) openaichattest.Reply {
		if strings.Contains(string(r.Body), "You summarise") {
			return openaichattest.Text("The orders were looked up.")
		}
		return openaichattest.Text("Hello from elsewhere.")
	})
	t.Cleanup(chat.Close)
	other := openaichat.Model("other", &openaichat.Options{BaseURL: chat.BaseURL})
	type order struct {
		Order int `json:"order"`
	}
	agent := &cairn.Agent{Name: "bot", Model: openai.Model("m", &openai.Options{BaseURL: server.BaseURL}),
		Models:     map[string]cairn.Model{"other": other, "sibling": openai.Model("n", &openai.Options{BaseURL: server.BaseURL})},
		Tools:      []cairn.Tool{cairn.Func("lookup", "Look up an order.", func(context.Context, *cairn.Call, order) (string, error) { return "a lamp", nil })},
		Compaction: &cairn.Compaction{Window: 3000, Keep: 40, Model: other, ByProvider: true}}
	st := memstore.New(nil)
	turn := func(n int, opts ...engine.RunOption) {
		t.Helper()
		eng, err := engine.New(st, []*cairn.Agent{agent}, nil) // without a cache, for each turn
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = eng.Close(context.Background()) }()
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(fmt.Sprintf("turn %d: look it up", n)), opts...)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Status != cairn.RunCompleted {
			t.Fatalf("turn %d ended as %+v, %v", n, res, err)
		}
	}
	n := 0
	for ; server.Compactions() < 3; n++ {
		if turn(n); n > 100 {
			t.Fatalf("%d compactions after %d turns", server.Compactions(), n)
		}
	}
	last := func() string { all := server.Requests(); return string(all[len(all)-1].Body) }
	turn(n)
	if body := last(); strings.Count(body, `"type":"compaction"`) != 1 || strings.Contains(body, "Summary of the conversation") || !strings.Contains(body, "turn 0: look it up") {
		t.Errorf("the model is sent\n%s", body)
	}
	turn(n+1, engine.WithModel("other"))
	all := chat.Requests()
	if body := string(all[len(all)-1].Body); strings.Contains(body, "compaction") || !strings.Contains(body, "The orders were looked up.") {
		t.Errorf("the model of another protocol is sent\n%s", body)
	}
	turn(n+2, engine.WithModel("sibling"))
	if body := last(); strings.Contains(body, `"type":"compaction"`) || !strings.Contains(body, "The orders were looked up.") {
		t.Errorf("the other model is sent\n%s", body)
	}
	turn(n + 3)
	if body := last(); strings.Count(body, `"type":"compaction"`) != 1 || !strings.Contains(body, "Hello from elsewhere.") {
		t.Errorf("after that the model is sent\n%s", body)
	}
}

// TestCompact decodes responses of the endpoint, valid and invalid.
func TestCompact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		code   cairn.Code
	}{
		"compacted":     {200, `{"output":[{"type":"message","role":"user"},{"type":"compaction","id":"c","encrypted_content":"E"}],"usage":{"input_tokens":9,"output_tokens":2}}`, ""},
		"no item":       {200, `{"output":[{"type":"message","role":"user"}]}`, cairn.ErrModel},
		"no list":       {200, `{"output":{"type":"compaction"}}`, cairn.ErrModel},
		"no JSON":       {200, `<html>`, cairn.ErrModel},
		"unknown":       {404, `{"error":{"message":"no such path"}}`, cairn.ErrModelNotFound},
		"too long":      {400, `{"error":{"message":"Too long.","code":"context_length_exceeded"}}`, cairn.ErrContextLength},
		"rate":          {429, `{"error":{"message":"Slow down."}}`, cairn.ErrRateLimited},
		"server failed": {500, ``, cairn.ErrOverloaded},
	} {
		var body []byte
		record := providertest.Transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/v1/responses/compact" {
				t.Errorf("%s is asked", r.URL.Path)
			}
			return providertest.Answering(c.status, c.body, &body)(r)
		})
		m := openai.Model("m", &openai.Options{BaseURL: "https://model.example/v1", APIKey: "k", HTTPClient: record.Client()})
		req := providertest.Hello()
		req.System = "Help."
		got, err := m.Compact(t.Context(), req)
		if c.code != "" {
			if e := cairn.AsError(err); e == nil || e.Code != c.code || got.Provider != nil {
				t.Errorf("%s: %+v, %+v", name, got, e)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(string(got.Provider), `[{"type":"message"`) || got.Usage.InputTokens != 9 || got.Usage.OutputTokens != 2 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		var sent map[string]json.RawMessage
		if err := json.Unmarshal(body, &sent); err != nil || len(sent) != 4 || string(sent["instructions"]) != `"Help."` || string(sent["prompt_cache_key"]) != `"s"` {
			t.Errorf("the request is %s, %v", body, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	server := openaitest.NewServer()
	t.Cleanup(server.Close)
	if _, err := openai.Model("m", &openai.Options{BaseURL: server.BaseURL}).Compact(ctx, providertest.Hello()); cairn.AsError(err).Code != cairn.ErrAborted {
		t.Errorf("a context that ended before: %v", err)
	}
	if _, err := openai.Model("", &openai.Options{BaseURL: server.BaseURL}).Compact(t.Context(), providertest.Hello()); cairn.AsError(err).Field != "name" {
		t.Errorf("a model without a name: %v", err)
	}
}
