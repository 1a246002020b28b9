package providertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// forcedCall tests servers that refuse to force a call: for the model, or for its thinking. The call must then be asked
// for in words, at once for later requests.
func (a Adapter[Q, R]) forcedCall(t *testing.T) {
	for _, c := range []struct {
		says   string
		words  bool
		status int
	}{
		{"deepseek-reasoner does not support this tool_choice", true, 400},
		{"No endpoints found that support the provided 'tool_choice' value.", true, 404},
		{"Thinking may not be enabled when tool_choice forces tool use.", true, 400},
		{"Tool choice is required, but model did not call a tool", false, 400},
		{"messages: at least one is required", false, 400},
	} {
		var bodies []string
		m := a.refusing(&bodies, c.status, c.says)
		req := Hello()
		req.Tools = []cairn.ToolSpec{{Name: "lookup", Schema: json.RawMessage(`{"type":"object"}`)}}
		req.Choice.Tool = "lookup"
		words := `Call the tool \"lookup\"`
		_, err := Ask(t.Context(), m, req)
		if !c.words {
			if err == nil || len(bodies) != 1 {
				t.Errorf("%s: %v after %d requests", c.says, err, len(bodies))
			}
			continue
		}
		if err != nil || len(bodies) != 2 || strings.Contains(bodies[0], words) || !strings.Contains(bodies[1], words) {
			t.Errorf("%s: %v after %v", c.says, err, bodies)
			continue
		}
		if _, err := Ask(t.Context(), m, req); err != nil || len(bodies) != 3 || bodies[2] != bodies[1] {
			t.Errorf("%s: the next request: %v after %v", c.says, err, bodies)
		}
		if req.Choice.Tool != "lookup" || len(req.Messages) != 1 {
			t.Errorf("the request was changed: %+v", req)
		}
	}
}
