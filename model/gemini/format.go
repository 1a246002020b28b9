package gemini

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema.
func format(schema json.RawMessage) map[string]any {
	output, _ := toolschema.Gemini.Output(schema) // without a strict mode there is nothing that it refuses
	return map[string]any{"generationConfig": map[string]any{
		"responseMimeType": "application/json", "responseJsonSchema": output}}
}
