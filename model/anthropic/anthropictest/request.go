package anthropictest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// Request is a request of a client.
type Request struct {
	Header http.Header     `json:"-"`
	Body   json.RawMessage `json:"-"`

	Model      string    `json:"model"`
	MaxTokens  int       `json:"max_tokens"`
	System     []Block   `json:"system"`
	Messages   []Message `json:"messages"`
	Tools      []Tool    `json:"tools"`
	Stream     bool      `json:"stream"`
	ToolChoice struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
	Thinking struct {
		Type string `json:"type"`
	} `json:"thinking"`
	Container    string `json:"container"`
	OutputConfig struct {
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

// Message is one message of a request.
type Message struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

// Block is a content block of a request.
type Block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	Thinking     *string         `json:"thinking"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	IsError      bool            `json:"is_error"`
	CacheControl *struct {
		Type string `json:"type"`
		TTL  string `json:"ttl"`
	} `json:"cache_control"`
	Source *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl json.RawMessage `json:"cache_control"`
}

// Blocks returns the content of a message, decoded.
func (m *Message) Blocks() []Block { return testserver.Decoded[Block](m.Content) }

// Text returns the message's text.
func (m *Message) Text() string {
	var b strings.Builder
	for _, block := range m.Blocks() {
		b.WriteString(block.Text)
	}
	return b.String()
}

// Last returns the last message.
func (r *Request) Last() *Message { return &r.Messages[len(r.Messages)-1] }

// Prefix returns a request as the provider's cache sees it, without breakpoints: one line for each tool, the system
// prompt and each block of content. New content is in its last lines.
func (r *Request) Prefix() []string {
	var body struct{ Tools, System []json.RawMessage }
	_ = json.Unmarshal(r.Body, &body) // already checked
	var list []string
	for _, raw := range append(body.Tools, body.System...) {
		list = append(list, plain(raw))
	}
	for i := range r.Messages {
		for _, raw := range r.Messages[i].Content {
			list = append(list, r.Messages[i].Role+" "+plain(raw))
		}
	}
	return list
}

// plain returns JSON without its breakpoint.
func plain(raw json.RawMessage) string {
	var b bytes.Buffer
	for _, mark := range []string{`,"cache_control":{"type":"ephemeral"}`, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`} {
		raw = bytes.ReplaceAll(raw, []byte(mark), nil)
	}
	_ = json.Compact(&b, raw) // already checked
	return b.String()
}

// canonical returns JSON without its breakpoint, in a canonical form.
func canonical(raw json.RawMessage) string {
	var v any
	_ = json.Unmarshal([]byte(plain(raw)), &v) // already checked
	return testserver.Encode(v)
}

// canonical returns the part of a request that signatures in its reply are bound to.
func (r *Request) canonical() []string {
	var list []string
	for i := range r.Messages {
		for _, raw := range r.Messages[i].Content {
			list = append(list, r.Messages[i].Role+" "+canonical(raw))
		}
	}
	return list
}

// signed is what a signature of thinking is bound to: the model, the preceding content, and the thinking.
const signed = "anthropic %q %q %q"

