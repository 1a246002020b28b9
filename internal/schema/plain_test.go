package schema

import (
	"encoding/json"
	"testing"
)

var plainSchema = json.RawMessage(`{"type":"object","properties":{"s":{"type":"string","description":"words"},"b":{"type":"boolean"},
	"i":{"type":"integer"},"n":{"type":["null","number"]}},"required":["s","i"],"additionalProperties":false}`)

func TestPlainSchemas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		string(plainSchema): true,
		`{"type":"object"}`: true,
		`{"type":"object","properties":{"s":{"type":"string","minLength":1}}}`: false,
		`{"type":"object","properties":{"s":{"enum":["a"]}}}`:                  false,
		`{"type":"object","properties":{"s":{"type":"array"}}}`:                false,
		`{"type":"object","properties":{"s":{"$ref":"#"}}}`:                    false,
		`{"type":"object","properties":{"s":{"type":[]}}}`:                     true,
		`{"type":"object","minProperties":1}`:                                  false,
		`{"type":"object","additionalProperties":{"type":"string"}}`:           false,
		`{"type":["object","null"]}`:                                           false,
		`{"type":"array"}`:                                                     false,
		`true`:                                                                 false,
	} {
		if got := plainOf(json.RawMessage(text)) != nil; got != want {
			t.Errorf("%s: plain %t, want %t", text, got, want)
		}
	}
}

func TestPlainSaysYesToWhatIsPlainlyRight(t *testing.T) {
	t.Parallel()
	p := plainOf(plainSchema)
	for text, want := range map[string]bool{
		`{"s":"a","i":1}`:                      true,
		` {"s":"","i":-7,"b":true,"n":1.5} `:   true,
		`{"s":"a","i":1,"n":null}`:             true,
		"{ \"s\"\t: \"a\\\"}\" , \n\"i\" :1 }": true,
		`{"s":"a","i":1,"s":"b"}`:              true,
		`{"s":"a","i":1,"s":2}`:                false,
		`{"s":"a","s":"b"}`:                    false,
		`{"\u0073":"a","i":1}`:                 false,
		`{"s":{},"i":1}`:                       false,
		`{}`:                                   false,
		`{"s":"a"}`:                            false,
		`{"s":1,"i":1}`:                        false,
		`{"s":"a","i":1.5}`:                    false,
		`{"s":"a","i":"1"}`:                    false,
		`{"s":"a","i":1,"b":null}`:             false,
		`{"s":"a","i":1,"more":1}`:             false,
		`{"s":"a","i":1`:                       false,
		`null`:                                 false,
		`[]`:                                   false,
		``:                                     false,
	} {
		if got := p.accepts(json.RawMessage(text)); got != want {
			t.Errorf("%s: accepted %t, want %t", text, got, want)
		}
	}
}

// The validator accepts whatever the plain form accepts.
func FuzzPlainAgreesWithTheValidator(f *testing.F) {
	for _, text := range []string{`{"s":"a","i":1}`, `{"s":"a","i":1e3}`, `{"s":"a","i":1,"s":2}`, `{"S":"a","i":-0}`, `null`, `{"s":"\ud800","i":1}`} {
		f.Add([]byte(text))
	}
	s, err := Parse(plainSchema)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !s.plain.accepts(text) {
			return
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatalf("%q was accepted: %v", text, err)
		}
		if err := s.resolved.Validate(value); err != nil {
			t.Fatalf("%q was accepted: %v", text, err)
		}
	})
}
