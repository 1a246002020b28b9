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

// unsupported are what servers answer if they do not know structured output, or do not combine it with tools.
var unsupported = []struct {
	status int
	says   string
}{
	{400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."},
	{400, "Unsupported parameter: 'text.format'"},
	{422, "response_format: response_format.type `json_schema` is unavailable now"},
	{400, "This response_format type is unavailable now"},
	{400, "This model does not support response format `json_schema`."},
	{400, "Model does not support json_schema output with tools"},
	{400, "json mode cannot be combined with tool/function calling"},
	{400, "property 'response_format' is unsupported"},
	{400, "unexpected keyword argument 'response_format'"},
	{400, "Additional properties are not allowed ('response_format' was unexpected)"},
	{400, "Invalid value: 'json_schema'. Supported values are: 'text' and 'json_object'."},
	{400, "'response_format.type' must be one of 'text', 'json_object'"},
	{404, "No endpoints found that support the requested parameter: response_format"},
	{400, "output_config: Extra inputs are not permitted"},
	{400, "output_config.format: Extra inputs are not permitted"},
	{400, "'m' does not support output format"},
	{400, "Structured outputs are not available for this model"},
	{400, `Invalid JSON payload received. Unknown name "responseJsonSchema" at 'generation_config': Cannot find field.`},
	{400, "Function calling with a response mime type: 'application/json' is unsupported"},
	{400, "JSON mode is not enabled for models/m"},
	{400, "Please set 'tool_config.function_calling_config.mode' field to ANY instead of populating 'response_mime_type' and 'response_schema' fields."},
}

// supported are refusals of what a request for structured output says, or of the rest of it.
var supported = []struct {
	status int
	says   string
}{
	{400, "Invalid schema for response_format 'output': In context=(), 'uniqueItems' is not permitted."},
	{400, "output_config.format.schema: For 'integer' type, property 'minimum' is not supported"},
	{400, `Invalid JSON payload received. Unknown name "const" at 'generation_config.response_json_schema': Cannot find field.`},
	{400, "'allOf' is not permitted in the response_format schema"},
	{400, "Invalid parameter: 'response_format.json_schema' needs a name"},
	{400, "The provided JSON schema contains features not supported by the grammar"},
	{400, "'messages' must contain the word 'json' in some form, to use 'response_format'"},
	{400, "temperature is not supported with this model"},
	{429, "response_format is not available above the rate limit"},
	{500, "response_format is unavailable now"},
}

// refusedOutput tests servers that refuse structured output: the output must be asked for by the tool, at once for
// later requests.
func (a Adapter[Q, R]) refusedOutput(t *testing.T) {
	req := Hello()
	req.NativeOutput = true
	req.Choice.Tool = cairn.FinishTool
	req.Tools = []cairn.ToolSpec{{Name: "lookup", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: cairn.FinishTool, Schema: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}`)}}
	plain := *req
	plain.NativeOutput = false
	var tool []string
	if _, err := Ask(t.Context(), a.refusing(&tool, 0, ""), &plain); err != nil || len(tool) != 1 {
		t.Fatalf("the tool: %v after %v", err, tool)
	}
	for _, c := range unsupported {
		var bodies []string
		m := a.refusing(&bodies, c.status, c.says)
		for range 2 {
			if chunks, err := Ask(t.Context(), m, req); err != nil || len(names(chunks)) > 0 || said(chunks, cairn.ChunkText) == "" {
				t.Errorf("%s: the reply is\n%s", c.says, Lines(chunks, err))
			}
		}
		if len(bodies) != 3 || strings.Contains(bodies[0], cairn.FinishTool) || bodies[1] != tool[0] || bodies[2] != tool[0] {
			t.Errorf("%s: the requests are %s, want the tool's %s", c.says, bodies, tool[0])
		}
	}
	for _, c := range supported {
		var bodies []string
		m := a.refusing(&bodies, c.status, c.says)
		if _, err := Ask(t.Context(), m, req); err == nil || len(bodies) != 1 {
			t.Errorf("%s: %v after %d requests", c.says, err, len(bodies))
		}
		if _, err := Ask(t.Context(), m, req); err != nil || len(bodies) != 2 || bodies[1] != bodies[0] {
			t.Errorf("%s: the next request: %v after %s", c.says, err, bodies)
		}
	}
	if !req.NativeOutput || len(req.Tools) != 2 || req.Choice.Tool != cairn.FinishTool {
		t.Errorf("the request was changed: %+v", req)
	}
}

// refusing returns a model whose server refuses the first request and replies to later ones. It adds the bodies of all
// to a list. With status 0 it refuses none.
func (a Adapter[Q, R]) refusing(bodies *[]string, status int, says string) cairn.Model {
	return a.through(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if *bodies = append(*bodies, string(body)); len(*bodies) > 1 || status == 0 {
			return Plays(a.Piece + a.Last + a.Done)(r)
		}
		raw, err := json.Marshal(map[string]any{"error": map[string]any{"message": says, "type": "invalid_request_error"}})
		if err != nil {
			return nil, err
		}
		return Answering(status, string(raw), new([]byte))(&http.Request{Body: http.NoBody})
	})
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
