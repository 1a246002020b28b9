package provider

import (
	"bytes"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// Body encodes a request, merged with the options of the settings.
func (f Failures) Body(body map[string]any, s *cairn.Settings) ([]byte, error) {
	if err := f.Merge(body, s); err != nil {
		return nil, err
	}
	data, err := Encode(body)
	if err != nil {
		return nil, f.Errorf(cairn.ErrModelRequest, "encode request: %w", err)
	}
	return data, nil
}

// Merge merges the options of the settings into a request, see [Over].
func (f Failures) Merge(body map[string]any, s *cairn.Settings) error {
	for name, value := range s.Options {
		raw, err := Encode(value)
		if err != nil {
			e := f.Errorf(cairn.ErrModelRequest, "settings: option %q: %w", name, err)
			e.Field = "Options"
			return e
		}
		if body[name], err = over(body[name], bytes.TrimSpace(raw)); err != nil {
			return f.Errorf(cairn.ErrModelRequest, "encode request: %w", err)
		}
	}
	return nil
}

func over(base any, options json.RawMessage) (json.RawMessage, error) {
	if base == nil {
		return options, nil
	}
	raw, err := Encode(base)
	return Over(bytes.TrimSpace(raw), options), err
}

// Over returns a JSON value with options merged into it: members of objects replace those of the same name, and are
// merged themselves if both are objects. Anything else replaces the value, and so does an object with another "type",
// whose members would not fit.
func Over(base, options json.RawMessage) json.RawMessage {
	var into, from map[string]json.RawMessage
	if json.Unmarshal(base, &into) != nil || json.Unmarshal(options, &from) != nil || into == nil || from == nil {
		return options
	}
	if kind := from["type"]; kind != nil && into["type"] != nil && !bytes.Equal(kind, into["type"]) {
		return options
	}
	for name, value := range from {
		if had, ok := into[name]; ok {
			value = Over(had, value)
		}
		into[name] = value
	}
	merged, err := Encode(into)
	if err != nil {
		return options
	}
	return bytes.TrimSpace(merged)
}

// Schema returns a tool's schema in a provider's dialect, in its original order, in which models read the properties.
func (f Failures) Schema(t *cairn.ToolSpec, d *toolschema.Dialect) (json.RawMessage, error) {
	if len(t.Schema) == 0 {
		return json.RawMessage(toolschema.Empty), nil
	}
	if !json.Valid(t.Schema) {
		e := f.Errorf(cairn.ErrModelRequest, "tool %q: schema is not valid JSON", t.Name)
		e.Field = "Schema"
		return nil, e
	}
	return d.Lower(t.Schema), nil
}

// Objects encodes values that must each be a JSON object, such as tools that the provider executes itself. wrong is
// the index of the first value that is not an object, or -1.
func Objects(list []any) (encoded []json.RawMessage, wrong int) {
	for i, value := range list {
		raw, err := Encode(value)
		if err != nil || raw[0] != '{' {
			return nil, i
		}
		encoded = append(encoded, bytes.TrimSpace(raw))
	}
	return encoded, -1
}

// Keepable returns JSON that a session can keep, and nil for anything else.
func Keepable(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || cairn.CheckJSON("provider", raw) != nil {
		return nil
	}
	return raw
}
