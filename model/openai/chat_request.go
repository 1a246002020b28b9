package openai

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// params makes the body of a request.
func (m *ChatModel) params(req *cairn.Request) (sdk.ChatCompletionNewParams, error) {
	s := &req.Settings
	p := sdk.ChatCompletionNewParams{
		Model:           m.name,
		ReasoningEffort: shared.ReasoningEffort(s.ReasoningEffort),
		StreamOptions:   sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	if s.Temperature != nil {
		p.Temperature = sdk.Float(*s.Temperature)
	}
	if s.TopP != nil {
		p.TopP = sdk.Float(*s.TopP)
	}
	if s.MaxOutputTokens > 0 {
		p.MaxCompletionTokens = sdk.Int(int64(s.MaxOutputTokens))
	}
	p.Stop.OfStringArray = s.StopSequences
	for i := range req.Tools {
		p.Tools = append(p.Tools, tool(&req.Tools[i]))
	}
	if len(p.Tools) > 0 { // a choice without tools is refused
		switch {
		case req.Choice.None:
			p.ToolChoice.OfAuto = sdk.String("none")
		case req.Choice.Tool != "":
			p.ToolChoice = sdk.ToolChoiceOptionFunctionToolChoice(
				sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: req.Choice.Tool})
		}
	}
	extra := map[string]any{"stream": true}
	for name, value := range s.Options {
		raw, err := json.Marshal(value)
		if err != nil {
			e := m.failures.errorf(cairn.CodeModelRequest, "settings: option %q: %w", name, err)
			e.Field = "Options"
			return p, e
		}
		extra[name] = json.RawMessage(raw)
	}
	p.SetExtraFields(extra)
	var err error
	p.Messages, err = m.messages(req)
	return p, err
}

func tool(t *cairn.ToolSpec) sdk.ChatCompletionToolUnionParam {
	f := shared.FunctionDefinitionParam{Name: t.Name}
	if t.Description != "" {
		f.Description = sdk.String(t.Description)
	}
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	// The schema goes out as it is: models read its properties in order.
	f.SetExtraFields(map[string]any{"parameters": schema})
	return sdk.ChatCompletionFunctionTool(f)
}

func (m *ChatModel) messages(req *cairn.Request) ([]sdk.ChatCompletionMessageParamUnion, error) {
	list := make([]sdk.ChatCompletionMessageParamUnion, 0, len(req.Messages)+1)
	if req.System != "" {
		list = append(list, sdk.SystemMessage(req.System))
	}
	turn := lastUser(req.Messages)
	var parts []sdk.ChatCompletionContentPartUnionParam // of a user, or of tools, whose messages hold results only
	flush := func() {
		switch {
		case len(parts) == 1 && parts[0].OfText != nil:
			list = append(list, sdk.UserMessage(parts[0].OfText.Text)) // the form every server knows
		case len(parts) > 0:
			list = append(list, sdk.UserMessage(parts))
		}
		parts = nil
	}
	for i := range req.Messages {
		msg := &req.Messages[i]
		if msg.Role != cairn.RoleTool {
			flush() // all results of a reply stand together
		}
		if msg.Role == cairn.RoleAssistant {
			if a := m.assistant(msg, i > turn); a != nil {
				list = append(list, sdk.ChatCompletionMessageParamUnion{OfAssistant: a})
			}
			continue
		}
		for _, r := range msg.ToolResults() {
			list = append(list, sdk.ToolMessage(resultText(r), r.CallID))
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

// content returns a message's text and files.
func (m *ChatModel) content(msg *cairn.Message) ([]sdk.ChatCompletionContentPartUnionParam, error) {
	var parts []sdk.ChatCompletionContentPartUnionParam
	for i := range msg.Parts {
		switch p := &msg.Parts[i]; p.Type {
		case cairn.PartText:
			parts = append(parts, sdk.TextContentPart(p.Text))
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

func (m *ChatModel) file(f *cairn.File) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	media, _, parseErr := mime.ParseMediaType(f.MediaType)
	if parseErr != nil {
		media = f.MediaType
	}
	if strings.HasPrefix(media, "image/") {
		address := f.URL
		if address == "" {
			address = f.DataURL()
		}
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: address}), nil
	}
	if len(f.Data) == 0 {
		return part, m.failures.errorf(cairn.CodeModelRequest,
			"file %q: chat completions fetch images only; send the bytes of a file of type %s", first(f.Name, f.URL), f.MediaType)
	}
	switch {
	case media == "audio/wav" || media == "audio/x-wav" || media == "audio/mpeg" || media == "audio/mp3":
		format := "mp3"
		if strings.HasSuffix(media, "wav") {
			format = "wav"
		}
		return sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{
			Data: base64.StdEncoding.EncodeToString(f.Data), Format: format}), nil
	case (strings.HasPrefix(media, "text/") || media == "application/json") && utf8.Valid(f.Data):
		return sdk.TextContentPart(first(f.Name, "file") + ":\n\n" + string(f.Data)), nil // every model reads text
	}
	name := f.Name
	if name == "" { // is required
		name = "file"
		if media == "application/pdf" {
			name = "file.pdf"
		}
	}
	return sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
		Filename: sdk.String(name), FileData: sdk.String(f.DataURL())}), nil
}

// assistant returns an assistant's message, nil if nothing of it can be sent. Reasoning goes back while its turn goes
// on, to the server that gave it.
func (m *ChatModel) assistant(msg *cairn.Message, thisTurn bool) *sdk.ChatCompletionAssistantMessageParam {
	a := &sdk.ChatCompletionAssistantMessageParam{}
	var text, reasoning strings.Builder
	for i := range msg.Parts {
		switch p := &msg.Parts[i]; p.Type {
		case cairn.PartText:
			text.WriteString(p.Text)
		case cairn.PartReasoning:
			if thisTurn && m.gave(p.Provider) {
				reasoning.WriteString(p.Text)
			}
		case cairn.PartToolUse:
			a.ToolCalls = append(a.ToolCalls, toolUse(p.ToolUse))
		}
	}
	if text.Len() == 0 && len(a.ToolCalls) == 0 {
		return nil
	}
	if text.Len() > 0 {
		a.Content.OfString = sdk.String(text.String())
	}
	if reasoning.Len() > 0 {
		a.SetExtraFields(map[string]any{reasoningContent: reasoning.String()})
	}
	return a
}

// gave reports whether provider data says that this server gave the reasoning, in a form it takes back.
func (m *ChatModel) gave(provider json.RawMessage) bool {
	var p provenance
	return json.Unmarshal(provider, &p) == nil && p.Field == reasoningContent && p.Host == m.endpoint.host
}

func toolUse(u *cairn.ToolUse) sdk.ChatCompletionMessageToolCallUnionParam {
	arguments := string(u.Input)
	if !strings.HasPrefix(strings.TrimSpace(arguments), "{") {
		// Some servers parse the arguments of the history and fail for good on what is no object.
		wrapped, err := json.Marshal(map[string]json.RawMessage{"invalid_arguments": u.Input})
		if err != nil {
			wrapped = []byte("{}")
		}
		arguments = string(wrapped)
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
		ID:       u.CallID,
		Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: u.Tool, Arguments: arguments},
	}}
}

// resultText returns what the model reads: a string's value, anything else as JSON.
func resultText(r *cairn.ToolResult) string {
	text := string(r.Output)
	var s string
	if json.Unmarshal(r.Output, &s) == nil && text != "null" {
		text = s
	}
	if r.IsError {
		return "Error: " + text
	}
	return text
}
