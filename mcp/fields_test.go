package mcp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/mcp"
)

// Each of a server's tools is sent with the fields for the provider. The tool that calls new ones is not.
func TestProviderFieldsOfAServer(t *testing.T) {
	t.Parallel()
	fields := map[string]map[string]any{"anthropic": {"defer_loading": true}, "openai": {"strict": false}}
	for name, opts := range map[string]mcp.Options{
		"all":                 {ProviderFields: fields},
		"approved and cached": {ProviderFields: fields, Approve: []string{"echo"}, Cache: &cairn.CachePolicy{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, []cairn.Toolset{served(t, bench(t.TempDir()), opts)})
			k.turn("go")
			for _, tool := range k.offers() {
				want := `{"defer_loading":true}{"strict":false}`
				if strings.HasSuffix(tool.Name, "call_new_tool") {
					want = ""
				}
				if got := string(tool.Fields["anthropic"]) + string(tool.Fields["openai"]); got != want {
					t.Errorf("%s has the fields %s", tool.Name, got)
				}
			}
		})
	}
	_, err := mcp.URL("bench", "https://example.com/mcp", &mcp.Options{ProviderFields: map[string]map[string]any{"openai": {"x": make(chan int)}}})
	var e *cairn.Error
	if !errors.Is(err, cairn.ErrInvalid) || !asError(err, &e) || e.Field != "provider_fields" || !strings.Contains(err.Error(), `provider field "x" for "openai"`) {
		t.Errorf("a field that does not encode: %v", err)
	}
}
