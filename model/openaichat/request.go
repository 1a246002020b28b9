package openaichat

import (
	"cmp"
	"encoding/base64"
	"mime"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// body encodes the body of a request. It is built as a map because options are merged into it.
func (m *ChatModel) body(req *cairn.Request) ([]byte, error) {
	messages, err := m.messages(req)
	if err != nil {
		return nil, err
	}
	s := &req.Settings
	body := map[string]any{
		"model":          m.endpoint.Model,
		"messages":       messages,
		"stream":         true,
		"stream_options": streamOptions{IncludeUsage: true},
	}
	if s.Temperature != nil {
		body["temperature"] = *s.Temperature
	}
	if s.TopP != nil {
		body["top_p"] = *s.TopP
	}
	if s.MaxOutputTokens > 0 {
		body["max_completion_tokens"] = s.MaxOutputTokens
	}
	if s.ReasoningEffort != "" {
		body["reasoning_effort"] = s.ReasoningEffort
	}
	if len(s.StopSequences) > 0 {
		body["stop"] = s.StopSequences
	}
	if len(req.Tools) > 0 {
		if err := m.tools(req, body); err != nil {
			return nil, err
		}
	}
	return m.endpoint.Body(body, s)
}

// tools adds the tools and the tool choice. Servers reject a choice without tools.
func (m *ChatModel) tools(req *cairn.Request, body map[string]any) error {
	list := make([]any, len(req.Tools))
	for i := range req.Tools {
		t := &req.Tools[i]
		schema, err := m.endpoint.Schema(t, toolschema.OpenAI)
		if err != nil {
			return err
		}
		list[i] = m.endpoint.Extended(t, chatTool{Type: "function",
			Function: chatFunction{Name: t.Name, Description: t.Description, Parameters: schema}})
	}
	body["tools"] = list
	switch {
	case req.Choice.None:
		body["tool_choice"] = "none"
	case req.Choice.Tool != "":
		body["tool_choice"] = chatTool{Type: "function", Function: chatFunction{Name: req.Choice.Tool}}
	}
	return nil
}

func (m *ChatModel) messages(req *cairn.Request) ([]chatMessage, error) {
	list := make([]chatMessage, 0, len(req.Messages)+1)
	if req.System != "" {
		list = append(list, chatMessage{Role: "system", Content: req.System})
	}
	turn := lastUser(req.Messages)
	var parts []contentPart // content of a user, or of tools, whose messages hold results only
	flush := func() {
		switch {
		case len(parts) == 1 && parts[0].Text != nil:
			list = append(list, chatMessage{Role: "user", Content: *parts[0].Text}) // the form that every server accepts
		case len(parts) > 0:
			list = append(list, chatMessage{Role: "user", Content: parts})
		}
		parts = nil
	}
	for i := range req.Messages {
		msg := &req.Messages[i]
		if msg.Role != cairn.RoleTool {
			flush() // the results of a reply must stay together
		}
		if msg.Role == cairn.RoleAssistant {
			if a := m.assistant(msg, i > turn); a != nil {
				list = append(list, *a)
			}
			continue
		}
		for _, r := range msg.ToolResults() {
			list = append(list, chatMessage{Role: "tool", Content: resultText(r), ToolCallID: r.CallID})
		}
		more, err := m.content(msg)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	flush()
	return list, nil
}

// lastUser returns the index of the message that began the turn.
func lastUser(list []cairn.Message) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role == cairn.RoleUser && !list[i].Hidden {
			return i
		}
	}
	return -1
}

// content returns the text and files of a message.
func (m *ChatModel) content(msg *cairn.Message) ([]contentPart, error) {
	var parts []contentPart
	for i := range msg.Parts {
		switch p := &msg.Parts[i]; p.Type {
		case cairn.PartText:
			parts = append(parts, textPart(p.Text))
		case cairn.PartFile:
			part, err := m.file(p.File)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	return parts, nil
}

func textPart(text string) contentPart { return contentPart{Type: "text", Text: &text} }

func (m *ChatModel) file(f *cairn.File) (contentPart, error) {
	media, _, parseErr := mime.ParseMediaType(f.MediaType)
	if parseErr != nil {
		media = f.MediaType
	}
	if provider.Readable(media, f) {
		return textPart(cmp.Or(f.Name, "file") + ":\n\n" + string(f.Data)), nil
	}
	if strings.HasPrefix(media, "image/") {
		address := f.URL
		if address == "" {
			address = f.DataURL()
		}
		return contentPart{Type: "image_url", ImageURL: &imageURL{URL: address}}, nil
	}
	if len(f.Data) == 0 {
		return contentPart{}, m.endpoint.Errorf(cairn.ErrModelRequest,
			"file %q: chat completions fetch images only; send the bytes of a file of type %s", cmp.Or(f.Name, f.URL), f.MediaType)
	}
	if media == "audio/wav" || media == "audio/x-wav" || media == "audio/mpeg" || media == "audio/mp3" {
		format := "mp3"
		if strings.HasSuffix(media, "wav") {
			format = "wav"
		}
		return contentPart{Type: "input_audio",
			InputAudio: &inputAudio{Data: base64.StdEncoding.EncodeToString(f.Data), Format: format}}, nil
	}
	name := f.Name
	if name == "" { // the name is required
		name = "file"
		if media == "application/pdf" {
			name = "file.pdf"
		}
	}
	return contentPart{Type: "file", File: &fileData{Filename: name, FileData: f.DataURL()}}, nil
}

// assistant returns an assistant's message; nil if it has no content that can be sent. Reasoning is sent back
// during its turn only, to the model and the server that gave it.
func (m *ChatModel) assistant(msg *cairn.Message, thisTurn bool) *chatMessage {
	a := &chatMessage{Role: "assistant"}
	var text, reasoning strings.Builder
	var list []contentPart // content as a list, if there is reasoning in it
	for i := range msg.Parts {
		p := &msg.Parts[i]
		k, own := m.had(p)
		switch p.Type {
		case cairn.PartText:
			text.WriteString(p.Text)
			list = append(list, textPart(p.Text))
		case cairn.PartReasoning:
			switch {
			case !thisTurn || !own:
			case k.Field == reasoningContent:
				reasoning.WriteString(p.Text)
			case k.Field == thinkingList:
				list = append(list, contentPart{Type: "thinking", Thinking: []contentPart{textPart(p.Text)}})
			}
		case cairn.PartProvider:
			if own {
				a.ReasoningDetails, a.ExtraContent = append(a.ReasoningDetails, k.Details...), k.Extra
			}
		case cairn.PartToolUse:
			call := toolUse(p.ToolUse)
			if own {
				call.ExtraContent = k.Extra
			}
			a.ToolCalls = append(a.ToolCalls, call)
		}
	}
	if text.Len() == 0 && len(a.ToolCalls) == 0 {
		return nil
	}
	switch {
	case slices.ContainsFunc(list, func(p contentPart) bool { return p.Thinking != nil }):
		a.Content = list
	case text.Len() > 0:
		a.Content = text.String()
	}
	if len(a.ReasoningDetails) == 0 { // otherwise the text is in them
		a.ReasoningContent = reasoning.String()
	}
	return a
}

func toolUse(u *cairn.ToolUse) messageToolCall {
	return messageToolCall{ID: u.CallID, Type: "function",
		Function: functionCall{Name: provider.ToolName(u.Tool), Arguments: string(provider.Arguments(u.Input))}}
}

// resultText returns the text of a result for the model.
func resultText(r *cairn.ToolResult) string {
	text := provider.Text(r.Output)
	if r.IsError {
		return "Error: " + text
	}
	return text
}
