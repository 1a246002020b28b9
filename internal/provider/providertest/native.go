package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// nativeOutput tests structured output: the request has the schema and not the tool, the text becomes a call of it, and
// a call that was refused is the text that it was.
func (a Adapter[Q, R]) nativeOutput(t *testing.T) {
	var body string
	stream := a.Piece + a.Last + a.Done
	m := a.through(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		body = string(raw)
		if err != nil {
			return nil, err
		}
		return Plays(stream)(r)
	})
	plain, err := Ask(t.Context(), m, Hello())
	if err != nil {
		t.Fatal(err)
	}
	req := Hello()
	req.NativeOutput = true
	req.Choice.Tool = cairn.FinishTool
	req.Tools = []cairn.ToolSpec{{Name: "lookup", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: cairn.FinishTool, Schema: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}`)}}
	req.Messages = append(req.Messages, cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{
		{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "f", Tool: cairn.FinishTool, Input: json.RawMessage(`{"sum":"x"}`)}}}},
		cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "f", Tool: cairn.FinishTool, Output: json.RawMessage(`"sum is not a number"`), IsError: true}}}})
	chunks, err := Ask(t.Context(), m, req)
	if problem := WellFormed(chunks, err); problem != "" || err != nil {
		t.Fatalf("%s\n%s", problem, Lines(chunks, err))
	}
	message := cairn.Message{Parts: Parts(chunks)}
	uses := message.ToolUses()
	if len(uses) != 1 || uses[0].Tool != cairn.FinishTool || string(uses[0].Input) != said(plain, cairn.ChunkText) || message.Text() != "" {
		t.Errorf("the reply is\n%s", Lines(chunks, err))
	}
	for text, want := range map[string]bool{cairn.FinishTool: false, `"sum":{"type":"integer"}`: true, `{\"sum\":\"x\"}`: true, "sum is not a number": true, `"lookup"`: true} {
		if strings.Contains(body, text) != want {
			t.Errorf("the request has %s: %t\n%s", text, !want, body)
		}
	}
	stream = Streams(t)["tools_parallel"]
	want, err := Ask(t.Context(), m, Hello())
	if err != nil {
		t.Fatal(err)
	}
	if chunks, err = Ask(t.Context(), m, req); err != nil || !slices.Equal(names(chunks), names(want)) {
		t.Errorf("a reply with calls is\n%s", Lines(chunks, err))
	}
	if len(req.Tools) != 2 || req.Choice.Tool != cairn.FinishTool {
		t.Errorf("the request was changed: %+v", req)
	}
}

// names returns the names of the called tools.
func names(chunks []cairn.Chunk) []string {
	var list []string
	for _, c := range chunks {
		if c.Type == cairn.ChunkToolStart {
			list = append(list, c.Tool)
		}
	}
	return list
}
