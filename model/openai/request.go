package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// body encodes the body of a request. It is built as a map because options are merged into it.
func (m *ResponsesModel) body(req *cairn.Request) ([]byte, error) {
	s, e := &req.Settings, m.endpoint
	if len(s.StopSequences) > 0 {
		err := e.Errorf(cairn.ErrModelRequest, "settings: the Responses API does not support stop sequences")
		err.Field = "StopSequences"
		return nil, err
	}
	body := map[string]any{
		"model":   e.Model,
		"input":   m.input(req.Messages),
		"store":   false,
		"stream":  true,
		"include": []string{"reasoning.encrypted_content"},
	}
	if req.System != "" {
		body["instructions"] = req.System
	}
	if req.SessionID != "" {
		body["prompt_cache_key"] = cacheKey(req.SessionID)
	}
	if s.Temperature != nil {
		body["temperature"] = *s.Temperature
	}
	if s.TopP != nil {
		body["top_p"] = *s.TopP
	}
	if s.MaxOutputTokens > 0 {
		body["max_output_tokens"] = s.MaxOutputTokens
	}
	if s.ReasoningEffort != "" || e.summary != "" {
		body["reasoning"] = reasoning{Effort: s.ReasoningEffort, Summary: e.summary}
	}
	if err := m.tools(req, body); err != nil {
		return nil, err
	}
	return e.Body(body, s)
}

// cacheKey identifies the conversation to the provider's cache. The API limits its length.
func cacheKey(session string) string {
	if len(session) <= 64 {
		return session
	}
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:])
}

// tools adds the tools and the tool choice. The API rejects a choice without tools.
func (m *ResponsesModel) tools(req *cairn.Request, body map[string]any) error {
	e := m.endpoint
	list := make([]any, 0, len(req.Tools)+len(e.serverTools))
	for _, raw := range e.serverTools {
		list = append(list, raw)
		if strings.Contains(string(raw), `"web_search`) {
			body["include"] = []string{"reasoning.encrypted_content", "web_search_call.action.sources"}
		}
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		schema, err := e.Schema(t, toolschema.OpenAI)
		if err != nil {
			return err
		}
		if typeOf(t) == customTool { // its input is text, which has no schema
			list = append(list, e.Extended(t, custom{Type: customTool, Name: t.Name, Description: t.Description}))
			continue
		}
		list = append(list, e.Extended(t, function{Type: functionTool, Name: t.Name, Description: t.Description, Parameters: schema, Strict: e.strict && toolschema.OpenAI.Enforceable(schema)}))
	}
	if len(list) == 0 {
		return nil
	}
	body["tools"] = list
	switch {
	case req.Choice.None:
		body["tool_choice"] = "none"
	case req.Choice.Tool != "":
		body["tool_choice"] = choice(req.Tools, req.Choice.Tool)
	}
	return nil
}

// input converts the history to items.
func (m *ResponsesModel) input(history []cairn.Message) []any {
	history, files := m.endpoint.Attached(history, func(r *cairn.ToolResult, _ *cairn.File) bool { return m.takesFiles(history, r.CallID) })
	list := make([]any, 0, len(history)+1)
	calls := newCalls()
	var said []content // user content, or content next to results; results stay together
	flush := func() {
		if len(said) > 0 {
			list, said = append(list, message{Type: "message", Role: "user", Content: said}), nil
		}
	}
	for i := range history {
		msg := &history[i]
		if msg.Role != cairn.RoleTool {
			flush()
		}
		if msg.Role == cairn.RoleAssistant {
			list = append(list, m.reply(msg.Parts, calls)...)
			continue
		}
		for j := range msg.Parts {
			switch p := &msg.Parts[j]; p.Type {
			case cairn.PartText:
				if items := m.compacted(msg, p); items != nil {
					flush()
					list = append(list, items...)
					continue
				}
				said = append(said, content{Type: "input_text", Text: p.Text})
			case cairn.PartFile:
				said = append(said, file(p.File))
			case cairn.PartToolResult:
				list = append(list, calls.output(p.Result, files[p.Result.CallID]))
			}
		}
	}
	flush()
	return list
}

// reply returns the items of an assistant's message. Reasoning and items of the provider are sent only to the model
// that gave them, and reasoning only with what it led to.
func (m *ResponsesModel) reply(parts []cairn.Part, calls *calls) []any {
	var list, thought []any
	add := func(item any) {
		list, thought = append(append(list, thought...), item), nil
	}
	for i := range parts {
		p := &parts[i]
		own := p.Model == m.endpoint.ID && len(p.Provider) > 0
		switch p.Type {
		case cairn.PartText:
			if p.Text != "" {
				add(said(p, own))
			}
		case cairn.PartReasoning:
			if own {
				thought = append(thought, p.Provider)
			}
		case cairn.PartProvider:
			if own {
				add(p.Provider)
			}
		case cairn.PartToolUse:
			add(calls.called(p, own))
		case cairn.PartFile:
			add(message{Type: "message", Role: "assistant", Content: []content{{Type: "output_text", Text: provider.Described(p.File), Annotations: []json.RawMessage{}}}})
		}
	}
	return list
}

// said returns a text as a message. The model's own text gets back its provider data.
func said(p *cairn.Part, own bool) any {
	text := content{Type: "output_text", Text: p.Text, Annotations: []json.RawMessage{}}
	var k kept
	if !own || json.Unmarshal(p.Provider, &k) != nil || k.Item == nil {
		return message{Type: "message", Role: "assistant", Content: []content{text}}
	}
	if k.Annotations != nil {
		text.Annotations = k.Annotations
	}
	k.Item["content"], _ = provider.Encode([]content{text}) // annotations are parts of valid JSON
	return k.Item
}

// takesFiles reports whether the result of a call may have files: that of a function or a custom tool.
func (m *ResponsesModel) takesFiles(history []cairn.Message, callID string) bool {
	for i := range slices.Backward(history) {
		for j := range history[i].Parts {
			if p := &history[i].Parts[j]; p.ToolUse != nil && p.ToolUse.CallID == callID {
				kind := itemOf(p).Type
				return p.Model != m.endpoint.ID || kind == "" || kind == customType
			}
		}
	}
	return true
}
