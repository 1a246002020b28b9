package openaichat

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema.
func format(schema json.RawMessage) map[string]any {
	lowered := toolschema.OpenAI.Lower(schema)
	return map[string]any{"response_format": map[string]any{"type": "json_schema",
		"json_schema": map[string]any{"name": "output", "schema": lowered}}}
}
