package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

// turnSchema returns the schema of turnOut for an agent with the given output; nil for one whose output is text.
func turnSchema(output *cairn.OutputType) (json.RawMessage, error) {
	properties := map[string]any{
		"session": map[string]string{"type": "string", "description": "The session id, to continue the conversation in further calls."},
		"text":    map[string]string{"type": "string", "description": "The agent's answer."},
	}
	if output != nil {
		var s any
		if err := json.Unmarshal(output.Schema(), &s); err != nil {
			return nil, fmt.Errorf("decode output schema: %w", err)
		}
		properties["output"] = nested(s, "/properties/output")
	}
	return json.Marshal(map[string]any{"type": "object", "properties": properties, "required": []string{"session"}})
}

// nested returns a schema for a place within another one, given as a JSON Pointer. References to places of the schema
// itself lead to it there.
func nested(schema any, at string) any {
	root, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	delete(root, "$schema")         // is for whole documents
	if _, own := root["$id"]; own { // its references are relative to it
		return root
	}
	relocate(root, at)
	return root
}

// Keywords of JSON Schema 2020-12, and of earlier drafts, whose values are schemas: one, a list of them, or one for each
// name. Values of all other keywords, such as const and enum, are data.
var (
	schemaOf = []string{"additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems", "unevaluatedItems",
		"contains", "not", "if", "then", "else", "contentSchema"}
	schemasIn = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	schemasBy = []string{"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)

// relocate changes the references of a schema that is moved to a place of another one.
func relocate(schema any, at string) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	if _, own := s["$id"]; own {
		return
	}
	for _, key := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := s[key].(string); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) {
			s[key] = "#" + at + ref[1:]
		}
	}
	for _, key := range schemaOf {
		relocate(s[key], at)
	}
	for _, key := range schemasIn {
		list, _ := s[key].([]any)
		for _, v := range list {
			relocate(v, at)
		}
	}
	for _, key := range schemasBy {
		by, _ := s[key].(map[string]any)
		for _, v := range by {
			relocate(v, at)
		}
	}
}
