package openai

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema.
func format(schema json.RawMessage) map[string]any {
	lowered := toolschema.OpenAI.Lower(schema)
	return map[string]any{"text": map[string]any{
		"format": map[string]any{"type": "json_schema", "name": "output", "schema": lowered, "strict": toolschema.OpenAI.Enforceable(lowered)}}}
}
