package provider

import (
	"bytes"
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// Extended returns the provider's form of a tool with the fields that the tool has for this provider merged into it.
func (e *Endpoint) Extended(t *cairn.ToolSpec, tool any) any {
	fields := t.Fields[e.Adapter]
	if len(fields) == 0 {
		return tool
	}
	raw, err := Encode(tool)
	if err != nil {
		return tool // encoding the request reports the error
	}
	return Over(bytes.TrimSpace(raw), fields)
}

// Loaded reports whether a tool is in the model's context from the beginning, rather than found by a search of the
// provider's.
func (e *Endpoint) Loaded(t *cairn.ToolSpec) bool {
	var fields struct {
		Defer bool `json:"defer_loading"`
	}
	_ = json.Unmarshal(t.Fields[e.Adapter], &fields) // other forms do not defer it
	return !fields.Defer
}
