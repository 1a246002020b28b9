package providertest

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn"
)

// StrictTools checks that an adapter sends only tools that its API can enforce as strict. ask makes a request with a
// model whose StrictTools is as given, and returns the request's body; both APIs with such tools list them alike.
func StrictTools(t *testing.T, ask func(t *testing.T, strict bool, req *cairn.Request) []byte) {
	var tools []cairn.ToolSpec
	want := map[string]bool{}
	for name, property := range map[string]string{"plain": `{"type":"string"}`, "long": `{"type":"string","minLength":3}`,
		"unique": `{"type":"array","items":{"type":"string"},"uniqueItems":true}`, "nullable": `{"type":["object","null"],"properties":{}}`} {
		tools = append(tools, cairn.ToolSpec{Name: name,
			Schema: json.RawMessage(`{"type":"object","properties":{"a":` + property + `},"required":["a"],"additionalProperties":false}`)})
		want[name] = name == "plain"
	}
	for _, strict := range []bool{true, false} {
		req := Hello()
		req.Tools = tools
		var sent struct {
			Tools []struct {
				Name   string
				Strict bool
			}
		}
		if err := json.Unmarshal(ask(t, strict, req), &sent); err != nil || len(sent.Tools) != len(tools) {
			t.Fatalf("%v: %+v", err, sent)
		}
		for _, tool := range sent.Tools {
			if tool.Strict != (strict && want[tool.Name]) {
				t.Errorf("StrictTools %t: tool %s is strict: %t", strict, tool.Name, tool.Strict)
			}
		}
	}
}
