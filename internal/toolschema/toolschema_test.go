package toolschema

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestLower(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, anthropic, openai, gemini string }{
		"a plain one": {given: `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b"],"additionalProperties":false}`},
		"no properties": {
			given:  `{"type":"object"}`,
			openai: `{"type":"object","properties":{}}`,
		},
		"no type": {
			given:     `{"properties":{"a":{}}}`,
			anthropic: `{"type":"object","properties":{"a":{}}}`,
		},
		"alternatives that only require": {
			given:     `{"type":"object","properties":{"text":{"type":"string"},"url":{"type":"string"}},"anyOf":[{"required":["text"]},{"required":["url"]}]}`,
			anthropic: `{"type":"object","properties":{"text":{"type":"string"},"url":{"type":"string"}}}`,
		},
		"alternatives that all require one": {
			given:     `{"type":"object","properties":{"a":{},"b":{}},"oneOf":[{"required":["a","b"]},{"required":["a"]}]}`,
			anthropic: `{"type":"object","properties":{"a":{},"b":{}},"required":["a"]}`,
		},
		"a discriminated union": {
			given: `{"oneOf":[{"type":"object","properties":{"kind":{"type":"string","const":"a"},"x":{"type":"string"}},"required":["kind","x"],"additionalProperties":false},` +
				`{"type":"object","properties":{"kind":{"type":"string","const":"b"},"x":{"type":"integer"}},"required":["kind"]}]}`,
			anthropic: `{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"x":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["kind"]}`,
		},
		"all of": {
			given:     `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`,
		},
		"a reference at the top": {
			given:     `{"$ref":"#/$defs/in","$defs":{"in":{"type":"object","properties":{"a":{"type":"string"}}}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"string"}},"$defs":{"in":{"type":"object","properties":{"a":{"type":"string"}}}}}`,
			gemini:    `{"type":"object","properties":{"a":{"type":"string"}}}`,
		},
		"an array without items": {
			given:     `{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":["array","null"],"items":{}}}}`,
		},
		"a tuple of draft-07": {
			given:     `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]},"maxItems":2}}}`,
		},
		"a tuple of 2020-12": {
			given:     `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],"items":false}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"array","items":{"type":"number"},"maxItems":2}}}`,
		},
		"a pattern with lookahead": {
			given:     `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)a"},"b":{"type":"string","pattern":"^a$"}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","pattern":"^a$"}}}`,
			gemini:    `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
		},
		"exclusive bounds of draft-04": {
			given:     `{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"number","exclusiveMinimum":0}}}`,
			gemini:    `{"type":"object","properties":{"a":{"type":"number","minimum":0}}}`,
		},
		"a recursive reference": {
			given:  `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`,
			gemini: `{"type":"object","properties":{"n":{"type":"object","properties":{"next":{"type":"object"}}}}}`,
		},
		"a reference to a property": {
			given:     `{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`,
			anthropic: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
		},
		"a reference that leads nowhere": {
			given:     `{"type":"object","properties":{"a":{"$ref":"https://example.com/x","description":"A."}}}`,
			anthropic: `{"type":"object","properties":{"a":{"description":"A."}}}`,
		},
		"a constant, and enumerations": {
			given:     `{"type":"object","properties":{"a":{"const":"x"},"b":{"enum":["","y",null]},"c":{"enum":[true]},"d":{"enum":[]}}}`,
			anthropic: `{"type":"object","properties":{"a":{"const":"x"},"b":{"enum":["","y",null]},"c":{"enum":[true]},"d":{}}}`,
			gemini:    `{"type":"object","properties":{"a":{"enum":["x"],"type":"string"},"b":{"enum":["y"],"type":"string"},"c":{},"d":{}}}`,
		},
		"combinations below the top": {
			given:  `{"type":"object","properties":{"a":{"allOf":[{"type":"string"},{"description":"A."}]},"b":{"oneOf":[{"type":"string"},{"type":"null"}]}}}`,
			gemini: `{"type":"object","properties":{"a":{"type":"string","description":"A."},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`,
		},
		"a requirement of what is not described": {
			given:  `{"type":"object","properties":{"a":{}},"required":["a","b"]}`,
			gemini: `{"type":"object","properties":{"a":{}},"required":["a"]}`,
		},
		"an odd name of a property": {
			given:     `{"type":"object","properties":{"$top":{"type":"integer"},"a":{}},"required":["$top"],"additionalProperties":false}`,
			anthropic: `{"type":"object","properties":{"a":{}},"description":"Further properties: \"$top\" (required): {\"type\":\"integer\"}"}`,
			openai:    `{"type":"object","properties":{"$top":{"type":"integer"},"a":{}},"required":["$top"],"additionalProperties":false}`,
			gemini:    `{"type":"object","properties":{"$top":{"type":"integer"},"a":{}},"required":["$top"],"additionalProperties":false}`,
		},
		"schemas that are true or false": {
			given:     `{"type":"object","properties":{"a":true,"b":false,"c":{"type":"array","items":true}}}`,
			anthropic: `{"type":"object","properties":{"a":{},"c":{"type":"array","items":{}}}}`,
		},
		"types that do not exist": {
			given:     `{"type":"object","properties":{"a":{"type":"date"},"b":{"type":["string","date"]},"c":{"type":5}}}`,
			anthropic: `{"type":"object","properties":{"a":{},"b":{"type":"string"},"c":{}}}`,
		},
		"an unknown format": {
			given:  `{"type":"object","properties":{"a":{"type":"string","format":"uri"},"b":{"type":"string","format":"date-time"}}}`,
			gemini: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","format":"date-time"}}}`,
		},
		"properties that are called like keywords": {given: `{"type":"object","properties":{"anyOf":{"type":"string"},"$ref":{"type":"string"},"pattern":{"type":"string"},"items":{"type":"string"}}}`,
			anthropic: `{"type":"object","properties":{"anyOf":{"type":"string"},"pattern":{"type":"string"},"items":{"type":"string"}},"description":"Further properties: \"$ref\": {\"type\":\"string\"}"}`,
			openai:    `{"type":"object","properties":{"anyOf":{"type":"string"},"$ref":{"type":"string"},"pattern":{"type":"string"},"items":{"type":"string"}}}`,
			gemini:    `{"type":"object","properties":{"anyOf":{"type":"string"},"$ref":{"type":"string"},"pattern":{"type":"string"},"items":{"type":"string"}}}`},
		"no schema": {given: `[]`, anthropic: Empty, openai: Empty, gemini: Empty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.anthropic == "" {
				c.anthropic = c.given
			}
			for dialect, want := range map[*Dialect]string{Anthropic: c.anthropic, OpenAI: c.openai, Gemini: c.gemini} {
				if want == "" {
					want = c.anthropic
				}
				got := dialect.Lower(json.RawMessage(c.given))
				if string(got) != want {
					t.Errorf("%s becomes\n%s, want\n%s", c.given, got, want)
				}
				if again := dialect.lower(got); string(again) != string(got) {
					t.Errorf("%s is lowered further to %s", got, again)
				}
			}
		})
	}
}

