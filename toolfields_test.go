package cairn_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestProviderFields(t *testing.T) {
	t.Parallel()
	tool := func(opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func("find", "Finds.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "", nil }, opts...)
	}
	one := tool(cairn.ProviderFields("anthropic", map[string]any{"defer_loading": true, "note": "<b>"}),
		cairn.ProviderFields("anthropic", map[string]any{"strict": true}), cairn.ProviderFields("openai", map[string]any{"strict": false}))
	fields := define.Of(&one).Spec().Fields
	if got := string(fields["anthropic"]) + string(fields["openai"]); got != `{"defer_loading":true,"note":"<b>","strict":true}{"strict":false}` || len(fields) != 2 {
		t.Errorf("the fields are %s", got)
	}
	bad := cairn.Agent{Name: "bot", Model: scripted.New(), Tools: []cairn.Tool{tool(cairn.ProviderFields("openai", map[string]any{"x": make(chan int)}))}}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), `tool "find"`) || !strings.Contains(err.Error(), `provider field "x" for "openai"`) {
		t.Errorf("a field that does not encode: %v", err)
	}
}
