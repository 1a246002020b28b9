package openai

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/provider"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema.
func format(schema json.RawMessage) map[string]any {
	lowered := toolschema.OpenAI.Lower(schema)
	return map[string]any{"text": map[string]any{
		"format": map[string]any{"type": "json_schema", "name": "output", "schema": lowered, "strict": strict(lowered)}}}
}

// strict reports whether the API can enforce a schema: it must be closed and require all properties.
func strict(schema json.RawMessage) bool {
	var v any
	return provider.Closed(schema) && json.Unmarshal(schema, &v) == nil && required(v)
}

func required(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			if !required(inner) {
				return false
			}
		}
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		names, _ := v["required"].([]any)
		if v["type"] == "object" && len(properties) != len(names) {
			return false
		}
		for _, inner := range v {
			if !required(inner) {
				return false
			}
		}
	}
	return true
}
