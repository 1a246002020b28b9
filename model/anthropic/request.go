package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// body encodes the body of a request. If r has parts, the request continues that paused reply. The body is built as
// a map because options are merged into it.
func (m *MessagesModel) body(req *cairn.Request, r *reply) ([]byte, error) {
	s := &req.Settings
	e := m.endpoint
	if req.Choice.Tool != "" && thinks(s) {
		req = provider.InWords(req)
	}
	body := map[string]any{
		"model":      e.Model,
		"max_tokens": e.maxTokens,
		"stream":     true,
	}
	if s.MaxOutputTokens > 0 {
		body["max_tokens"] = s.MaxOutputTokens
	}
	if s.Temperature != nil {
		body["temperature"] = *s.Temperature
	}
	if s.TopP != nil {
		body["top_p"] = *s.TopP
	}
	if s.ReasoningEffort != "" {
		body["output_config"] = map[string]any{"effort": s.ReasoningEffort}
	}
	if len(s.StopSequences) > 0 {
		body["stop_sequences"] = s.StopSequences
	}
	if r.container != "" {
		body["container"] = r.container
	}
	if !blank(req.System) {
		body["system"] = []any{&block{Type: "text", Text: req.System, CacheControl: e.cache}}
	}
	if err := m.tools(req, body); err != nil {
		return nil, err
	}
	body["messages"] = m.messages(req.Messages, r.parts)
	return e.Body(body, s)
}

// thinks reports whether the settings request thinking.
func thinks(s *cairn.Settings) bool {
	asked, ok := s.Options["thinking"]
	if !ok {
		return false
	}
	var thinking struct {
		Type string `json:"type"`
	}
	raw, err := provider.Encode(asked)
	return err == nil && json.Unmarshal(raw, &thinking) == nil && thinking.Type != "" && thinking.Type != "disabled"
}

// tools adds the tools and the tool choice. The API rejects a choice without tools.
func (m *MessagesModel) tools(req *cairn.Request, body map[string]any) error {
	e := m.endpoint
	list := make([]any, 0, len(req.Tools)+len(e.serverTools))
	for _, raw := range e.serverTools { // first, because the breakpoint is on the last tool
		list = append(list, raw)
	}
	last := len(req.Tools) - 1
	for last >= 0 && !e.Loaded(&req.Tools[last]) { // the cache has no tools that are searched for
		last--
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		schema, err := e.Schema(t, toolschema.Anthropic)
		if err != nil {
			return err
		}
		one := &tool{Name: t.Name, Description: t.Description, InputSchema: schema, Strict: e.strict && toolschema.Anthropic.Enforceable(schema)}
		if i == last {
			one.CacheControl = e.cache
		}
		list = append(list, e.Extended(t, one))
	}
	if len(list) == 0 {
		return nil
	}
	body["tools"] = list
	switch {
	case req.Choice.None:
		body["tool_choice"] = toolChoice{Type: "none"}
	case req.Choice.Tool != "":
		body["tool_choice"] = toolChoice{Type: "tool", Name: req.Choice.Tool}
	}
	return nil
}

// filler separates two consecutive replies, which the API would take for one. It also stands in where there is
// nothing to reply to.
const filler = "Continue."

// conversation collects the messages of a request, as alternating turns of user and assistant.
type conversation struct {
	list    []message
	results []any // of the open user turn; they precede its other content
	rest    []any
}

// messages converts the history. A paused reply comes last.
func (m *MessagesModel) messages(history []cairn.Message, paused []cairn.Part) []message {
	var c conversation
	ids := provider.CallIDs{}
	history, files := m.endpoint.Attached(history, func(r *cairn.ToolResult, _ *cairn.File) bool { return !r.IsError }) // the API rejects an error with files
	items := m.items(history)
	for i := range history {
		msg := &history[i]
		if msg.Role == cairn.RoleAssistant {
			c.assistant(m.reply(msg.Parts, ids, func(raw json.RawMessage) bool { return items.sendable(i, raw) }))
			continue
		}
		for j := range msg.Parts {
			switch p := &msg.Parts[j]; p.Type {
			case cairn.PartText:
				c.rest = appendText(c.rest, p.Text)
			case cairn.PartFile:
				c.rest = append(c.rest, file(p.File))
			case cairn.PartToolResult:
				c.results = append(c.results, result(p.Result, files[p.Result.CallID], ids))
			}
		}
	}
	c.flush()
	if n := len(c.list); n == 0 || c.list[n-1].Role == "assistant" {
		c.rest = appendText(c.rest, filler)
		c.flush()
	}
	m.mark(c.list)
	if len(paused) > 0 {
		c.assistant(m.reply(paused, ids, func(json.RawMessage) bool { return true }))
	}
	return c.list
}

// flush closes the open user turn.
func (c *conversation) flush() {
	if len(c.results)+len(c.rest) > 0 {
		c.list = append(c.list, message{Role: "user", Content: append(c.results, c.rest...)})
		c.results, c.rest = nil, nil
	}
}

// assistant adds a reply, if it has any content that can be sent.
func (c *conversation) assistant(content []any) {
	if len(content) == 0 {
		return
	}
	c.flush()
	if n := len(c.list); n == 0 || c.list[n-1].Role == "assistant" {
		c.rest = appendText(c.rest, filler)
		c.flush()
	}
	c.list = append(c.list, message{Role: "assistant", Content: content})
}

// mark sets breakpoints at the end of the last two user turns. The new content is written to the cache, and what
// the previous request wrote is found, however much is new.
func (m *MessagesModel) mark(list []message) {
	marks := 2
	for _, msg := range slices.Backward(list) {
		if msg.Role != "user" || m.endpoint.cache == nil {
			continue
		}
		msg.Content[len(msg.Content)-1].(*block).CacheControl = m.endpoint.cache
		if marks--; marks == 0 {
			return
		}
	}
}

// reply returns the content of an assistant's message. Reasoning and items of a provider are sent only to the model
// that gave them, and of the items only those that sendable accepts.
func (m *MessagesModel) reply(parts []cairn.Part, ids provider.CallIDs, sendable func(json.RawMessage) bool) []any {
	var list []any
	for i := range parts {
		p := &parts[i]
		own := p.Model == m.endpoint.ID && len(p.Provider) > 0
		switch p.Type {
		case cairn.PartText:
			if !blank(p.Text) {
				list = append(list, joined(&block{Type: "text", Text: p.Text}, p, own))
			}
		case cairn.PartReasoning:
			if own {
				list = append(list, joined(thought{Type: "thinking", Thinking: p.Text}, p, own))
			}
		case cairn.PartProvider:
			if own && sendable(p.Provider) {
				list = append(list, p.Provider)
			}
		case cairn.PartToolUse:
			list = append(list, joined(use(p.ToolUse, ids), p, own))
		case cairn.PartFile:
			list = append(list, described(p.File))
		}
	}
	return list
}

// thought is a block of thinking. Its text may be empty.
type thought struct {
	Type     string `json:"type"`
	Thinking string `json:"thinking"`
}

// joined returns a block merged with the provider data that belongs to it.
func joined(b any, p *cairn.Part, own bool) any {
	if !own {
		return b
	}
	raw, err := provider.Encode(b)
	more := bytes.TrimSpace(p.Provider)
	if err != nil || len(more) < 3 || more[0] != '{' {
		return b
	}
	raw = bytes.TrimSpace(raw)
	return json.RawMessage(slices.Concat(raw[:len(raw)-1], []byte{','}, more[1:]))
}
