package fastjson

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// The short form of a message is its JSON, with one exception: if the message has a single part that is a text, a tool
// use or a tool result, the fields of that part are fields of the message, and they determine the part's type.

// ShortText returns a message in its short form, with id and run instead of its own. Its errors are those of [Message].
func ShortText(m *cairn.Message, id, run string) (string, error) {
	raw, err := message(make([]byte, 0, 512), m, id, run, true)
	return string(raw), err
}

// alone reports whether a message has a single part whose fields determine its type.
func alone(m *cairn.Message) bool {
	if len(m.Parts) != 1 || m.Parts[0].File != nil || m.Parts[0].Data != nil || m.Model != "" {
		return false
	}
	p := &m.Parts[0]
	return p.Type != "" && p.Type == kind(p.Text, p.ToolUse, p.Result)
}

// kind returns the type that a part's fields determine; "" if they do not.
func kind(text string, use *cairn.ToolUse, result *cairn.ToolResult) cairn.PartType {
	switch {
	case text != "" && use == nil && result == nil:
		return cairn.PartText
	case text == "" && use != nil && result == nil:
		return cairn.PartToolUse
	case text == "" && use == nil && result != nil:
		return cairn.PartToolResult
	}
	return ""
}

// Short is the target for decoding a message with encoding/json, from its short or its long form.
type Short struct {
	*cairn.Message

	Text     string            `json:"text"`
	Provider json.RawMessage   `json:"provider"`
	Model    string            `json:"model"`
	Sources  []cairn.Source    `json:"sources"`
	ToolUse  *cairn.ToolUse    `json:"tool_use"`
	Result   *cairn.ToolResult `json:"tool_result"`
}

// Finish gives the message the part that its fields were decoded to, if there is one. The decoded model is then the
// part's.
func (s *Short) Finish() {
	t := kind(s.Text, s.ToolUse, s.Result)
	if t == "" {
		s.Message.Model = s.Model
	} else {
		s.Parts = []cairn.Part{{Type: t, Text: s.Text, Provider: s.Provider, Model: s.Model, Sources: s.Sources, ToolUse: s.ToolUse, Result: s.Result}}
	}
}
