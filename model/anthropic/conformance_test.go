package anthropic_test

import (
	"testing"

	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	adapter.Conform(t, providertest.Conformance[*anthropictest.Request, anthropictest.Reply]{
		Serve: anthropictest.NewFunc, Call: anthropictest.CallTool,
		Asked: func(req *anthropictest.Request) (said, tool string) { return req.Last().Text(), req.ToolChoice.Name },
	})
}
