package anthropic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

func ptr[T any](v T) *T { return &v }

// own returns a part with provider data of this model.
func own(p cairn.Part, provider string) cairn.Part {
	p.Provider, p.Model = json.RawMessage(provider), "anthropic:claude-test"
	return p
}

// requests are compared with testdata/requests. The server does not check them.
var requests = map[string]struct {
	req cairn.Request
	o   anthropic.Options
}{
	"plain": {req: cairn.Request{System: "Be <brief> & kind.", Messages: []cairn.Message{user("Hello <you> & all")}}},
	"conversation": {req: cairn.Request{
		System: "You help customers.",
		Messages: []cairn.Message{
			user("Where is order 42?"),
			assistant(cairn.TextPart("Let me look."), use("call_1", "lookup", `{"order":42}`), use("call_2", "lookup", `{}`)),
			tools(result("call_1", `{"status":"shipped"}`, false)),
			cairn.Context("The customer is in Lisbon."),
			tools(result("call_2", `"order is missing"`, true)),
			assistant(cairn.TextPart("It shipped.")),
			user("Thanks"),
		},
		Tools: []cairn.ToolSpec{lookup, {Name: "now"}},
	}},
	"deferred_tools": {req: cairn.Request{Messages: []cairn.Message{user("Go")}, Tools: []cairn.ToolSpec{lookup,
		{Name: "rare", Fields: map[string]json.RawMessage{"anthropic": json.RawMessage(`{"defer_loading":true}`)}}}}},
	"provider_items": {req: cairn.Request{Messages: []cairn.Message{
		user("Go"),
		assistant(
			own(cairn.Part{Type: cairn.PartReasoning, Text: "Hm \"so\"."}, `{"signature":"S1"}`),
			own(cairn.Part{Type: cairn.PartReasoning}, `{"signature":"omitted"}`),
			own(cairn.Part{Type: cairn.PartProvider}, `{"type":"redacted_thinking","data":"ENC"}`),
			own(cairn.Part{Type: cairn.PartProvider}, `{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"q":1}}`),
			own(cairn.Part{Type: cairn.PartProvider}, `{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}`),
			own(cairn.Part{Type: cairn.PartProvider}, `{"type":"server_tool_use","id":"srv_2","name":"web_search","input":{"q":2}}`),
			own(cairn.Part{Type: cairn.PartProvider}, `{"type":"web_search_tool_result","tool_use_id":"srv_3","content":[]}`),
			own(cairn.TextPart("It is so."), `{"citations":[{"type":"page_location"}]}`),
			own(use("a", "t", `{"x":1}`), `{"caller":{"type":"other"}}`)),
		tools(result("a", `1`, false)),
	}}},
	"other_models_items": {req: cairn.Request{Messages: []cairn.Message{
		user("Go"),
		assistant(
			cairn.Part{Type: cairn.PartReasoning, Text: "no data"},
			cairn.Part{Type: cairn.PartReasoning, Text: "theirs", Provider: json.RawMessage(`{"signature":"S"}`), Model: "anthropic:claude-other"},
			cairn.Part{Type: cairn.PartProvider, Provider: json.RawMessage(`{"type":"x"}`), Model: "openai:gpt"},
			cairn.Part{Type: cairn.PartText, Text: "It is so.", Provider: json.RawMessage(`{"citations":[]}`), Model: "anthropic:claude-other"},
			cairn.Part{Type: cairn.PartFile, File: &cairn.File{Name: "cat.png", MediaType: "image/png", Data: []byte("png")}},
			use("call/ü:1", "no such tool!", `{}`), use("call:2", strings.Repeat("t", 100), `"{\"half"`), use("", "", `[1]`)),
		tools(result("call/ü:1", `""`, true), result("call:2", `null`, false), result("", `""`, false)),
		assistant(cairn.Part{Type: cairn.PartReasoning, Text: "nothing to send"}),
		assistant(cairn.TextPart("one")),
		assistant(cairn.TextPart("two")),
	}}},
	"begins_with_reply": {req: cairn.Request{Messages: []cairn.Message{assistant(cairn.TextPart("Welcome!")), user(" \n"), user("Hi")}}},
	"nothing_to_say":    {req: cairn.Request{System: " ", Messages: []cairn.Message{user(" ")}}},
	"files": {req: cairn.Request{Messages: []cairn.Message{cairn.User(
		cairn.TextPart("See these:"),
		cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}),
		cairn.FilePart(cairn.File{MediaType: "image/jpeg", URL: "https://example.com/cat.jpg"}),
		cairn.FilePart(cairn.File{Name: "bill.pdf", MediaType: "application/pdf", Data: []byte("pdf")}),
		cairn.FilePart(cairn.File{MediaType: "application/pdf", URL: "https://example.com/a.pdf"}),
		cairn.FilePart(cairn.File{Name: "notes.md", MediaType: "text/markdown; charset=utf-8", Data: []byte("# Notes")}),
		cairn.FilePart(cairn.File{Name: "plan.svg", MediaType: "image/svg+xml", Data: []byte("<svg/>")}),
		cairn.FilePart(cairn.File{Name: "latin.txt", MediaType: "text/plain", Data: []byte{'f', 0xfc, 'r'}}),
		cairn.FilePart(cairn.File{MediaType: "application/zip", URL: "https://example.com/a.zip"}),
		cairn.FilePart(cairn.File{Name: "a.wav", MediaType: "audio/wav", Data: []byte("wav")}),
	)}}},
	"file_of_tool": {req: cairn.Request{Messages: []cairn.Message{
		user("Draw"),
		assistant(use("a", "draw", `{}`)),
		tools(cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}), result("a", `"done"`, false)),
	}}},
	"settings": {
		req: cairn.Request{Messages: []cairn.Message{user("Go")}, Settings: cairn.Settings{Temperature: ptr(0.0), TopP: ptr(0.9),
			MaxOutputTokens: 100, ReasoningEffort: "low", StopSequences: []string{"END", "\n\n"}}},
		o: anthropic.Options{Cache: "off", MaxOutputTokens: 5},
	},
	"options": {
		req: cairn.Request{Messages: []cairn.Message{user("Go")}, Settings: cairn.Settings{Temperature: ptr(0.5), Options: map[string]any{
			"temperature": 1, "thinking": map[string]any{"type": "adaptive"}, "metadata": map[string]any{"user_id": "u"},
			"output_config": json.RawMessage(`{"format":{"type":"json_schema","schema":{"z":1,"a":2}}}`)}}},
		o: anthropic.Options{MaxOutputTokens: 5, Cache: "1h"},
	},
	"tools": {
		req: cairn.Request{Messages: []cairn.Message{user("Go")}, Tools: []cairn.ToolSpec{{Name: "open", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: "nested", Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"object"}}}}`)}, lookup}},
		o: anthropic.Options{StrictTools: true, Cache: "1h",
			ServerTools: []any{map[string]any{"type": "web_search_20250305", "name": "web_search"}, json.RawMessage(`{"type":"code_execution_20250825","name":"code_execution"}`)}},
	},
	"choice_none": {req: cairn.Request{Messages: []cairn.Message{user("Go")}, Tools: []cairn.ToolSpec{lookup}, Choice: cairn.ToolChoice{None: true}}},
	"choice_named": {req: cairn.Request{Messages: []cairn.Message{user("Go")}, Tools: []cairn.ToolSpec{lookup}, Choice: cairn.ToolChoice{Tool: "lookup"},
		Settings: cairn.Settings{Options: map[string]any{"thinking": map[string]any{"type": "adaptive"}}}}},
	"choice_without_tools": {req: cairn.Request{Messages: []cairn.Message{user("Go")}, Choice: cairn.ToolChoice{None: true}}},
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for name, test := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := [2][]byte{}
			for i := range sent {
				_, _ = ask(t.Context(), through(recorder(&sent[i]), test.o), &test.req) // the response is empty
			}
			if !bytes.Equal(sent[0], sent[1]) {
				t.Errorf("the same request is\n%s\nand\n%s", sent[0], sent[1])
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, sent[0], "", "  "); err != nil {
				t.Fatal(err)
			}
			golden(t, "requests/"+name+".json", strings.TrimSpace(pretty.String())+"\n")
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	server := anthropictest.NewServer(anthropictest.Text("ok"))
	t.Cleanup(server.Close)
	server.RequireKey("sk-1")
	m := anthropic.Model("m", &anthropic.Options{BaseURL: server.BaseURL + "/", APIKey: " sk-1\n", Betas: []string{"one-2026-01-01", "two-2026-01-01"}})
	if _, err := ask(t.Context(), m, hello()); err != nil {
		t.Fatal(err)
	}
	h := server.Requests()[0].Header
	if h.Get("Anthropic-Beta") != "one-2026-01-01,two-2026-01-01" || h.Get("Anthropic-Version") == "" || h.Get("Accept") != "text/event-stream" ||
		h.Get("Content-Type") != "application/json" || h.Get("Traceparent") != "" || h.Get("Authorization") != "" {
		t.Errorf("headers %v", h)
	}
}

func TestRequestThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  cairn.Request
		want string
	}{
		"option": {cairn.Request{Messages: []cairn.Message{user("x")},
			Settings: cairn.Settings{Options: map[string]any{"bad": math.NaN()}}}, `option "bad"`},
		"schema": {cairn.Request{Messages: []cairn.Message{user("x")},
			Tools: []cairn.ToolSpec{{Name: "t", Schema: json.RawMessage(`{`)}}}, `tool "t"`},
	} {
		m, server := serve(t, anthropictest.Text("ok"))
		_, err := ask(t.Context(), m, &c.req)
		if err == nil || cairn.AsError(err).Code != cairn.ErrModelRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(server.Requests()); n != 0 {
			t.Errorf("%s: %d requests were made", name, n)
		}
	}
}

// TestPrefix runs a conversation of many steps with a strict server. Each request must begin with the whole
// previous request, byte for byte, and have a breakpoint where that one ended. It must not have more breakpoints
// than the API allows.
func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, ttl := range []string{"5m", "1h"} {
		server := anthropictest.NewFunc(func(r *anthropictest.Request) anthropictest.Reply {
			n := len(r.Messages)
			thought := anthropictest.Part{Thinking: fmt.Sprintf("Step <%d> & on.", n)}
			if n%4 == 3 {
				return anthropictest.Content(thought, anthropictest.Part{Text: "Well."})
			}
			calls := []anthropictest.Part{thought, {Redacted: fmt.Sprintf("R%d", n)}, {Text: "Looking."}}
			for i := range 30 {
				calls = append(calls, anthropictest.Part{Call: &anthropictest.Call{Tool: "lookup", Arguments: fmt.Sprintf(`{"order": %d}`, i)}})
			}
			return anthropictest.Content(calls...)
		})
		t.Cleanup(server.Close)
		m := anthropic.Model("claude-test", &anthropic.Options{BaseURL: server.BaseURL, Cache: ttl})
		req := &cairn.Request{System: "Help.", Tools: []cairn.ToolSpec{{Name: "now"}, lookup}, Messages: []cairn.Message{user("Go")}}
		for range 8 {
			chunks, err := ask(t.Context(), m, req)
			if err != nil {
				t.Fatal(err)
			}
			said := assistant(parts(chunks)...)
			req.Messages = append(req.Messages, said)
			for _, u := range said.ToolUses() {
				req.Messages = append(req.Messages, tools(result(u.CallID, `{"a":"<b>"}`, false)))
			}
			if len(said.ToolUses()) == 0 {
				req.Messages = append(req.Messages, user("More"))
			}
			req.Messages = append(req.Messages, cairn.Context("It is late."))
		}
		list := server.Requests()
		for i := 1; i < len(list); i++ {
			before, now := list[i-1].Prefix(), list[i].Prefix()
			if len(now) <= len(before) || !slices.Equal(now[:len(before)], before) {
				t.Fatalf("request %d does not begin with the one before", i)
			}
			blocks, last := list[i].Messages, list[i-1].Messages
			at := blocks[len(last)-1].Blocks()
			if mark := at[len(at)-1].CacheControl; mark == nil || ttl == "1h" && mark.TTL != ttl {
				t.Errorf("request %d has no breakpoint where the one before ended", i)
			}
			if list[i].System[0].CacheControl == nil || list[i].Tools[0].CacheControl != nil || list[i].Tools[1].CacheControl == nil {
				t.Errorf("request %d has no breakpoint after the tools or the system prompt", i)
			}
		}
	}
}

// TestPause has the provider pause a reply twice. It must arrive as one reply with the usage of all its requests.
func TestPause(t *testing.T) {
	t.Parallel()
	search := func(id string) anthropictest.Part {
		return anthropictest.Part{Item: map[string]any{"type": "server_tool_use", "id": id, "name": "web_search", "input": map[string]any{"query": "go"}}}
	}
	found := func(id string) anthropictest.Part {
		return anthropictest.Part{Item: map[string]any{"type": "web_search_tool_result", "tool_use_id": id,
			"content": []any{map[string]any{"type": "web_search_result", "url": "https://go.dev/", "title": "Go"}}}}
	}
	use := anthropictest.Usage{Input: 10, CacheRead: 5, Output: 3}
	m, server := serve(t,
		anthropictest.Reply{Blocks: []anthropictest.Part{{Thinking: "Search."}, search("srvtoolu_1")}, Stop: "pause_turn", Usage: use},
		anthropictest.Reply{Blocks: []anthropictest.Part{found("srvtoolu_1"), {Thinking: "More."}, {Text: "Wait."}, search("srvtoolu_2")}, Stop: "pause_turn", Usage: use},
		anthropictest.Reply{Blocks: []anthropictest.Part{found("srvtoolu_2"), {Text: "Go."}}, Usage: use},
		anthropictest.Text("Bye."))
	req := hello()
	chunks, err := ask(t.Context(), m, req)
	if err != nil {
		t.Fatal(err)
	}
	if problem := providertest.WellFormed(chunks, err); problem != "" {
		t.Error(problem)
	}
	if u := chunks[len(chunks)-2].Usage; u.InputTokens != 45 || u.CachedTokens != 15 || u.OutputTokens != 9 {
		t.Errorf("usage %+v", u)
	}
	said := assistant(parts(chunks)...)
	if said.Text() != "Wait.Go." || chunks[len(chunks)-1].FinishReason != cairn.FinishReasonEnd {
		t.Errorf("the reply is\n%s", lines(chunks, nil))
	}
	req.Messages = append(req.Messages, said, user("Thanks"))
	if _, err := ask(t.Context(), m, req); err != nil {
		t.Error(err)
	}
	if n := len(server.Requests()); n != 4 {
		t.Errorf("%d requests", n)
	}
}

// TestEndlessPause expects the provider's own reason after a number of pauses.
func TestEndlessPause(t *testing.T) {
	t.Parallel()
	server := anthropictest.NewFunc(func(r *anthropictest.Request) anthropictest.Reply {
		item := func(kind, field string) anthropictest.Part {
			return anthropictest.Part{Item: map[string]any{"type": kind, field: fmt.Sprintf("srv_%d", len(r.Last().Content))}}
		}
		if r.Last().Role == "user" {
			return anthropictest.Reply{Blocks: []anthropictest.Part{item("server_tool_use", "id")}, Stop: "pause_turn"}
		}
		var last anthropictest.Block
		_ = json.Unmarshal(r.Last().Content[len(r.Last().Content)-1], &last)
		return anthropictest.Reply{Blocks: []anthropictest.Part{{Item: map[string]any{"type": "x_tool_result", "tool_use_id": last.ID}},
			item("server_tool_use", "id")}, Stop: "pause_turn"}
	})
	t.Cleanup(server.Close)
	chunks, err := ask(t.Context(), anthropic.Model("m", &anthropic.Options{BaseURL: server.BaseURL}), hello())
	if err != nil || chunks[len(chunks)-1].FinishReason != "pause_turn" || len(server.Requests()) != 17 {
		t.Errorf("after %d requests: %v\n%s", len(server.Requests()), err, lines(chunks, nil))
	}
}

// TestReplyThatBrokeOff expects the part of the reply that the API accepts to be sent back.
func TestReplyThatBrokeOff(t *testing.T) {
	t.Parallel()
	whole := anthropictest.Content(anthropictest.Part{Thinking: "Let me think."}, anthropictest.Part{Text: "Well, then."},
		anthropictest.Part{Item: map[string]any{"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": map[string]any{}}},
		anthropictest.Part{Item: map[string]any{"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []any{}}},
		anthropictest.Part{Text: "Yes."})
	for n := range 25 {
		reply := whole
		reply.BreakAfter = n + 1
		m, _ := serve(t, reply, anthropictest.Text("ok"))
		req := hello()
		chunks, _ := ask(t.Context(), m, req)
		req.Messages = append(req.Messages, assistant(parts(chunks)...), user("Go on"))
		if _, err := ask(context.Background(), m, req); err != nil {
			t.Errorf("after %d events: %v", n+1, err)
		}
	}
}
