package cairn

import (
	"bytes"
	"encoding/json"
	"maps"
)

// ProviderFields merges fields into the form in which the tool is sent to one provider, as [Settings].Options are
// merged into the request. provider is a provider as in [ModelInfo], such as "anthropic" or "openai-chat"; other
// providers do not see the fields. For example, a provider's search for tools finds one with
//
//	cairn.ProviderFields("anthropic", map[string]any{"defer_loading": true})
//
// Used again, for the same provider too, it adds further fields. Fields that do not encode as a JSON object are a
// mistake that [Agent.Validate] reports.
func ProviderFields(provider string, fields map[string]any) ToolOption {
	return func(t *Tool) {
		all := map[string]json.RawMessage{}
		if had := t.def.Fields[provider]; had != nil {
			_ = json.Unmarshal(had, &all) // encoded below
		}
		for name, value := range fields {
			raw, err := unescaped(value)
			if err != nil {
				t.def.Err = Errorf(ErrInvalid, "provider field %q for %q: %w", name, provider, err)
				return
			}
			all[name] = raw
		}
		raw, err := unescaped(all)
		if err != nil {
			t.def.Err = Errorf(ErrInvalid, "provider fields for %q: %w", provider, err)
			return
		}
		list := maps.Clone(t.def.Fields)
		if list == nil {
			list = map[string]json.RawMessage{}
		}
		list[provider] = raw
		t.def.Fields = list
	}
}

// unescaped encodes JSON without escaping <, > and &, which costs models fewer tokens to read.
func unescaped(v any) (json.RawMessage, error) {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(raw.Bytes()), err
}
