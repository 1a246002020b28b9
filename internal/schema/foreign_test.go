package schema

import (
	"encoding/json"
	"testing"
)

// TestForeignSchemas has schemas with parts that cannot be checked. The rest is.
func TestForeignSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, good, bad string }{
		"a pattern with lookahead":      {`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)a","maxLength":3}}}`, `{"a":"x"}`, `{"a":"abcd"}`},
		"properties by such a pattern":  {`{"type":"object","patternProperties":{"^(?=x)":{"type":"string"}},"additionalProperties":false,"required":["x"]}`, `{"x":1}`, `{}`},
		"exclusive bounds of draft-04":  {`{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`, `{"a":1}`, `{"a":0}`},
		"a required flag of draft-03":   {`{"type":"object","properties":{"a":{"type":"string","required":true}}}`, `{}`, `{"a":1}`},
		"a tuple of draft-07":           {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`, `{"a":["x",1]}`, `{"a":1}`},
		"an unknown format":             {`{"type":"object","properties":{"a":{"type":"string","format":"phone"}}}`, `{"a":"x"}`, `{"a":1}`},
		"annotations of another type":   {`{"type":"object","properties":{"a":{"type":"string","title":5,"description":["x"],"deprecated":"yes","examples":"x"}}}`, `{"a":"x"}`, `{"a":1}`},
		"lengths that are no lengths":   {`{"type":"object","properties":{"a":{"type":"string","minLength":"1","maxLength":1.5}}}`, `{"a":"xyz"}`, `{"a":1}`},
		"a recursive reference":         {`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"p":{"pattern":"(?!x)"}}}}}`, `{"a":{"a":{"p":"x"}}}`, `{"a":{"a":1}}`},
		"properties named like keyword": {`{"type":"object","properties":{"pattern":{"type":"string","pattern":"(?!x)"},"title":{"type":"integer"}}}`, `{"pattern":"x","title":1}`, `{"title":"x"}`},
	} {
		s, err := Parse(json.RawMessage(c.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if list := s.Validate(json.RawMessage(c.good)); len(list) > 0 {
			t.Errorf("%s: %s is refused: %v", name, c.good, list)
		}
		if list := s.Validate(json.RawMessage(c.bad)); len(list) == 0 {
			t.Errorf("%s: %s is accepted", name, c.bad)
		}
		if string(s.JSON()) != c.schema {
			t.Errorf("%s: becomes %s", name, s.JSON())
		}
	}
	for _, bad := range []string{`{"type":5}`, `{"type":"object","properties":[]}`, `{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`} {
		if _, err := Parse(json.RawMessage(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
