package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type order struct {
	Number int      `json:"number"`
	Notes  []string `json:"notes,omitempty"`
}

// typed are outputs of agents, by the agents' names.
var typed = map[string]struct {
	output *cairn.OutputType
	value  string
}{
	"plain": {nil, ""},
	"typed": {cairn.OutputOf[order](), `{"number":42,"notes":["a"]}`},
	"tree": {cairn.RawOutput(json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"top":{"$ref":"#/$defs/node"}},
		"required":["top"],"additionalProperties":false,"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},
		"required":["name"],"additionalProperties":false}}}`)), `{"top":{"name":"a","children":[{"name":"b"},{"name":"c","children":[]}]}}`},
	"itself": {cairn.RawOutput(json.RawMessage(`{"type":"object","properties":{"next":{"$ref":"#"},"end":{"const":"#/end"}},"additionalProperties":false}`)),
		`{"next":{"next":{"end":"#/end"}}}`},
	"named": {cairn.RawOutput(json.RawMessage(`{"type":"object","properties":{"$ref":{"type":"string"},"properties":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}},"required":["$ref"]}`)),
		`{"$ref":"#/x","properties":7}`},
}

// typist serves an agent for each typed output.
func typist(t *testing.T) string {
	t.Helper()
	var agents []*cairn.Agent
	var tools []mcp.AgentTool
	for name, is := range typed {
		model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if is.output == nil {
				return scripted.Text("hello")
			}
			return scripted.Call(cairn.FinishTool, json.RawMessage(is.value))
		})
		agents = append(agents, &cairn.Agent{Name: name, Model: model, Output: is.output})
		tools = append(tools, mcp.AgentTool{Agent: name, Description: "Helps."})
	}
	eng, err := engine.New(memstore.New(nil), agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	served, err := mcp.NewAgents(eng, tools, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := served.Handler(func(*http.Request) (string, error) { return "ada", nil })
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

// A client of the official TypeScript SDK accepts the typed output of agents, which satisfies the schemas of the tools.
func TestTypedOutput(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var list []struct {
				Name         string
				Error        string
				IsError      bool
				Text         string
				OutputSchema struct {
					Type       string
					Required   []string
					Properties map[string]json.RawMessage
				}
				StructuredContent struct {
					Session, Text string
					Output        json.RawMessage
				}
			}
			out := testenv.Node(t, "testdata/typed.mjs", typist(t), mode)
			if err := json.Unmarshal(out, &list); err != nil || len(list) != len(typed) {
				t.Fatalf("the client got %s, %v", out, err)
			}
			for _, r := range list {
				want := typed[r.Name].value
				if r.Error != "" || r.IsError || r.StructuredContent.Session == "" || !same(r.StructuredContent.Output, want) || (want == "") != (r.StructuredContent.Text == "hello") {
					t.Errorf("%s: the client got %+v", r.Name, r)
				}
				if !strings.Contains(r.Text, r.StructuredContent.Session) {
					t.Errorf("%s: the text is %s", r.Name, r.Text)
				}
				_, has := r.OutputSchema.Properties["output"]
				if r.OutputSchema.Type != "object" || has != (want != "") {
					t.Errorf("%s: the schema is %+v", r.Name, r.OutputSchema)
				}
			}
		})
	}
}

// same reports whether two texts are the same JSON value; nothing is the same as "".
func same(got json.RawMessage, want string) bool {
	if len(got) == 0 || want == "" {
		return len(got) == 0 && want == ""
	}
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}

// Methods of capabilities that are not declared do not exist. What is answered is for the user alone.
func TestOnlyDeclaredMethods(t *testing.T) {
	t.Parallel()
	eng, _ := clerk(t)
	address := office(t, eng)
	for _, method := range []string{"prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
		"completion/complete", "logging/setLevel", "nonsense"} {
		status, answer := post(t, address, method, `"name":"x","uri":"x:y","level":"info","ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}`)
		if status != http.StatusNotFound || answer.Error.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("%s is answered with %d %+v", method, status, answer)
		}
	}
	_, discovered := post(t, address, "server/discover", "")
	if len(discovered.Result.Capabilities) != 1 || discovered.Result.Capabilities["tools"] == nil {
		t.Errorf("the server declares %s", discovered.Result.Capabilities)
	}
	for _, method := range []string{"server/discover", "tools/list"} {
		if _, answer := post(t, address, method, ""); answer.Result.CacheScope != "private" {
			t.Errorf("%s is answered for %q", method, answer.Result.CacheScope)
		}
	}
	old := visit(t, address, "ada", nil)
	if _, err := old.ListPrompts(t.Context(), nil); err == nil {
		t.Error("the server lists prompts")
	}
	if _, err := old.ListTools(t.Context(), &sdk.ListToolsParams{}); err != nil {
		t.Error(err)
	}
}

type answered struct {
	Error  struct{ Code int64 }
	Result struct {
		CacheScope   string
		Capabilities map[string]json.RawMessage
	}
}

// post makes a request of the current revision.
func post(t *testing.T, address, method, params string) (int, answered) {
	t.Helper()
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientInfo":{"name":"visitor","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer ada", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": "x"} {
		req.Header.Set(name, value)
	}
	if method == "resources/read" || method == "resources/subscribe" {
		req.Header.Set("Mcp-Name", "x:y")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw := make([]byte, 64<<10)
	n, _ := resp.Body.Read(raw)
	text := string(raw[:n])
	if _, data, ok := strings.Cut(text, "data: "); ok {
		text, _, _ = strings.Cut(data, "\n")
	}
	var a answered
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Errorf("%s is answered with %s: %v", method, text, err)
	}
	return resp.StatusCode, a
}
