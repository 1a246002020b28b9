package anthropic

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema.
func format(schema json.RawMessage) map[string]any {
	return map[string]any{"output_config": map[string]any{
		"format": map[string]any{"type": "json_schema", "schema": toolschema.Anthropic.Lower(schema)}}}
}
