package openaichattest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Request is a request of a client.
type Request struct {
	Header http.Header     `json:"-"`
	Body   json.RawMessage `json:"-"`

	Model         string    `json:"model"`
	Messages      []Message `json:"messages"`
	Tools         []Tool    `json:"tools"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Message is one message of a request.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// ToolCall is a tool call in an assistant's message.
type ToolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// Text returns the message's text, from a string or from parts.
func (m *Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Last returns the last message.
func (r *Request) Last() *Message { return &r.Messages[len(r.Messages)-1] }

// check reports what OpenAI would reject.
func (r *Request) check() error {
	if r.Model == "" {
		return fmt.Errorf("you must provide a model parameter")
	}
	if len(r.Messages) == 0 {
		return fmt.Errorf("invalid 'messages': empty array")
	}
	open := map[string]bool{} // calls that need a result next
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return fmt.Errorf("messages.[%d]: no preceding message has a 'tool_calls' with id %q that is still open", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("messages.[%d]: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'", i)
		}
		switch m.Role {
		case "system", "developer", "user":
			if len(m.Content) == 0 || string(m.Content) == "null" {
				return fmt.Errorf("messages.[%d].content: missing", i)
			}
		case "assistant":
			if len(m.ToolCalls) == 0 && (len(m.Content) == 0 || string(m.Content) == "null") {
				return fmt.Errorf("messages.[%d]: an assistant message needs content or tool calls", i)
			}
			for _, c := range m.ToolCalls {
				if open[c.ID] || c.ID == "" {
					return fmt.Errorf("messages.[%d].tool_calls: id %q is empty or repeated", i, c.ID)
				}
				open[c.ID] = true
			}
		default:
			return fmt.Errorf("messages.[%d].role: unknown role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'")
	}
	return nil
}
