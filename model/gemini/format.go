package gemini

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// format returns the fields of a request that demand output of a schema.
func format(schema json.RawMessage) map[string]any {
	return map[string]any{"generationConfig": map[string]any{
		"responseMimeType": "application/json", "responseJsonSchema": toolschema.Gemini.Lower(schema)}}
}
