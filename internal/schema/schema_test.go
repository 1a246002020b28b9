package schema_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn/internal/schema"
)

// colour provides its own schema by value, place by pointer.
type colour string

func (colour) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["red","blue"]}`)
}

type place struct{ Lat, Long float64 }

func (*place) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}`)
}

// tree is recursive; so is forest, but it provides its own schema.
type tree struct {
	Children []tree `json:"children"`
}

type forest struct{ Inner []forest }

func (forest) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"trees":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`)
}

type broken struct{}

func (broken) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":`) }

type base struct {
	ID string `json:"id" schema:"minLength=2"`
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

func TestFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		typ  reflect.Type
		want string
	}{
		{"scalars", of[struct {
			S string  `json:"s"`
			I int     `json:"i"`
			F float64 `json:"f"`
			B bool    `json:"b"`
		}](), `{"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"},"f":{"type":"number"},"b":{"type":"boolean"}},
			"required":["s","i","f","b"],"additionalProperties":false}`},
		{"optional and left out", of[struct {
			A      string    `json:"a,omitempty"`
			B      time.Time `json:"b,omitzero"`
			C      string    `json:"-"`
			hidden int
			Name   string
		}](), `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"Name":{"type":"string"}},"required":["Name"],"additionalProperties":false}`},
		{"description", of[struct {
			A string `json:"a" jsonschema:"the first, and only"`
		}](), `{"type":"object","properties":{"a":{"type":"string","description":"the first, and only"}},"required":["a"],"additionalProperties":false}`},
		{"map", of[map[string]int](), `{"type":"object","additionalProperties":{"type":"integer"}}`},
		{"embedded", of[struct{ base }](), `{"type":"object","properties":{"id":{"type":"string","minLength":2}},"required":["id"],"additionalProperties":false}`},
		{"raw JSON and bytes", of[struct {
			Raw   json.RawMessage `json:"raw"`
			Bytes []byte          `json:"bytes"`
		}](), `{"type":"object","properties":{"raw":true,"bytes":{"type":["null","string"],"contentEncoding":"base64"}},"required":["raw","bytes"],"additionalProperties":false}`},
		{"own schemas", of[struct {
			C colour   `json:"c"`
			P *place   `json:"p"`
			L []colour `json:"l,omitempty"`
		}](), `{"type":"object","properties":{"c":{"type":"string","enum":["red","blue"]},
			"p":{"type":["null","array"],"items":{"type":"number"},"minItems":2,"maxItems":2},
			"l":{"type":["null","array"],"items":{"type":"string","enum":["red","blue"]}}},"required":["c","p"],"additionalProperties":false}`},
		{"recursive with its own schema", of[forest](), `{"type":"object","properties":{"trees":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`},
	} {
		s, err := schema.For(test.typ)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		wantJSON(t, test.name, s.JSON(), test.want)
	}
}

func wantJSON(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

type tagged struct {
	Colour  string             `json:"colour,omitempty" schema:"enum=red|green"`
	Size    int                `json:"size,omitempty" schema:"enum=1|2|3"`
	Perhaps *string            `json:"perhaps" schema:"enum=a|b"`
	Amount  float64            `json:"amount,omitempty" schema:"min=0.5,max=10"`
	Name    string             `json:"name,omitempty" schema:"minLength=2,maxLength=4"`
	Items   []string           `json:"items,omitempty" schema:"minItems=1,maxItems=2"`
	Mail    string             `json:"mail,omitempty" schema:"format=email,pattern=^[a-z]{1,3}@,?x$"`
	Deep    []map[string]*base `json:"deep,omitempty"`
}

func TestTags(t *testing.T) {
	t.Parallel()
	s, err := schema.For(of[tagged]())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		input string
		valid bool
	}{
		{`{"perhaps":null}`, true},
		{`{"perhaps":"a"}`, true},
		{`{"perhaps":"c"}`, false},
		{`{"perhaps":null,"colour":"red"}`, true},
		{`{"perhaps":null,"colour":"blue"}`, false},
		{`{"perhaps":null,"size":2}`, true},
		{`{"perhaps":null,"size":4}`, false},
		{`{"perhaps":null,"amount":0.5}`, true},
		{`{"perhaps":null,"amount":0.4}`, false},
		{`{"perhaps":null,"amount":10.1}`, false},
		{`{"perhaps":null,"name":"éé"}`, true},
		{`{"perhaps":null,"name":"a"}`, false},
		{`{"perhaps":null,"name":"abcde"}`, false},
		{`{"perhaps":null,"items":[]}`, false},
		{`{"perhaps":null,"items":["a","b","c"]}`, false},
		{`{"perhaps":null,"items":["a","b"]}`, true},
		{`{"perhaps":null,"mail":"abc@,x"}`, true},
		{`{"perhaps":null,"mail":"abcd@x"}`, false},
		{`{"perhaps":null,"deep":[{"x":{"id":"ok"}},{"y":null}]}`, true},
		{`{"perhaps":null,"deep":[{"x":{"id":"k"}}]}`, false},
	} {
		if list := s.Validate(json.RawMessage(test.input)); (len(list) == 0) != test.valid {
			t.Errorf("%s: violations %q, want it valid: %v", test.input, list, test.valid)
		}
	}
	var mail struct {
		Properties map[string]struct{ Format string }
	}
	if err := json.Unmarshal(s.JSON(), &mail); err != nil || mail.Properties["mail"].Format != "email" {
		t.Errorf("format is %q, %v", mail.Properties["mail"].Format, err)
	}
}

