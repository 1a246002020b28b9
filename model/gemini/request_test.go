package gemini_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/gemini"
	"github.com/cairn-agents/cairn/model/gemini/geminitest"
)

var lookup = cairn.ToolSpec{Name: "lookup", Description: "Look up an order.",
	Schema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}`)}

func said(parts ...cairn.Part) cairn.Message {
	return cairn.Message{Role: cairn.RoleAssistant, Parts: parts}
}

func called(id, model, provider string) cairn.Part {
	return cairn.Part{Type: cairn.PartToolUse, Model: model, Provider: json.RawMessage(provider),
		ToolUse: &cairn.ToolUse{CallID: id, Tool: "lookup", Input: json.RawMessage(`{"order":1}`)}}
}

func answered(id, output string, failed bool) cairn.Message {
	return cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult,
		Result: &cairn.ToolResult{CallID: id, Tool: "lookup", Output: json.RawMessage(output), IsError: failed}}}}
}

// TestRequests compares what is sent with testdata/requests.
func TestRequests(t *testing.T) {
	t.Parallel()
	const own, other = "gemini:gemini-test", "openai:gpt"
	temperature := 0.5
	for name, req := range map[string]cairn.Request{
		"own": {System: "You help.", Messages: []cairn.Message{cairn.User(cairn.TextPart("Go")),
			said(cairn.Part{Type: cairn.PartText, Text: "Look.", Model: own, Provider: json.RawMessage(`{"thoughtSignature":"U0lH"}`)},
				cairn.Part{Type: cairn.PartProvider, Model: own, Provider: json.RawMessage(`{"executableCode":{"code":"1"}}`)},
				called("s_1", own, `{"id":"f1","thoughtSignature":"U0lH"}`), called("s_2", "", "")),
			answered("s_1", `{"a":1}`, false), answered("s_2", `"gone"`, true), cairn.Context("It is late.")},
			Tools: []cairn.ToolSpec{lookup, {Name: "now"}}, Choice: cairn.ToolChoice{Tool: "lookup"}},
		"of_another_model": {Messages: []cairn.Message{said(cairn.TextPart("Hello.")), cairn.User(cairn.TextPart("Go")),
			said(cairn.Part{Type: cairn.PartReasoning, Text: "Hm.", Model: other, Provider: json.RawMessage(`{"id":"rs"}`)},
				called("x:1", other, `{"id":"fc_1"}`), called("x:2", other, `{"id":"fc_2"}`)),
			answered("x:2", `[1]`, false), answered("x:1", `"one"`, false), said(cairn.TextPart("One.")), said(cairn.TextPart("Two."))},
			Choice: cairn.ToolChoice{None: true}, Tools: []cairn.ToolSpec{lookup}},
		"files": {Messages: []cairn.Message{cairn.User(
			cairn.FilePart(cairn.File{MediaType: "image/png", Data: []byte("png")}),
			cairn.FilePart(cairn.File{MediaType: "image/jpeg", URL: "https://example.com/cat.jpg"}),
			cairn.FilePart(cairn.File{Name: "notes.md", MediaType: "text/markdown; charset=utf-8", Data: []byte("# Notes")}),
			cairn.FilePart(cairn.File{Name: "plan.svg", MediaType: "image/svg+xml", Data: []byte("<svg/>")}),
			cairn.FilePart(cairn.File{Name: "a.zip", MediaType: "application/zip", Data: []byte("zip")}))},
			Settings: cairn.Settings{Temperature: &temperature, MaxOutputTokens: 10, StopSequences: []string{"END"}, ReasoningEffort: "low",
				Options: map[string]any{"safetySettings": []any{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body bytes.Buffer
			record := providertest.Transport(func(r *http.Request) (*http.Response, error) {
				_, _ = body.ReadFrom(r.Body)
				return providertest.Plays("")(r)
			})
			m := gemini.Model("gemini-test", &gemini.Options{APIKey: "k", HTTPClient: record.Client(), ServerTools: []any{map[string]any{"googleSearch": map[string]any{}}}})
			_, _ = providertest.Ask(t.Context(), m, &req) // the response is empty
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, bytes.TrimSpace(body.Bytes()), "", "  "); err != nil {
				t.Fatal(err)
			}
			providertest.Golden(t, "requests/"+name+".json", pretty.String()+"\n")
		})
	}
}

// TestPrefix makes consecutive requests of one conversation. Each must begin with the whole previous request, byte
// for byte.
func TestPrefix(t *testing.T) {
	t.Parallel()
	call := func(order string) geminitest.Part {
		return geminitest.Part{Call: &geminitest.Call{Tool: "lookup", Arguments: `{"order": ` + order + `}`}}
	}
	server := geminitest.NewServer(
		geminitest.Content(geminitest.Part{Thought: "Look first."}, geminitest.Part{Text: "Let me look."}, call("1"), call("2")),
		geminitest.Content(geminitest.Part{Text: "Both are there.", Signed: true}),
		geminitest.Text("Bye."))
	t.Cleanup(server.Close)
	m := gemini.Model("gemini-test", &gemini.Options{BaseURL: server.BaseURL})
	req := providertest.Hello()
	req.System, req.Tools = "Help.", []cairn.ToolSpec{lookup}
	for range 3 {
		chunks, err := providertest.Ask(t.Context(), m, req)
		if err != nil {
			t.Fatal(err)
		}
		reply := said(providertest.Parts(chunks)...)
		req.Messages = append(req.Messages, reply)
		for _, u := range reply.ToolUses() {
			req.Messages = append(req.Messages, answered(u.CallID, `"there"`, false))
		}
		if len(reply.ToolUses()) == 0 {
			req.Messages = append(req.Messages, cairn.User(cairn.TextPart("Go on")))
		}
	}
	seen := server.Requests()
	for i := 1; i < len(seen); i++ {
		before, now := seen[i-1].Prefix(), seen[i].Prefix()
		if len(now) <= len(before) || !slices.Equal(now[:len(before)], before) {
			t.Errorf("request %d begins with\n%s\nand the one before was\n%s", i, now, before)
		}
	}
}

// Gemini 3 takes "$ref" in a result for the name of a file, and refuses one that it does not know.
func TestResultsWithReferences(t *testing.T) {
	t.Parallel()
	for output, text := range map[string]bool{`{"schema":{"$ref":"#/$defs/a"}}`: true, `{"schema":{"\u0024ref":"#/$defs/a"}}`: true, `[{"$ref":1}]`: true, `{"ref":"$ref is text"}`: false} {
		for _, name := range []string{"gemini-3.1-pro", "models/gemini-3-flash", "gemini-2.5-pro", "gemini-pro-latest"} {
			server := geminitest.NewServer(geminitest.Text("Seen."))
			t.Cleanup(server.Close)
			req := providertest.Hello()
			req.Messages = append(req.Messages, said(called("a", "", "")), answered("a", output, false))
			if _, err := providertest.Ask(t.Context(), gemini.Model(name, &gemini.Options{BaseURL: server.BaseURL}), req); err != nil {
				t.Errorf("%s: %s: %v", name, output, err)
				continue
			}
			sent := string(server.Requests()[0].Last().Pieces()[0].Response.Response)
			quoted, err := json.Marshal(output)
			if err != nil {
				t.Fatal(err)
			}
			if three := name == "gemini-3.1-pro" || name == "models/gemini-3-flash"; (sent == `{"output":`+string(quoted)+`}`) != (text && three) {
				t.Errorf("%s: the result %s is sent as %s", name, output, sent)
			}
		}
	}
}

func ExampleModel() {
	server := geminitest.NewServer(geminitest.Text("Hello there."))
	defer server.Close()

	model := gemini.Model("gemini-3-pro", &gemini.Options{BaseURL: server.BaseURL}) // nil asks Google itself
	req := &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart("Hi!"))}}
	for chunk, err := range model.Stream(context.Background(), req) {
		switch {
		case err != nil:
			fmt.Println(err)
		case chunk.Type == cairn.ChunkText:
			fmt.Printf("%q\n", chunk.Text)
		}
	}
	// Output:
	// "Hello "
	// "there."
}
