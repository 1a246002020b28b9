package toolschema_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// TestEnforceable has a schema for what a strict mode supports, and what makes a provider refuse the request.
func TestEnforceable(t *testing.T) {
	t.Parallel()
	// of is a closed and complete object with one property.
	of := func(property string) string {
		return `{"type":"object","properties":{"a":` + property + `},"required":["a"],"additionalProperties":false}`
	}
	const node = `"$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}}`
	for name, c := range map[string]struct {
		schema            string
		anthropic, openai bool
	}{
		"text":                    {of(`{"type":"string","description":"A name."}`), true, true},
		"no arguments":            {`{"type":"object","properties":{},"additionalProperties":false}`, true, true},
		"open":                    {`{"type":"object","properties":{}}`, false, false},
		"optional":                {`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, true, false},
		"required, but another":   {`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`, true, false},
		"open within":             {of(`{"type":"object","properties":{}}`), false, false},
		"open within, nullable":   {of(`{"type":["object","null"],"properties":{}}`), false, false},
		"open within a list":      {of(`{"type":"array","items":{"type":"object","properties":{}}}`), false, false},
		"map":                     {of(`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`), false, false},
		"bounds of a number":      {of(`{"type":"integer","minimum":1,"maximum":9}`), false, true},
		"exclusive bound":         {of(`{"type":"number","exclusiveMinimum":0}`), false, true},
		"multiples":               {of(`{"type":"integer","multipleOf":5}`), false, true},
		"length":                  {of(`{"type":"string","minLength":1}`), false, false},
		"pattern":                 {of(`{"type":"string","pattern":"^[a-z]+$"}`), true, true},
		"word boundary":           {of(`{"type":"string","pattern":"\\bx"}`), false, true},
		"format":                  {of(`{"type":"string","format":"date-time"}`), true, true},
		"address":                 {of(`{"type":"string","format":"uri"}`), true, false},
		"format of its own":       {of(`{"type":"string","format":"phone"}`), false, false},
		"at least one":            {of(`{"type":"array","items":{"type":"string"},"minItems":1}`), true, true},
		"at least two":            {of(`{"type":"array","items":{"type":"string"},"minItems":2}`), false, true},
		"at most two":             {of(`{"type":"array","items":{"type":"string"},"maxItems":2}`), false, true},
		"unique":                  {of(`{"type":"array","items":{"type":"string"},"uniqueItems":true}`), false, false},
		"anything":                {of(`{}`), false, false},
		"items of any kind":       {of(`{"type":"array"}`), false, false},
		"alternatives":            {of(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), true, true},
		"bound in an alternative": {of(`{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]}`), false, false},
		"one of":                  {of(`{"oneOf":[{"type":"string"},{"type":"null"}]}`), false, false},
		"all of":                  {of(`{"allOf":[{"type":"string"}]}`), true, false},
		"negation":                {of(`{"type":"string","not":{"const":"x"}}`), false, false},
		"condition":               {of(`{"type":"string","if":{"const":"x"},"then":{"type":"string"}}`), false, false},
		"names by pattern":        {`{"type":"object","properties":{},"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`, false, false},
		"number of properties":    {`{"type":"object","properties":{},"maxProperties":3,"additionalProperties":false}`, false, false},
		"choices":                 {of(`{"type":"string","enum":["a","b"]}`), true, true},
		"choice of lists":         {of(`{"type":"array","items":{"type":"string"},"enum":[["a"],["b"]]}`), false, true},
		"default":                 {of(`{"type":"string","default":"x"}`), true, false},
		"example":                 {of(`{"type":"string","examples":["x"]}`), false, false},
		"named as a keyword":      {`{"type":"object","properties":{"minLength":{"type":"string"},"not":{"type":"string"}},"required":["minLength","not"],"additionalProperties":false}`, true, true},
		"bound in a definition":   {`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"string","maxLength":3}}}`, false, false},
		"definition":              {`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"string"}}}`, true, true},
		"described reference":     {`{"type":"object","properties":{"a":{"$ref":"#/$defs/b","description":"A."}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"string"}}}`, true, false},
		"all of a reference":      {`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/b"}]}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"string"}}}`, false, false},
		"recursive":               {`{"type":"object","properties":{"a":{"$ref":"#/$defs/node"}},"required":["a"],"additionalProperties":false,` + node + `}`, false, true},
		"no schema":               {`[]`, false, false},
	} {
		for d, want := range map[*toolschema.Dialect]bool{toolschema.Anthropic: c.anthropic, toolschema.OpenAI: c.openai} {
			lowered := d.Lower(json.RawMessage(c.schema))
			if got := d.Enforceable(lowered); got != want {
				t.Errorf("%s (OpenAI %t): %t, want %t: %s", name, d == toolschema.OpenAI, got, want, lowered)
			}
		}
		if toolschema.Gemini.Enforceable(json.RawMessage(c.schema)) {
			t.Errorf("%s: Gemini enforces it", name)
		}
	}
}
