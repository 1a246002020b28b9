package gemini_test

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/gemini/geminitest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	adapter.Conform(t, providertest.Conformance[*geminitest.Request, geminitest.Reply]{
		Serve: geminitest.NewFunc, Call: geminitest.CallTool,
		Asked: func(req *geminitest.Request) (said, tool string) {
			return req.Last().Text(), strings.Join(req.Config.Calling.Names, "")
		},
	})
}
