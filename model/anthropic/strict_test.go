package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

// TestStrictTools has a tool that the API can enforce beside tools that it cannot: these are sent without strict.
func TestStrictTools(t *testing.T) {
	t.Parallel()
	var tools []cairn.ToolSpec
	want := map[string]bool{}
	for name, property := range map[string]string{"plain": `{"type":"string"}`, "long": `{"type":"string","minLength":3}`,
		"unique": `{"type":"array","items":{"type":"string"},"uniqueItems":true}`, "nullable": `{"type":["object","null"],"properties":{}}`} {
		tools = append(tools, cairn.ToolSpec{Name: name,
			Schema: json.RawMessage(`{"type":"object","properties":{"a":` + property + `},"required":["a"],"additionalProperties":false}`)})
		want[name] = name == "plain"
	}
	for _, strict := range []bool{true, false} {
		server := anthropictest.NewServer(anthropictest.Text("ok"))
		t.Cleanup(server.Close)
		req := providertest.Hello()
		req.Tools = tools
		m := anthropic.Model("m", &anthropic.Options{BaseURL: server.BaseURL, APIKey: "k", StrictTools: strict})
		if _, err := providertest.Ask(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Tools []struct {
				Name   string
				Strict bool
			}
		}
		if err := json.Unmarshal(server.Requests()[0].Body, &sent); err != nil || len(sent.Tools) != len(tools) {
			t.Fatalf("%v: %+v", err, sent)
		}
		for _, tool := range sent.Tools {
			if tool.Strict != (strict && want[tool.Name]) {
				t.Errorf("StrictTools %t: tool %s is strict: %t", strict, tool.Name, tool.Strict)
			}
		}
	}
}
