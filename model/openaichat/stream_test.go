package openaichat_test

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

// serve starts a fake server and returns a model that calls it.
func serve(t *testing.T, replies ...openaichattest.Reply) (*openaichat.ChatModel, *openaichattest.Server) {
	t.Helper()
	server := openaichattest.NewServer(replies...)
	t.Cleanup(server.Close)
	return openaichat.Model("test-model", &openaichat.Options{BaseURL: server.BaseURL, APIKey: "sk-secret"}), server
}

// hideHost makes output independent of the server's port.
func hideHost(text string, server *openaichattest.Server) string {
	return strings.ReplaceAll(text, strings.TrimSuffix(strings.TrimPrefix(server.BaseURL, "http://"), "/v1"), "HOST")
}

func TestReplyThatIsNotStreamed(t *testing.T) {
	t.Parallel()
	m, server := serve(t, openaichattest.Reply{Reasoning: "Hm.", Text: "Let me look.",
		Calls: []openaichattest.Call{{ID: "a", Tool: "lookup", Arguments: `{"n":1}`}, {ID: "b", Tool: "now", Arguments: ""}},
		Usage: openaichattest.Usage{Input: 10, Output: 5, Cached: 4}})
	req := hello()
	req.Settings.Options = map[string]any{"stream": false, "stream_options": nil}
	got := hideHost(lines(ask(t.Context(), m, req)), server)
	want := `reasoning "Hm." openai-chat:test-model {"field":"reasoning_content","host":"HOST"}
text "Let me look."
tool_start a lookup
tool_args a "{\"n\":1}"
tool_start b now
usage in=10 out=5 reasoning=0 cached=4 written=0
tool_args b "{}"
finish tools
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