// TestLowerIsBounded has references that lead to themselves, and a few that expand to very many.
func TestLowerIsBounded(t *testing.T) {
	t.Parallel()
	bomb := `{"type":"object","properties":{"a":{"$ref":"#/$defs/a0"}},"$defs":{`
	for i := range 30 {
		n := string(rune('0'+i/10)) + string(rune('0'+i%10))
		m := string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		bomb += `"a` + strings.TrimPrefix(n, "0") + `":{"allOf":[{"$ref":"#/$defs/a` + strings.TrimPrefix(m, "0") + `"},{"$ref":"#/$defs/a` + strings.TrimPrefix(m, "0") + `"}],"properties":{"x":{"$ref":"#/$defs/a` + strings.TrimPrefix(m, "0") + `"},"y":{"$ref":"#/$defs/a` + strings.TrimPrefix(m, "0") + `"}}},`
	}
	bomb += `"a30":{"type":"string"}}}`
	for _, given := range []string{
		bomb, `{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		`{"type":"object","properties":{"a":` + strings.Repeat(`{"anyOf":[`, 90) + `{}` + strings.Repeat(`]}`, 90) + `}}`,
		strings.Repeat(`{"properties":{"a":`, 1000) + `{}` + strings.Repeat(`}}`, 1000),
	} {
		for _, d := range []*Dialect{Anthropic, OpenAI, Gemini} {
			got := d.Lower(json.RawMessage(given))
			if !json.Valid(got) || len(got) > 1<<20 {
				t.Errorf("%.100s becomes %d bytes: %.100s", given, len(got), got)
			}
		}
	}
}

func FuzzLower(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":["array","null"],"items":[{}]}},"anyOf":[{"required":["a"]}]}`))
	f.Add([]byte(`{"allOf":[{"$ref":"#"}],"not":true,"properties":{"$x":false},"required":["$x",1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, d := range []*Dialect{Anthropic, OpenAI, Gemini} {
			got := d.lower(raw)
			var s map[string]any
			if json.Unmarshal(got, &s) != nil || s["type"] != "object" || s["anyOf"] != nil || s["allOf"] != nil || s["oneOf"] != nil {
				t.Fatalf("%s becomes %s", raw, got)
			}
		}
	})
}
