package openaichat_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

func ptr[T any](v T) *T { return &v }

func assistant(parts ...cairn.Part) cairn.Message {
	return cairn.Message{Role: cairn.RoleAssistant, Parts: parts}
}

func use(id, tool, input string) cairn.Part {
	return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: tool, Input: json.RawMessage(input)}}
}

func result(id, output string, isError bool) cairn.Part {
	return cairn.Part{Type: cairn.PartToolResult,
		Result: &cairn.ToolResult{CallID: id, Tool: "lookup", Output: json.RawMessage(output), IsError: isError}}
}

func reasoning(text, provider string) cairn.Part {
	return cairn.Part{Type: cairn.PartReasoning, Text: text, Provider: json.RawMessage(provider), Model: "openai-chat:test-model"}
}

func tools(parts ...cairn.Part) cairn.Message {
	return cairn.Message{Role: cairn.RoleTool, Parts: parts}
}

func user(text string) cairn.Message { return cairn.User(cairn.TextPart(text)) }

var lookup = cairn.ToolSpec{Name: "lookup", Description: "Look up an order.",
	Schema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"},"all":{"type":"boolean"}},"required":["order"]}`)}

// requests returns requests to a server of the given host. testdata/requests has what must arrive.
func requests(host string) map[string]cairn.Request {
	ours := `{"field":"reasoning_content","host":"` + host + `"}`
	return map[string]cairn.Request{
		"plain": {Messages: []cairn.Message{user("Hello <you> & all")}},
		"conversation": {
			System: "You help customers.",
			Messages: []cairn.Message{
				user("Where is order 42?"),
				assistant(cairn.TextPart("Let me "), cairn.TextPart("look."), use("call_1", "lookup", `{"order":42}`), use("call_2", "lookup", `{}`)),
				tools(result("call_1", `{"status":"shipped"}`, false), result("call_2", `"order is missing"`, true)),
				cairn.Context("The customer is in Lisbon."),
				assistant(cairn.TextPart("It shipped.")),
				user("Thanks"),
			},
			Tools: []cairn.ToolSpec{lookup, {Name: "now"}},
		},
		"results": {Messages: []cairn.Message{
			user("Go"),
			assistant(use("a", "t", `{}`), use("b", "t", `{}`), use("c", "t", `{}`), use("d", "t", `{}`)),
			tools(result("a", `"plain text"`, false), result("b", `null`, false)),
			tools(result("c", `[1,2]`, false), result("d", `"boom"`, true)),
		}},
		"result_with_file": {Messages: []cairn.Message{
			user("Draw"),
			assistant(use("a", "draw", `{}`), use("b", "draw", `{}`)),
			tools(cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}), result("a", `"done"`, false)),
			tools(result("b", `"done"`, false)),
			assistant(cairn.TextPart("Here you are.")),
		}},
		"invalid_arguments": {Messages: []cairn.Message{
			user("Go"),
			assistant(use("a", "t", `"{\"half\":"`), use("b", "t", `[1]`), use("c", "t", ``)),
			tools(result("a", `"bad"`, true), result("b", `"bad"`, true), result("c", `"bad"`, true)),
		}},
		"names_made_up": {Messages: []cairn.Message{
			user("Go"),
			assistant(use("functions.find:0", "functions.look up", `{}`), use("b", strings.Repeat("n", 70), `{}`)),
			tools(result("functions.find:0", `"no such tool"`, true), result("b", `"no such tool"`, true)),
		}},
		"files": {Messages: []cairn.Message{cairn.User(
			cairn.TextPart("See these:"),
			cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}),
			cairn.FilePart(cairn.File{MediaType: "image/jpeg", URL: "https://example.com/cat.jpg"}),
			cairn.FilePart(cairn.File{Name: "bill.pdf", MediaType: "application/pdf", Data: []byte("pdf")}),
			cairn.FilePart(cairn.File{MediaType: "application/pdf", Data: []byte("pdf")}),
			cairn.FilePart(cairn.File{MediaType: "application/zip", Data: []byte("zip")}),
			cairn.FilePart(cairn.File{MediaType: "audio/wav", Data: []byte("wav")}),
			cairn.FilePart(cairn.File{MediaType: "audio/mpeg", Data: []byte("mp3")}),
			cairn.FilePart(cairn.File{Name: "notes.md", MediaType: "text/markdown; charset=utf-8", Data: []byte("# Notes")}),
			cairn.FilePart(cairn.File{Name: "plan.svg", MediaType: "image/svg+xml", Data: []byte("<svg/>")}),
			cairn.FilePart(cairn.File{Name: "latin.txt", MediaType: "text/plain", Data: []byte{'f', 0xfc, 'r'}}),
		)}},
		"file_alone": {Messages: []cairn.Message{cairn.User(cairn.FilePart(cairn.File{MediaType: "image/gif", URL: "https://example.com/a.gif"}))}},
		"reasoning": {Messages: []cairn.Message{
			user("First"),
			assistant(reasoning("an earlier turn", ours), cairn.TextPart("One.")),
			user("Second"),
			assistant(reasoning("this ", ours), reasoning("turn", ours),
				use("a", "t", `{}`)),
			tools(result("a", `1`, false)),
			cairn.Context("still the same turn"),
			assistant(reasoning("another server", `{"field":"reasoning_content","host":"other"}`), use("b", "t", `{}`)),
			tools(result("b", `1`, false)),
			assistant(reasoning("another provider", `{"signature":"x"}`), use("c", "t", `{}`)),
			tools(result("c", `1`, false)),
			assistant(reasoning("no provider data", ``), use("d", "t", `{}`)),
			tools(result("d", `1`, false)),
			assistant(cairn.Part{Type: cairn.PartReasoning, Text: "another model", Provider: json.RawMessage(ours), Model: "openai-chat:other"},
				cairn.Part{Type: cairn.PartProvider, Provider: json.RawMessage(`{"type":"redacted_thinking"}`), Model: "anthropic:other"},
				use("e", "t", `{}`)),
			tools(result("e", `1`, false)),
		}},
		"nothing_to_send": {Messages: []cairn.Message{
			user("Go"),
			assistant(),
			assistant(reasoning("cut off", ours)),
			user("Go on"),
		}},
		"settings": {
			Messages: []cairn.Message{user("Go")},
			Settings: cairn.Settings{Temperature: ptr(0.0), TopP: ptr(0.9), MaxOutputTokens: 100, ReasoningEffort: "low",
				StopSequences: []string{"END", "\n\n"}},
		},
		"options": {
			Messages: []cairn.Message{user("Go")},
			Settings: cairn.Settings{Temperature: ptr(0.5), Options: map[string]any{
				"temperature": 1, "a.b": map[string]any{"c": []int{1}}, "seed": int64(1) << 60, "user": nil,
				"raw": json.RawMessage(`{"z":1,"a":2}`), "stream_options": map[string]any{"include_usage": false},
			}},
		},
		"choice_none":          {Messages: []cairn.Message{user("Go")}, Tools: []cairn.ToolSpec{lookup}, Choice: cairn.ToolChoice{None: true}},
		"choice_named":         {Messages: []cairn.Message{user("Go")}, Tools: []cairn.ToolSpec{lookup}, Choice: cairn.ToolChoice{Tool: "lookup"}},
		"choice_without_tools": {Messages: []cairn.Message{user("Go")}, Choice: cairn.ToolChoice{None: true}},
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for name := range requests("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, server := serve(t, openaichattest.Text("ok"))
			host := strings.TrimSuffix(strings.TrimPrefix(server.BaseURL, "http://"), "/v1")
			req := requests(host)[name]
			if _, err := ask(t.Context(), m, &req); err != nil {
				t.Fatal(err)
			}
			seen := server.Requests()
			if len(seen) != 1 {
				t.Fatalf("%d requests were made", len(seen))
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, seen[0].Body, "", "  "); err != nil {
				t.Fatal(err)
			}
			golden(t, "requests/"+name+".json", strings.TrimSpace(pretty.String())+"\n")
		})
	}
}

func TestRequestIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	m, server := serve(t, openaichattest.Text("ok"), openaichattest.Text("ok"))
	for range 2 {
		req := requests("")["options"]
		if _, err := ask(t.Context(), m, &req); err != nil {
			t.Fatal(err)
		}
	}
	if seen := server.Requests(); !bytes.Equal(seen[0].Body, seen[1].Body) {
		t.Errorf("%s\n%s", seen[0].Body, seen[1].Body)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(openaichattest.Text("ok"), openaichattest.Text("ok"))
	t.Cleanup(server.Close)
	server.RequireKey("sk-1")
	m := openaichat.Model("m", &openaichat.Options{BaseURL: server.BaseURL + "/", APIKey: " sk-1\n", Organization: "org-1"})
	if _, err := ask(t.Context(), m, hello()); err != nil {
		t.Fatal(err)
	}
	h := server.Requests()[0].Header
	if h.Get("OpenAI-Organization") != "org-1" || h.Get("Accept") != "text/event-stream" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
}

func TestRequestThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  cairn.Request
		want string
	}{
		"file by URL": {cairn.Request{Messages: []cairn.Message{cairn.User(cairn.FilePart(
			cairn.File{Name: "a.pdf", MediaType: "application/pdf", URL: "https://example.com/a.pdf"}))}}, `file "a.pdf"`},
		"option": {cairn.Request{Messages: []cairn.Message{user("x")},
			Settings: cairn.Settings{Options: map[string]any{"bad": math.NaN()}}}, `option "bad"`},
		"schema": {cairn.Request{Messages: []cairn.Message{user("x")},
			Tools: []cairn.ToolSpec{{Name: "t", Schema: json.RawMessage(`{`)}}}, `test-model`},
	} {
		m, server := serve(t, openaichattest.Text("ok"))
		_, err := ask(t.Context(), m, &c.req)
		if err == nil || cairn.AsError(err).Code != cairn.ErrModelRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(server.Requests()); n != 0 {
			t.Errorf("%s: %d requests were made", name, n)
		}
	}
}
