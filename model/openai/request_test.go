package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

func user(text string) cairn.Message { return cairn.User(cairn.TextPart(text)) }

func assistant(parts ...cairn.Part) cairn.Message {
	return cairn.Message{Role: cairn.RoleAssistant, Parts: parts}
}

func use(id, input string) cairn.Part {
	return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "lookup", Input: json.RawMessage(input)}}
}

func result(id, output string, isError bool) cairn.Message {
	return cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult,
		Result: &cairn.ToolResult{CallID: id, Tool: "lookup", Output: json.RawMessage(output), IsError: isError}}}}
}

func of(model string, p cairn.Part, provider string) cairn.Part {
	p.Provider, p.Model = json.RawMessage(provider), model
	return p
}

// TestRequests compares the requests sent with testdata/requests.
func TestRequests(t *testing.T) {
	t.Parallel()
	one, other := "openai:gpt-test", "anthropic:claude"
	thought := cairn.Part{Type: cairn.PartReasoning, Text: "Hm."}
	temperature := 0.0
	for name, c := range map[string]struct {
		o   openai.Options
		req cairn.Request
	}{
		"conversation": {openai.Options{StrictTools: true, Summary: "auto"}, cairn.Request{SessionID: "s", System: "You help.", Messages: []cairn.Message{
			user("Where is <order> 42?"),
			assistant(cairn.TextPart("Let me look."), use("call:1", `{"order":42}`), use("b", `"{"`)),
			result("call:1", `{"status":"shipped"}`, false), result("b", `"order is missing"`, true),
			cairn.Context("The customer is in Lisbon."), user("And now?"),
		}, Tools: []cairn.ToolSpec{lookup, {Name: "now"}}, Choice: cairn.ToolChoice{Tool: "lookup"}}},
		"own": {openai.Options{ServerTools: []any{map[string]any{"type": "web_search"}}}, cairn.Request{Messages: []cairn.Message{
			user("Go"),
			assistant(of(one, cairn.Part{Type: cairn.PartProvider}, `{"id":"ws_1","type":"web_search_call"}`),
				of(one, cairn.TextPart("Found."), `{"item":{"id":"msg_1","type":"message","role":"assistant","status":"completed","phase":"commentary"},"annotations":[{"type":"url_citation"}]}`),
				of(one, use("a", `{}`), `{"id":"fc_a","namespace":"x"}`)),
			result("a", `1`, false),
		}}},
		"of_another_model": {openai.Options{}, cairn.Request{Messages: []cairn.Message{
			user("Go"),
			assistant(of(other, thought, `{"signature":"S"}`), of(other, cairn.Part{Type: cairn.PartProvider}, `{"type":"redacted_thinking"}`),
				of(other, cairn.TextPart("Found."), `{"citations":[]}`), of(other, use("a", `{}`), `{"caller":{}}`),
				cairn.FilePart(cairn.File{Name: "a.png", MediaType: "image/png", Data: []byte("png")})),
			result("a", `1`, false),
		}, Choice: cairn.ToolChoice{None: true}, Tools: []cairn.ToolSpec{lookup}}},
		"reasoning_that_led_nowhere": {openai.Options{}, cairn.Request{Messages: []cairn.Message{
			user("Go"), assistant(of(one, thought, `{"id":"rs_1","type":"reasoning"}`)), user("Again"),
		}}},
		"files": {openai.Options{}, cairn.Request{Messages: []cairn.Message{cairn.User(
			cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}),
			cairn.FilePart(cairn.File{MediaType: "image/jpeg", URL: "https://example.com/cat.jpg"}),
			cairn.FilePart(cairn.File{Name: "bill.pdf", MediaType: "application/pdf", Data: []byte("pdf")}),
			cairn.FilePart(cairn.File{MediaType: "application/pdf", URL: "https://example.com/a.pdf"}),
			cairn.FilePart(cairn.File{Name: "notes.md", MediaType: "text/markdown; charset=utf-8", Data: []byte("# Notes")}),
			cairn.FilePart(cairn.File{Name: "plan.svg", MediaType: "image/svg+xml", Data: []byte("<svg/>")}),
			cairn.FilePart(cairn.File{Name: "scan.tiff", MediaType: "image/tiff", Data: []byte("tiff")}),
			cairn.FilePart(cairn.File{MediaType: "application/zip", Data: []byte("zip")}),
		)}}},
		"settings": {openai.Options{}, cairn.Request{SessionID: strings.Repeat("long", 20), Messages: []cairn.Message{user("Go")},
			Settings: cairn.Settings{Temperature: &temperature, MaxOutputTokens: 100, ReasoningEffort: "low",
				Options: map[string]any{"text": map[string]any{"verbosity": "low"}, "include": []string{}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body bytes.Buffer
			c.o.APIKey, c.o.HTTPClient = "k", providertest.Transport(func(r *http.Request) (*http.Response, error) {
				_, _ = body.ReadFrom(r.Body)
				return providertest.Plays("")(r)
			}).Client()
			_, _ = providertest.Ask(t.Context(), openai.Model("gpt-test", &c.o), &c.req) // the response is empty
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, body.Bytes(), "", "  "); err != nil {
				t.Fatal(err)
			}
			providertest.Golden(t, "requests/"+name+".json", pretty.String())
		})
	}
}

