package compose

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// The short form of a message is its JSON, but where it has a single part that is a text, a use or a result of a tool:
// the fields of that part are then fields of the message, and its type is known by them.

// ShortText returns a message in its short form, with an id and a run in the place of its own. The error is that of
// [Message].
func ShortText(m *cairn.Message, id, run string) (string, error) {
	raw, err := message(make([]byte, 0, 512), m, id, run, true)
	return string(raw), err
}

// alone reports whether a message has one part whose type is known by its fields.
func alone(m *cairn.Message) bool {
	if len(m.Parts) != 1 || m.Parts[0].File != nil || m.Model != "" {
		return false
	}
	p := &m.Parts[0]
	return p.Type != "" && p.Type == kind(p.Text, p.ToolUse, p.Result)
}

// kind returns the type of a part by what it has, or nothing if that leaves it open.
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

// Short is where a message is decoded to by encoding/json, from its short form or another one.
type Short struct {
	*cairn.Message

	Text     string            `json:"text"`
	Provider json.RawMessage   `json:"provider"`
	Model    string            `json:"model"`
	Sources  []cairn.Source    `json:"sources"`
	ToolUse  *cairn.ToolUse    `json:"tool_use"`
	Result   *cairn.ToolResult `json:"tool_result"`
}

// Finish gives the message the part that was decoded with its fields, if there is one; the model is then that of the part.
func (s *Short) Finish() {
	t := kind(s.Text, s.ToolUse, s.Result)
	if t == "" {
		s.Message.Model = s.Model
	} else {
		s.Parts = []cairn.Part{{Type: t, Text: s.Text, Provider: s.Provider, Model: s.Model, Sources: s.Sources, ToolUse: s.ToolUse, Result: s.Result}}
	}
}