// check reports what Anthropic would reject.
func (r *Request) check(given *items) error {
	switch {
	case r.Model == "":
		return fmt.Errorf("model: field required")
	case r.MaxTokens < 1:
		return fmt.Errorf("max_tokens: must be at least 1")
	case len(r.Messages) == 0:
		return fmt.Errorf("messages: at least one message is required")
	case !r.Stream:
		return fmt.Errorf("stream: this server only streams")
	case r.OutputConfig.Format.Type == "json_schema" && !toolschema.Anthropic.Enforceable(r.OutputConfig.Format.Schema):
		return fmt.Errorf("output_config.format.schema: it has open objects, or properties such as 'minimum' that are not supported")
	}
	if err := r.checkTools(); err != nil {
		return err
	}
	c := checker{r: r, given: given, calls: map[string]bool{}}
	for i := range r.System {
		c.breakpoint(&r.System[i])
		if strings.TrimSpace(r.System[i].Text) == "" {
			return fmt.Errorf("system: text content blocks must be non-empty")
		}
	}
	for i := range r.Messages {
		if err := c.message(i); err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	for i := range r.Tools {
		if len(r.Tools[i].CacheControl) > 0 {
			c.breakpoints++
		}
	}
	switch {
	case len(c.open) > 0:
		return fmt.Errorf("messages: `tool_use` ids were found without `tool_result` blocks immediately after")
	case c.breakpoints > 4:
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", c.breakpoints)
	case r.Last().Role == "assistant" && len(c.running) == 0:
		return fmt.Errorf("this model does not support assistant message prefill, the conversation must end with a user message")
	}
	return nil
}

func (r *Request) checkTools() error {
	names := map[string]bool{}
	for _, t := range r.Tools {
		switch {
		case !testserver.Identifier.MatchString(t.Name):
			return fmt.Errorf("tools.%s.name: string should match pattern", t.Name)
		case names[t.Name]:
			return fmt.Errorf("tools: tool names must be unique")
		case (t.Type == "" || t.Type == "custom") && !bytes.HasPrefix(t.InputSchema, []byte("{")):
			return fmt.Errorf("tools.%s.input_schema: field required", t.Name)
		}
		names[t.Name] = true
	}
	switch {
	case r.ToolChoice.Type != "" && len(r.Tools) == 0:
		return fmt.Errorf("tool_choice: may only be specified while providing tools")
	case r.ToolChoice.Type == "tool" && !names[r.ToolChoice.Name]:
		return fmt.Errorf("tool_choice: tool %q not found", r.ToolChoice.Name)
	case r.ToolChoice.Type == "tool" && (r.Thinking.Type == "enabled" || r.Thinking.Type == "adaptive"):
		return fmt.Errorf("thinking may not be enabled when tool_choice forces tool use")
	}
	return nil
}

// checker validates the messages of a request.
type checker struct {
	r           *Request
	given       *items
	prefix      []string
	open        map[string]bool // calls that need a result in the next message
	calls       map[string]bool
	running     map[string]bool // the provider's own calls that have no result yet
	breakpoints int
}

func (c *checker) breakpoint(b *Block) {
	if b.CacheControl != nil {
		c.breakpoints++
	}
}

func (c *checker) message(i int) error {
	m := &c.r.Messages[i]
	switch {
	case m.Role != "user" && m.Role != "assistant":
		return fmt.Errorf("role: unexpected role %q", m.Role)
	case i == 0 && m.Role != "user":
		return fmt.Errorf("first message must use the user role")
	case i > 0 && m.Role == c.r.Messages[i-1].Role:
		return fmt.Errorf("roles must alternate between user and assistant")
	case len(m.Content) == 0:
		return fmt.Errorf("content: all messages must have non-empty content")
	case len(c.running) > 0 && len(c.open) == 0 && m.Role == "user":
		return fmt.Errorf("a tool of the server was found without its result block")
	}
	open, answered := c.open, false
	c.open = map[string]bool{}
	if c.running == nil {
		c.running = map[string]bool{}
	}
	deferred := maps.Clone(c.running) // beside calls of the client's tools: the server runs it with their results
	for j, raw := range m.Content {
		var b Block
		if err := json.Unmarshal(raw, &b); err != nil {
			return fmt.Errorf("content.%d: %w", j, err)
		}
		c.breakpoint(&b)
		if b.Type == "tool_result" {
			if answered {
				return fmt.Errorf("content.%d: tool results must come first", j)
			}
			if !open[b.ToolUseID] {
				return fmt.Errorf("content.%d: unexpected `tool_use_id` %q in `tool_result` blocks", j, b.ToolUseID)
			}
			if err := b.result(); err != nil {
				return fmt.Errorf("content.%d.tool_result: %w", j, err)
			}
			delete(open, b.ToolUseID)
		} else {
			answered = true
			if err := c.block(m.Role, &b); err != nil {
				return fmt.Errorf("content.%d: %w", j, err)
			}
		}
		c.prefix = append(c.prefix, m.Role+" "+canonical(raw))
	}
	if len(open) > 0 {
		return fmt.Errorf("`tool_use` ids were found without `tool_result` blocks immediately after: %v", open)
	}
	for id := range deferred {
		if m.Role == "assistant" && c.running[id] {
			return fmt.Errorf("the tool of the server %q was found without its result block", id)
		}
	}
	return nil
}

func (c *checker) block(role string, b *Block) error {
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			return fmt.Errorf("text content blocks must contain non-whitespace text")
		}
		return nil
	case "image", "document":
		if role != "user" {
			return fmt.Errorf("%s blocks are not allowed in assistant messages", b.Type)
		}
		return b.file()
	}
	if role != "assistant" {
		return fmt.Errorf("%s blocks are not allowed in user messages", b.Type)
	}
	switch b.Type {
	case "thinking":
		if b.Thinking == nil || b.CacheControl != nil {
			return fmt.Errorf("thinking: field required, cache_control not permitted")
		}
		if b.Signature != testserver.Sign(signed, c.r.Model, c.prefix, *b.Thinking) {
			return fmt.Errorf("invalid `signature` in `thinking` block")
		}
	case "redacted_thinking":
		if !c.given.has(b.Data) {
			return fmt.Errorf("invalid `data` in `redacted_thinking` block")
		}
	case "tool_use":
		if !testserver.Identifier.MatchString(b.ID) || !testserver.Identifier.MatchString(b.Name) || c.calls[b.ID] {
			return fmt.Errorf("tool_use: id %q or name %q is malformed or repeated", b.ID, b.Name)
		}
		if !bytes.HasPrefix(b.Input, []byte("{")) {
			return fmt.Errorf("tool_use.input: input should be an object")
		}
		c.open[b.ID], c.calls[b.ID] = true, true
	case "server_tool_use":
		c.running[b.ID] = true
	default:
		if !strings.HasSuffix(b.Type, "_tool_result") || !c.running[b.ToolUseID] {
			return fmt.Errorf("unexpected block of type %q for %q", b.Type, b.ToolUseID)
		}
		delete(c.running, b.ToolUseID)
	}
	return nil
}