func TestStopSequencesAreRefused(t *testing.T) {
	t.Parallel()
	server := openaitest.NewServer()
	t.Cleanup(server.Close)
	req := providertest.Hello()
	req.Settings.StopSequences = []string{"END"}
	_, err := providertest.Ask(t.Context(), openai.Model("m", &openai.Options{BaseURL: server.BaseURL}), req)
	if e := cairn.AsError(err); e == nil || e.Field != "StopSequences" || e.Retryable() || len(server.Requests()) > 0 {
		t.Errorf("%+v", e)
	}
}

// TestPrefix makes consecutive requests of one conversation. Each must begin with the whole previous request, byte
// for byte.
func TestPrefix(t *testing.T) {
	t.Parallel()
	server := openaitest.NewServer(
		openaitest.Output(openaitest.Item{Reasoning: "Look first."}, openaitest.Item{Text: "Let me look.", Phase: "commentary"},
			openaitest.Item{Call: &openaitest.Call{Tool: "lookup", Arguments: `{"order": 1}`}}, openaitest.Item{Call: &openaitest.Call{Tool: "lookup", Arguments: `{"order": 2}`}}),
		openaitest.Output(openaitest.Item{Hidden: true}, openaitest.Item{Own: map[string]any{"id": "ws_1", "type": "web_search_call", "status": "completed"}},
			openaitest.Item{Text: "Both are there.", Phase: "final_answer"}),
		openaitest.Text("Bye."))
	t.Cleanup(server.Close)
	m := openai.Model("gpt-test", &openai.Options{BaseURL: server.BaseURL})
	req := providertest.Hello()
	req.System, req.Tools = "Help.", []cairn.ToolSpec{lookup}
	for range 3 {
		chunks, err := providertest.Ask(t.Context(), m, req)
		if err != nil {
			t.Fatal(err)
		}
		said := assistant(providertest.Parts(chunks)...)
		req.Messages = append(req.Messages, said)
		for _, u := range said.ToolUses() {
			req.Messages = append(req.Messages, result(u.CallID, `"there"`, false))
		}
		if len(said.ToolUses()) == 0 {
			req.Messages = append(req.Messages, user("Go on"))
		}
	}
	seen := server.Requests()
	for i := 1; i < len(seen); i++ {
		before, now := seen[i-1].Prefix(), seen[i].Prefix()
		if len(now) <= len(before) || !slices.Equal(now[:len(before)], before) || seen[i].CacheKey != "s" {
			t.Errorf("request %d begins with\n%s\nand the one before was\n%s", i, now, before)
		}
	}
	if list := seen[2].Entries(); list[2].Phase != "commentary" || list[1].Encrypted == "" {
		t.Errorf("the model is sent %+v", list)
	}
}

func ExampleModel() {
	server := openaitest.NewServer(openaitest.Output(openaitest.Item{Reasoning: "A greeting."}, openaitest.Item{Text: "Hello there."}))
	defer server.Close()

	model := openai.Model("gpt-5.6", &openai.Options{BaseURL: server.BaseURL}) // nil asks OpenAI itself
	req := &cairn.Request{Messages: []cairn.Message{user("Hi!")}}
	chunks, err := providertest.Ask(context.Background(), model, req)
	for _, c := range chunks {
		if c.Text != "" {
			fmt.Printf("%s %q\n", c.Type, c.Text)
		}
	}
	fmt.Println(err)
	// Output:
	// reasoning "A "
	// reasoning "greeting."
	// text "Hello "
	// text "there."
	// <nil>
}

// A provider charges searches, and not pages that are opened or searches that failed.
func TestSearchesInUsage(t *testing.T) {
	t.Parallel()
	item := func(kind, status, action string) openaitest.Item {
		own := map[string]any{"id": "i", "type": kind, "status": status}
		if action != "" {
			own["action"] = map[string]any{"type": action}
		}
		return openaitest.Item{Own: own}
	}
	server := openaitest.NewServer(openaitest.Output(item("web_search_call", "completed", "search"), item("web_search_call", "completed", "open_page"),
		item("web_search_call", "completed", "find_in_page"), item("web_search_call", "failed", "search"), item("web_search_call", "completed", ""),
		item("file_search_call", "completed", ""), item("code_interpreter_call", "completed", ""), openaitest.Item{Text: "Found."}))
	t.Cleanup(server.Close)
	chunks, err := providertest.Ask(t.Context(), openai.Model("m", &openai.Options{BaseURL: server.BaseURL}), providertest.Hello())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		if u := c.Usage; c.Type == cairn.ChunkUsage && (u.WebSearches != 2 || u.FileSearches != 1) {
			t.Errorf("%d searches of the web, %d of files", u.WebSearches, u.FileSearches)
		}
	}
}
