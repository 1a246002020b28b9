package toolschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// TestOutput has, for what a schema of structured output may say, whether it can be sent to Anthropic, and which texts
// the schema that is sent has and lacks there. All of it is either in the schema or in words.
func TestOutput(t *testing.T) {
	t.Parallel()
	of := func(property string) string {
		return `{"type":"object","properties":{"a":` + property + `},"required":["a"],"additionalProperties":false}`
	}
	words := func(bounds string) string {
		raw, err := json.Marshal("Must also match the JSON Schema " + bounds)
		if err != nil {
			t.Fatal(err)
		}
		return `"description":` + string(raw)
	}
	for name, c := range map[string]struct {
		schema    string
		fits      bool
		has, not  string
		unchanged bool
	}{
		"plain":                    {schema: of(`{"type":"string"}`), fits: true, unchanged: true},
		"bounds of a number":       {schema: of(`{"type":"integer","minimum":1,"maximum":9}`), fits: true, has: words(`{"minimum":1,"maximum":9}`), not: `,"minimum"`},
		"exclusive bound, draft 4": {schema: of(`{"type":"number","minimum":0,"exclusiveMinimum":true}`), fits: true, has: words(`{"exclusiveMinimum":0}`)},
		"multiples":                {schema: of(`{"type":"integer","multipleOf":5}`), fits: true, has: words(`{"multipleOf":5}`)},
		"length":                   {schema: of(`{"type":"string","description":"A <name>.","minLength":1,"maxLength":8}`), fits: true, has: `"A <name>.\nMust also match the JSON Schema {\"minLength\":1,\"maxLength\":8}"`},
		"word boundary":            {schema: of(`{"type":"string","pattern":"\\bx"}`), fits: true, has: words(`{"pattern":"\\bx"}`)},
		"pattern":                  {schema: of(`{"type":"string","pattern":"^[a-z]+$"}`), fits: true, unchanged: true},
		"format":                   {schema: of(`{"type":"string","format":"phone"}`), fits: true, has: words(`{"format":"phone"}`)},
		"at least two":             {schema: of(`{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":3}`), fits: true, has: `"minItems":1`},
		"at least one":             {schema: of(`{"type":"array","items":{"type":"string"},"minItems":1}`), fits: true, unchanged: true},
		"unique":                   {schema: of(`{"type":"array","items":{"type":"string"},"uniqueItems":true}`), fits: true, has: words(`{"uniqueItems":true}`)},
		"negation":                 {schema: of(`{"type":"string","not":{"const":"x"}}`), fits: true, has: words(`{"not":{"const":"x"}}`)},
		"bound of items":           {schema: of(`{"type":"array","items":{"type":"integer","minimum":1}}`), fits: true, has: words(`{"minimum":1}`)},
		"bound in an alternative":  {schema: of(`{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]}`), fits: true, has: words(`{"maxLength":3}`)},
		"one of":                   {schema: of(`{"oneOf":[{"type":"string"},{"type":"null"}]}`), fits: true, has: `"anyOf":[`},
		"bound in a definition":    {schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"string","maxLength":3}}}`, fits: true, has: words(`{"maxLength":3}`)},
		"number of properties":     {schema: `{"type":"object","properties":{"a":{"type":"string"}},"minProperties":1,"additionalProperties":false}`, fits: true, has: words(`{"minProperties":1}`)},
		"open":                     {schema: `{"type":"object","properties":{"a":{"type":"string"}}}`, fits: true, has: `"additionalProperties":false`},
		"open within a list":       {schema: of(`{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":true}}`), fits: true, not: `"additionalProperties":true`},
		"choices without a type":   {schema: of(`{"enum":["a","b"]}`), fits: true, has: `"type":"string"`},
		"constants":                {schema: of(`{"enum":["a",1,null]}`), fits: true, has: `"type":["string","number","null"]`},
		"example":                  {schema: of(`{"type":"string","examples":["x"]}`), fits: true, not: "examples"},
		"of another vocabulary":    {schema: of(`{"type":"string","x-order":1,"nullable":true}`), fits: true, not: "x-order"},
		"pair":                     {schema: of(`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`), fits: true, has: words(`{"maxItems":2}`)},
		"named as keywords":        {schema: `{"type":"object","properties":{"minLength":{"type":"string"},"not":{"type":"string"}},"required":["minLength","not"],"additionalProperties":false}`, fits: true, unchanged: true},
		"map":                      {schema: of(`{"type":"object","additionalProperties":{"type":"string"}}`)},
		"any object":               {schema: of(`{"type":"object"}`)},
		"anything":                 {schema: of(`{}`)},
		"names by pattern":         {schema: of(`{"type":"object","properties":{"b":{"type":"string"}},"patternProperties":{"^x":{"type":"string"}}}`)},
		"names that are refused":   {schema: `{"type":"object","properties":{"a b":{"type":"string"}},"required":["a b"]}`},
		"requires another":         {schema: `{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`},
		"itself":                   {schema: `{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"additionalProperties":false,"$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"additionalProperties":false}}}`},
	} {
		out, ok := toolschema.Anthropic.Output(json.RawMessage(c.schema))
		if ok != c.fits || ok && !toolschema.Anthropic.Enforceable(out) || ok && !json.Valid(out) {
			t.Errorf("%s: it fits: %t: %s", name, ok, out)
		}
		if !strings.Contains(string(out), c.has) || c.not != "" && strings.Contains(string(out), c.not) || c.unchanged && string(out) != c.schema {
			t.Errorf("%s: the schema is %s, want %s", name, out, c.has)
		}
		if again, _ := toolschema.Anthropic.Output(json.RawMessage(c.schema)); string(again) != string(out) {
			t.Errorf("%s: the schema is %s, and then %s", name, out, again)
		}
	}
}

// Gemini's dialect has some bounds, and the others are in words.
func TestOutputOfGemini(t *testing.T) {
	t.Parallel()
	raw := `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"multipleOf":5},"s":{"$ref":"#/$defs/s"},"m":{"type":"string","format":"email"}},"$defs":{"s":{"type":"string","maxLength":3}}}`
	out, ok := toolschema.Gemini.Output(json.RawMessage(raw))
	for _, want := range []string{`"minimum":1`, `{\"multipleOf\":5}`, `{\"maxLength\":3}`, `{\"format\":\"email\"}`} {
		if !ok || !strings.Contains(string(out), want) {
			t.Errorf("the schema lacks %s: %s", want, out)
		}
	}
	const choice = `{"type":"object","properties":{"a":{"const":"x","x-order":1}}}`
	if out, _ := toolschema.Gemini.Output(json.RawMessage(choice)); strings.Contains(string(out), "Must also") {
		t.Errorf("the schema of a choice is %s", out)
	}
	const plain = `{"type":"object","properties":{"a":{"type":"string"}}}`
	if out, _ := toolschema.Gemini.Output(json.RawMessage(plain)); string(out) != plain {
		t.Errorf("a plain schema is sent as %s", out)
	}
}
