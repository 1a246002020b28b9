package anthropic

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema; nil if the API does not accept the schema.
func format(schema json.RawMessage) map[string]any {
	output, ok := toolschema.Anthropic.Output(schema)
	if !ok {
		return nil
	}
	return map[string]any{"output_config": map[string]any{
		"format": map[string]any{"type": "json_schema", "schema": output}}}
}
