package openai

import (
	"bytes"
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/provider"
)

// kept is the provider data of a text: the item around it without its content, and what it cites.
type kept struct {
	Item        map[string]json.RawMessage `json:"item"`
	Annotations []json.RawMessage          `json:"annotations,omitempty"`
}

// joined returns an item merged with the provider data that belongs to it.
func joined(item any, more json.RawMessage, own bool) any {
	if !own {
		return item
	}
	raw, err := provider.Encode(item)
	fields := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(more, &fields) != nil || json.Unmarshal(raw, &fields) != nil {
		return item
	}
	return fields
}

// without returns an item without some of its fields; nil if it is no object.
func without(raw json.RawMessage, names ...string) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, name := range names {
		delete(fields, name)
	}
	for name, value := range fields {
		if bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			delete(fields, name)
		}
	}
	return fields
}
