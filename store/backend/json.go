package backend

import (
	"encoding/json"
	"strings"

	"github.com/cairn-agents/cairn"
)

// EncodeJSON returns a value as the JSON that a store keeps of it. what names the value in errors. The error is
// ErrInvalid if the value does not encode, which is the caller's mistake.
func EncodeJSON(what string, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", cairn.Errorf(cairn.ErrInvalid, "%s does not encode: %w", what, err)
	}
	return string(raw), nil
}

// DecodeJSON reads what EncodeJSON returned. The error is ErrCorrupt for a text that does not decode.
func DecodeJSON(what, text string, into any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return cairn.Errorf(cairn.ErrCorrupt, "stored %s does not decode: %w", what, err)
	}
	return nil
}

// ReadText sets the text of a run that was kept without it, see [plan.Delta.TextAt], from its message in JSON. It reads
// both forms that messages have.
func ReadText(run *cairn.Run, message string) error {
	var m struct {
		Text  string `json:"text"`
		Parts []struct {
			Type cairn.PartType `json:"type"`
			Text string         `json:"text"`
		} `json:"parts"`
	}
	if err := DecodeJSON("message", message, &m); err != nil {
		return err
	}
	text := []string{m.Text}
	for _, p := range m.Parts {
		if p.Type == cairn.PartText {
			text = append(text, p.Text)
		}
	}
	run.Text = strings.Join(text, "")
	return nil
}
