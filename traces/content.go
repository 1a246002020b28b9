package traces

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Content makes spans contain the words of users, models and tools: the messages that each model call added and answered,
// and the arguments and results of calls, as far as the event log has them. Reasoning, files and errors that are not for
// users are left out.
type Content struct {
	// Max is the maximum size of one attribute, in bytes; 0 means 4096. Back ends drop spans that are too large.
	Max int
	// Redact, if set, returns a text that is to be exported in place of another, for example without the numbers of
	// credit cards. It must depend on the text alone, be safe for concurrent use, and not panic.
	Redact func(text string) string
}

// defaultContent is the default of Content.Max.
const defaultContent = 4096

// of returns a text as it is exported.
func (c *Content) of(raw []byte) string {
	text := strings.ToValidUTF8(string(raw), "\uFFFD")
	if c.Redact != nil {
		text = strings.ToValidUTF8(c.Redact(text), "\uFFFD")
	}
	return limits.Cut(text, c.Max)
}

// message is a message in the form of the conventions.
type message struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// part is a part of a message: a text, a call of a tool, or its response.
type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
}

// said returns a function that reads the messages of model calls from the store. What cannot be read is left out.
func (c *Content) said(ctx context.Context, eng *engine.Engine) func(session string, unread, count, after int) (in, out string) {
	return func(session string, unread, count, after int) (in, out string) {
		const most = 100
		from := max(unread, count-most, 0)
		list, err := eng.Messages(ctx, session, from, count+1-from)
		if err != nil || after <= count {
			return "", ""
		}
		n := min(max(count-from, 0), len(list))
		return c.text(list[:n]), c.text(list[n:])
	}
}

// text returns the JSON of messages.
func (c *Content) text(list []cairn.Message) string {
	out := []message{}
	for i := range list {
		m := message{Role: string(list[i].Role)}
		for _, p := range list[i].Parts {
			switch p.Type {
			case cairn.PartText:
				m.Parts = append(m.Parts, part{Type: "text", Content: p.Text})
			case cairn.PartToolUse:
				m.Parts = append(m.Parts, part{Type: "tool_call", ID: p.ToolUse.CallID, Name: p.ToolUse.Tool, Arguments: p.ToolUse.Input})
			case cairn.PartToolResult:
				if !p.Result.Private {
					m.Parts = append(m.Parts, part{Type: "tool_call_response", ID: p.Result.CallID, Response: p.Result.Output})
				}
			}
		}
		if len(m.Parts) > 0 {
			out = append(out, m)
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return c.of(raw)
}
