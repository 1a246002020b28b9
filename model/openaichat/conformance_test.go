package openaichat_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	adapter.Conform(t, providertest.Conformance[*openaichattest.Request, openaichattest.Reply]{
		Serve: openaichattest.NewFunc, Call: openaichattest.CallTool,
		Asked: func(req *openaichattest.Request) (said, tool string) {
			var body struct {
				Choice struct {
					Function struct{ Name string } `json:"function"`
				} `json:"tool_choice"`
			}
			_ = json.Unmarshal(req.Body, &body) // it may be a text
			return req.Last().Text(), body.Choice.Function.Name
		},
	})
}