// TestTagsOfOneFieldOnly tags one of two fields that have a type with its own schema.
func TestTagsOfOneFieldOnly(t *testing.T) {
	t.Parallel()
	s, err := schema.For(of[struct {
		A colour `json:"a" schema:"maxLength=3"`
		B colour `json:"b"`
	}]())
	if err != nil {
		t.Fatal(err)
	}
	if list := s.Validate(json.RawMessage(`{"a":"red","b":"blue"}`)); len(list) > 0 {
		t.Errorf("violations %q", list)
	}
	if list := s.Validate(json.RawMessage(`{"a":"blue","b":"blue"}`)); len(list) != 1 {
		t.Errorf("violations %q, want one", list)
	}
}

func TestForErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		typ  reflect.Type
		want []string
	}{
		{of[tree](), []string{"schema_test.tree is recursive", "JSONSchema"}},
		{of[struct{ T map[string]*tree }](), []string{"is recursive", "JSONSchema"}},
		{of[broken](), []string{"broken.JSONSchema"}},
		{of[struct{ *colour }](), []string{"JSONSchema", "panic"}},
		{of[struct{ C chan int }](), []string{"chan int"}},
		{of[struct{ M map[int]string }](), []string{"map key"}},
		{of[struct {
			base `json:"inner"`
		}](), []string{"base", "JSON name"}},
		{of[struct {
			N int `json:"n,string"`
		}](), []string{".N", "string option"}},
		{of[struct {
			A string `schema:"bogus=1"`
		}](), []string{".A", "bogus=1", "unknown constraint"}},
		{of[struct {
			A string `schema:"minLength"`
		}](), []string{".A", "not a whole number of 0 or more"}},
		{of[struct {
			A string `schema:"maxLength=-1"`
		}](), []string{".A", "not a whole number of 0 or more"}},
		{of[struct {
			A float64 `schema:"min=NaN"`
		}](), []string{".A", "not a number"}},
		{of[struct {
			A int `schema:"enum=1|two"`
		}](), []string{".A", "not a number"}},
		{of[struct {
			A []string `schema:"enum=a|b"`
		}](), []string{".A", "enumerated"}},
		{of[struct {
			A string `schema:"pattern=("`
		}](), []string{".A", "pattern=("}},
	} {
		_, err := schema.For(test.typ)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", test.typ, err, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, good := range []string{`{}`, `true`, `{"items":{"$ref":"#"}}`, `{"properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"string"}]}}}`,
		`{"allOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"object"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`} {
		if _, err := schema.Parse(json.RawMessage(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{``: "not valid JSON", `{`: "not valid JSON", `null`: "not a JSON object", `[]`: "not a JSON object",
		`5`: "not a JSON object", `{"type":5}`: "schema", `{"pattern":"("}`: "pattern", `{"$ref":"http://localhost/x"}`: "remote", `{"$ref":"#/$defs/x"}`: "x",
		`{"$ref":"#"}`: "refers to itself", `{"allOf":[{"type":"object"},{"$ref":"#"}]}`: "refers to itself", `{"not":{"$ref":"#"}}`: "refers to itself",
		`{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/a~1b"}]}},"$defs":{"a/b":{"if":{"$ref":"#/$defs/c%20d"}},"c d":{"$ref":"#/$defs/a~1b"}}}`: "refers to itself",
		`{"$ref":"#here","$defs":{"x":{"$anchor":"here"}}}`: `"#here"`, `{"$dynamicRef":"#"}`: "$dynamicRef",
		`{"properties":{"a":{"$id":"http://localhost/y","type":"string"}}}`: "$id"} {
		if _, err := schema.Parse(json.RawMessage(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", bad, err, want)
		}
	}
}

type order struct {
	ID    string            `json:"id"`
	Lines []line            `json:"lines"`
	Notes map[string]string `json:"notes,omitempty"`
}

type line struct {
	SKU   string `json:"sku" schema:"minLength=3"`
	Count int    `json:"count" schema:"min=1"`
}

// TestEveryViolationIsListed checks how many faults are found, and that each names its place.
func TestEveryViolationIsListed(t *testing.T) {
	t.Parallel()
	s, err := schema.For(of[order]())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		input string
		want  []string // the beginning of each, and after "…" a word that it must contain
	}{
		{`{"id":"x","lines":[{"sku":"abc","count":1}],"notes":{"a":"b"}}`, nil},
		{`{}`, []string{`id: is required`, `lines: is required`}},
		{`{"id":1,"lines":[],"extra":2,"other":3}`, []string{`extra: unknown member`, `id: must be a string`, `other: unknown member`}},
		{`{"id":"x","lines":[{"sku":"a","count":0},{"count":"two"},5]}`,
			[]string{`lines[0].count: must be at least 1`, `lines[0].sku: must have at least 3 characters`, `lines[1].sku: is required`,
				`lines[1].count: must be a whole number`, `lines[2]: must be an object`}},
		{`{"id":"x","lines":{},"notes":{"a":1,"b":2}}`, []string{`lines: …array`, `notes.a: …string`, `notes.b: …string`}},
		{`[]`, []string{`…object`}},
		{`null`, []string{`…object`}},
		{`{`, []string{`not valid JSON…`}},
		{`{} {}`, []string{`not valid JSON…`}},
		{``, []string{`not valid JSON…`}},
	} {
		got := s.Validate(json.RawMessage(test.input))
		matches := slices.EqualFunc(got, test.want, func(g, w string) bool {
			begin, word, _ := strings.Cut(w, "…")
			return strings.HasPrefix(g, begin) && strings.Contains(g, word)
		})
		if !matches {
			t.Errorf("%s:\ngot  %q\nwant %q", test.input, got, test.want)
		}
	}
}

// TestViolationsAreInWords tries each keyword that can be put in words.
func TestViolationsAreInWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schema, value, want string }{
		{`{"type":"boolean"}`, `1`, `must be true or false`},
		{`{"type":["null","integer","array"]}`, `"x"`, `must be a whole number or an array or null`},
		{`{"type":"integer","minimum":1}`, `"x"`, `must be a whole number`},
		{`{"minimum":1}`, `0`, `must be at least 1`},
		{`{"maximum":2.5}`, `3`, `must be at most 2.5`},
		{`{"exclusiveMinimum":0}`, `0`, `must be more than 0`},
		{`{"exclusiveMaximum":0}`, `0`, `must be less than 0`},
		{`{"multipleOf":5}`, `7`, `must be a multiple of 5`},
		{`{"minLength":1}`, `""`, `must have at least 1 character`},
		{`{"maxLength":2,"pattern":"^a"}`, `"xyz"`, `must have at most 2 characters; must match the pattern ^a`},
		{`{"minItems":2}`, `[1]`, `must have at least 2 items`},
		{`{"maxItems":1,"uniqueItems":true}`, `[1,1]`, `must have at most 1 item; must not have duplicate items`},
		{`{"minProperties":1}`, `{}`, `must have at least 1 member`},
		{`{"enum":["red","green",null]}`, `"blue"`, `must be one of "red", "green", null`},
		{`{"const":"go"}`, `"stop"`, `must be "go"`},
		{`{"properties":{"a b":{"type":"string"}}}`, `{"a b":1}`, `["a b"]: must be a string`},
		{`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"items":{"type":"string"}}}}`, `{"a":[1]}`, `a[0]: must be a string`},
	} {
		s, err := schema.Parse(json.RawMessage(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Validate(json.RawMessage(test.value)), "; "); got != test.want {
			t.Errorf("%s: %s: %q, want %q", test.schema, test.value, got, test.want)
		}
	}
}

// TestViolationsBeyondThePlainParts uses references and combinations, whose faults have the validator's message.
func TestViolationsBeyondThePlainParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schema, good, bad string }{
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`, `{"a":"s"}`, `{"a":1}`},
		{`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"string"}]}},"required":["a"]}`, `{"a":{"a":"s"}}`, `{"a":{"a":5}}`},
		{`{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}`, `{"a":1}`, `{}`},
		{`{"type":"object","minProperties":2}`, `{"a":1,"b":2}`, `{"a":1}`},
		{`{"type":"object","properties":{"a":{}},"minProperties":2}`, `{"a":1,"b":2}`, `{"a":1}`},
		{`{"type":"object","properties":{"a":{"not":{"type":"null"}}}}`, `{"a":1}`, `{"a":null}`},
		{`{"type":"array","items":{"type":"integer"},"uniqueItems":true}`, `[1,2]`, `[1,1]`},
		{`{"type":"object","patternProperties":{"^x":{"type":"integer"}},"properties":{"a":{}}}`, `{"x1":1}`, `{"x1":"one"}`},
		{`false`, ``, `1`},
	} {
		s, err := schema.Parse(json.RawMessage(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		if test.good != "" {
			if list := s.Validate(json.RawMessage(test.good)); len(list) > 0 {
				t.Errorf("%s: %s: violations %q", test.schema, test.good, list)
			}
		}
		if list := s.Validate(json.RawMessage(test.bad)); len(list) == 0 {
			t.Errorf("%s: %s is valid", test.schema, test.bad)
		}
	}
}

func TestLongValuesAreNotQuotedWhole(t *testing.T) {
	t.Parallel()
	s, err := schema.For(of[struct{ N int }]())
	if err != nil {
		t.Fatal(err)
	}
	list := s.Validate(json.RawMessage(`{"N":"` + strings.Repeat("é", 100_000) + `"}`))
	if len(list) != 1 || len(list[0]) > 400 || !strings.HasPrefix(list[0], "N: ") {
		t.Fatalf("violations of %d bytes: %.400q", len(strings.Join(list, "")), list)
	}
}

// FuzzValidate checks that no text makes Validate panic, and that a valid one keeps the constraints.
func FuzzValidate(f *testing.F) {
	var schemas []*schema.Schema
	for _, t := range []reflect.Type{of[order](), of[tagged](), of[forest]()} {
		s, err := schema.For(t)
		if err != nil {
			f.Fatal(err)
		}
		schemas = append(schemas, s)
	}
	for _, seed := range []string{`{}`, `{"id":"x","lines":[{"sku":"abc","count":1}]}`, `{"trees":[{"trees":[]}]}`, `{"perhaps":null,"deep":[{"a":{"id":"xx"}}]}`, `[[]]`, `1e999`, "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, s := range schemas[1:] {
			s.Validate(raw)
		}
		var o order
		if len(schemas[0].Validate(raw)) > 0 || json.Unmarshal(raw, &o) != nil {
			return
		}
		for _, l := range o.Lines {
			if utf8.RuneCountInString(l.SKU) < 3 || l.Count < 1 {
				t.Fatalf("%q satisfies the schema, but has line %+v", raw, l)
			}
		}
	})
}

// FuzzParse checks that no schema makes Parse panic, and that no value makes a parsed schema panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `true`, `{"type":"object","required":["a"]}`, `{"$ref":"#"}`, `{"items":{"$ref":"#"}}`, `{"type":["string",1]}`, `{"enum":[]}`,
		`{"properties":{"a":{"anyOf":[{"$ref":"#"}]}}}`, `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{}}}`} {
		f.Add([]byte(seed), []byte(`{"a":[1]}`))
	}
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		s, err := schema.Parse(raw)
		if err != nil {
			return
		}
		if !json.Valid(s.JSON()) {
			t.Fatalf("%q becomes %q", raw, s.JSON())
		}
		s.Validate(value)
	})
}
