package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

var (
	ask    = providertest.Ask
	hello  = providertest.Hello
	lines  = providertest.Lines
	golden = providertest.Golden
	parts  = providertest.Parts
)

// serve starts a server with a script and returns a model that calls it.
func serve(t testing.TB, replies ...anthropictest.Reply) (*anthropic.MessagesModel, *anthropictest.Server) {
	t.Helper()
	server := anthropictest.NewServer(replies...)
	t.Cleanup(server.Close)
	return anthropic.Model("claude-test", &anthropic.Options{BaseURL: server.BaseURL, APIKey: "sk-secret"}), server
}

func user(text string) cairn.Message { return cairn.User(cairn.TextPart(text)) }

func assistant(parts ...cairn.Part) cairn.Message {
	return cairn.Message{Role: cairn.RoleAssistant, Parts: parts}
}

func use(id, tool, input string) cairn.Part {
	return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: tool, Input: json.RawMessage(input)}}
}

func result(id, output string, isError bool) cairn.Part {
	return cairn.Part{Type: cairn.PartToolResult,
		Result: &cairn.ToolResult{CallID: id, Tool: "lookup", Output: json.RawMessage(output), IsError: isError}}
}

func tools(parts ...cairn.Part) cairn.Message {
	return cairn.Message{Role: cairn.RoleTool, Parts: parts}
}

var lookup = cairn.ToolSpec{Name: "lookup", Description: "Look up an order.",
	Schema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"},"all":{"type":"boolean"}},"required":["order"],"additionalProperties":false}`)}
