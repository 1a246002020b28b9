package openai_test

import (
	"context"
	"encoding/json"
	"errors"
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

// TestToolsOfTheProvidersTypes has the agent's tools answer calls of the API's own types, in the form that each wants.
func TestToolsOfTheProvidersTypes(t *testing.T) {
	t.Parallel()
	shell := func(more string) map[string]any {
		var item map[string]any
		if err := json.Unmarshal([]byte(`{"id":"sh_1","type":"shell_call","call_id":"call_1","status":"completed","action":{"commands":["ls"]`+more+`}}`), &item); err != nil {
			t.Fatal(err)
		}
		return item
	}
	patch := map[string]any{"id": "ap_1", "type": "apply_patch_call", "call_id": "call_1", "status": "completed",
		"operation": map[string]any{"type": "delete_file", "path": "a.txt"}}
	custom := map[string]any{"id": "ct_1", "type": "custom_tool_call", "call_id": "call_1", "status": "completed", "name": "own", "input": "SELECT \"a\""}
	for name, c := range map[string]struct {
		fields map[string]any
		item   map[string]any
		answer any
		err    error
		reads  string // the tool's arguments
		tool   string // as it is declared
		sent   string // the answer
	}{
		"custom": {map[string]any{"type": "custom", "format": map[string]any{"type": "text"}}, custom, "two rows", nil, `{"input":"SELECT \"a\""}`,
			`{"description":"Does it.","format":{"type":"text"},"name":"own","type":"custom"}`, `{"type":"custom_tool_call_output","call_id":"call_1","output":"two rows"}`},
		"custom, failed": {map[string]any{"type": "custom"}, custom, nil, errors.New("locked"), `{"input":"SELECT \"a\""}`,
			`{"description":"Does it.","name":"own","type":"custom"}`, `{"type":"custom_tool_call_output","call_id":"call_1","output":"Error: locked"}`},
		"shell": {map[string]any{"type": "shell"}, shell(`,"max_output_length":100`), "a.txt", nil, `{"commands":["ls"],"max_output_length":100}`,
			`{"type":"shell"}`, `{"call_id":"call_1","max_output_length":100,"output":[{"stdout":"a.txt","stderr":"","outcome":{"type":"exit","exit_code":0}}],"type":"shell_call_output"}`},
		"shell, failed": {map[string]any{"type": "shell"}, shell(`,"max_output_length":null`), nil, errors.New("no such file"), `{"commands":["ls"],"max_output_length":null}`,
			`{"type":"shell"}`, `{"call_id":"call_1","output":[{"stdout":"","stderr":"no such file","outcome":{"type":"exit","exit_code":1}}],"type":"shell_call_output"}`},
		"shell, in the API's form": {map[string]any{"type": "shell"}, shell(""), []any{map[string]any{"outcome": map[string]any{"type": "timeout"}, "stderr": "", "stdout": "a"}}, nil, `{"commands":["ls"]}`,
			`{"type":"shell"}`, `{"call_id":"call_1","output":[{"outcome":{"type":"timeout"},"stderr":"","stdout":"a"}],"type":"shell_call_output"}`},
		"patch": {map[string]any{"type": "apply_patch"}, patch, "deleted", nil, `{"path":"a.txt","type":"delete_file"}`,
			`{"type":"apply_patch"}`, `{"call_id":"call_1","output":"deleted","status":"completed","type":"apply_patch_call_output"}`},
		"patch, failed": {map[string]any{"type": "apply_patch"}, patch, nil, errors.New("no such file"), `{"path":"a.txt","type":"delete_file"}`,
			`{"type":"apply_patch"}`, `{"call_id":"call_1","output":"no such file","status":"failed","type":"apply_patch_call_output"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := openaitest.NewServer(openaitest.Output(openaitest.Item{Own: c.item}), openaitest.Text("Done."), openaitest.Text("Again."))
			t.Cleanup(server.Close)
			chat := openaichattest.NewServer(openaichattest.Text("Hello."))
			t.Cleanup(chat.Close)
			var read string
			tool := cairn.RawFunc("own", "Does it.", json.RawMessage(`{"type":"object"}`), func(_ context.Context, _ *cairn.Call, in json.RawMessage) (json.RawMessage, error) {
				read = string(in)
				if c.err != nil {
					return nil, c.err
				}
				return json.Marshal(c.answer)
			}, cairn.ProviderFields("openai", c.fields))
			st := memstore.New(nil)
			turn := func(m cairn.Model) {
				t.Helper()
				eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Model: m, Tools: []cairn.Tool{tool}}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = eng.Close(context.Background()) }()
				run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Go"))
				if err != nil {
					t.Fatal(err)
				}
				if res, err := run.Wait(t.Context()); err != nil || res.Status != cairn.RunCompleted {
					t.Fatalf("the run is %s: %v, %v", res.Status, res.Error, err)
				}
			}
			own := openai.Model("gpt", &openai.Options{BaseURL: server.BaseURL})
			turn(own)
			turn(openaichat.Model("local", &openaichat.Options{BaseURL: chat.BaseURL}))
			turn(own)
			if read != c.reads {
				t.Errorf("the tool reads %s, want %s", read, c.reads)
			}
			for i, r := range server.Requests() {
				if !strings.Contains(string(r.Body), `"tools":[`+c.tool+`]`) {
					t.Errorf("request %d has the tools of %s, want %s", i, r.Body, c.tool)
				}
				if i > 0 && string(r.Input[2]) != c.sent {
					t.Errorf("request %d answers\n%s\nwant\n%s", i, r.Input[2], c.sent)
				}
			}
			if body := string(chat.Requests()[0].Body); !strings.Contains(body, `"type":"function"`) || !strings.Contains(body, `"role":"tool"`) || strings.Contains(body, "_call_output") {
				t.Errorf("another provider is sent %s", body)
			}
		})
	}
}

// A forced call names the tool as the API knows it.
func TestForcedToolsOfTheProvidersTypes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"custom": `"tool_choice":{"name":"own","type":"custom"}`, "shell": `"tool_choice":{"type":"shell"}`, "": `"tool_choice":{"name":"own","type":"function"}`} {
		server := openaitest.NewServer(openaitest.Text("No."))
		t.Cleanup(server.Close)
		req := providertest.Hello()
		req.Choice.Tool = "own"
		req.Tools = []cairn.ToolSpec{{Name: "own", Fields: map[string]json.RawMessage{}}}
		if kind != "" {
			req.Tools[0].Fields["openai"] = json.RawMessage(`{"type":"` + kind + `"}`)
		}
		_, err := providertest.Ask(t.Context(), openai.Model("m", &openai.Options{BaseURL: server.BaseURL}), req)
		if err != nil || !strings.Contains(string(server.Requests()[0].Body), want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A shell that runs in a container of the provider's is not the agent's.
func TestShellOfTheProvider(t *testing.T) {
	t.Parallel()
	server := openaitest.NewServer(openaitest.Output(openaitest.Item{Own: map[string]any{"id": "sh_1", "type": "shell_call", "call_id": "call_1", "action": map[string]any{"commands": []string{"ls"}}}},
		openaitest.Item{Own: map[string]any{"id": "so_1", "type": "shell_call_output", "call_id": "call_1", "output": []any{}}}, openaitest.Item{Text: "Done."}))
	t.Cleanup(server.Close)
	req := providertest.Hello()
	req.Tools = []cairn.ToolSpec{{Name: "own", Fields: map[string]json.RawMessage{"openai": json.RawMessage(`{"type":"shell","environment":{"type":"container_auto"}}`)}}}
	chunks, err := providertest.Ask(t.Context(), openai.Model("m", &openai.Options{BaseURL: server.BaseURL}), req)
	if err != nil || strings.Contains(providertest.Lines(chunks, err), "tool_start") {
		t.Errorf("the reply is\n%s", providertest.Lines(chunks, err))
	}
}
