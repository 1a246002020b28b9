package anthropic_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

var update = flag.Bool("update", false, "write the golden files")

// serve starts a server with a script and returns a model that asks it.
func serve(t testing.TB, replies ...anthropictest.Reply) (*anthropic.MessagesModel, *anthropictest.Server) {
	t.Helper()
	server := anthropictest.NewServer(replies...)
	t.Cleanup(server.Close)
	return anthropic.Model("claude-test", &anthropic.Options{BaseURL: server.BaseURL, APIKey: "sk-secret"}), server
}

func user(text string) cairn.Message { return cairn.User(cairn.TextPart(text)) }

func hello() *cairn.Request {
	return &cairn.Request{SessionID: "s", Messages: []cairn.Message{user("Hello")}}
}

// ask reads one reply to its end.
func ask(ctx context.Context, m cairn.Model, req *cairn.Request) (chunks []cairn.Chunk, err error) {
	for c, streamErr := range m.Stream(ctx, req) {
		if streamErr != nil {
			return chunks, streamErr
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// lines writes a reply down, a line for each chunk and one for the error.
func lines(chunks []cairn.Chunk, err error) string {
	var b strings.Builder
	for _, c := range chunks {
		fmt.Fprintf(&b, "%s", c.Type)
		if c.CallID != "" {
			fmt.Fprintf(&b, " %s", c.CallID)
		}
		if c.Tool != "" {
			fmt.Fprintf(&b, " %s", c.Tool)
		}
		if c.Text != "" || c.Type == cairn.ChunkText {
			fmt.Fprintf(&b, " %q", c.Text)
		}
		if c.Provider != nil {
			fmt.Fprintf(&b, " %s %s", c.Model, c.Provider)
		}
		for _, s := range c.Sources {
			fmt.Fprintf(&b, " <%s|%s|%s>", s.URL, s.Title, s.Quote)
		}
		if u := c.Usage; c.Type == cairn.ChunkUsage {
			fmt.Fprintf(&b, " in=%d out=%d reasoning=%d cached=%d written=%d",
				u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CachedTokens, u.CacheWriteTokens)
		}
		fmt.Fprintln(&b, strings.TrimRight(" "+string(c.FinishReason), " "))
	}
	if err != nil {
		e := cairn.AsError(err)
		fmt.Fprintf(&b, "error %s retryable=%t: %v\n", e.Code, e.Retryable(), e)
	}
	return b.String()
}

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

// parts gathers a reply as a session keeps it.
func parts(chunks []cairn.Chunk) []cairn.Part {
	var list []cairn.Part
	open := false
	for _, c := range chunks {
		kind := map[cairn.ChunkType]cairn.PartType{cairn.ChunkText: cairn.PartText, cairn.ChunkReasoning: cairn.PartReasoning}[c.Type]
		if kind != "" && (!open || list[len(list)-1].Type != kind) {
			list, open = append(list, cairn.Part{Type: kind}), true
		}
		keep := func(p *cairn.Part) {
			if c.Provider != nil {
				p.Provider, p.Model = c.Provider, c.Model
			}
			p.Sources = append(p.Sources, c.Sources...)
		}
		switch c.Type {
		case cairn.ChunkText, cairn.ChunkReasoning:
			list[len(list)-1].Text += c.Text
		case cairn.ChunkPartEnd:
			keep(&list[len(list)-1])
			open = false
		case cairn.ChunkProvider:
			list, open = append(list, cairn.Part{Type: cairn.PartProvider}), false
			keep(&list[len(list)-1])
		case cairn.ChunkToolStart:
			list, open = append(list, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: c.CallID, Tool: c.Tool}}), false
			keep(&list[len(list)-1])
		case cairn.ChunkToolArgs:
			for i := range list {
				if u := list[i].ToolUse; u != nil && u.CallID == c.CallID {
					u.Input = append(u.Input, c.Text...)
				}
			}
		}
	}
	return list
}

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
