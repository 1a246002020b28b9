package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	adapter.Conform(t, providertest.Conformance[*openaitest.Request, openaitest.Reply]{
		Serve: openaitest.NewFunc, Call: openaitest.CallTool,
		Asked: func(req *openaitest.Request) (said, tool string) {
			var choice struct{ Name string }
			_ = json.Unmarshal(req.ToolChoice, &choice) // it may be a text
			return req.Last().Text(), choice.Name
		},
	})
}
