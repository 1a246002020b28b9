// Package schema derives JSON Schemas from Go types and checks JSON texts against them, reporting every violation.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/cairn-agents/cairn/internal/toolschema"
)

// Provider is implemented by types that provide their own schema: recursive types, and types whose JSON form does not
// follow from their fields.
type Provider interface {
	JSONSchema() json.RawMessage
}

// Schema is a JSON Schema that is ready to validate. It is immutable and safe for concurrent use.
type Schema struct {
	raw      json.RawMessage
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	plain    *plain // nil unless the schema has a plain form
}

// JSON returns the schema's text. The caller must not modify it.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// Parse parses a schema. Parts that cannot be checked, such as a pattern with lookahead, are ignored in [Schema.Validate];
// [Schema.JSON] has them.
func Parse(raw json.RawMessage) (*Schema, error) {
	s, err := parse(raw)
	if err == nil {
		return s, nil
	}
	checkable, ok := toolschema.Checkable(raw)
	if !ok {
		return nil, err
	}
	if s, _ = parse(checkable); s == nil {
		return nil, err
	}
	var text bytes.Buffer
	if json.Compact(&text, raw) != nil {
		return nil, err
	}
	s.raw = text.Bytes()
	return s, nil
}

func parse(raw json.RawMessage) (*Schema, error) {
	switch text := bytes.TrimSpace(raw); {
	case !json.Valid(text):
		return nil, errors.New("schema: not valid JSON")
	case text[0] != '{' && text[0] != 't' && text[0] != 'f':
		return nil, errors.New("schema: not a JSON object")
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return resolve(&s)
}

// For derives the schema of t as encoding/json would encode it. A field's "jsonschema" tag is its description; its
// "schema" tag holds constraints separated by commas: enum=a|b|c, min=, max=, minLength=, maxLength=, minItems=,
// maxItems=, format= and, last, pattern=.
func For(t reflect.Type) (*Schema, error) {
	overrides := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[[]byte]():          {Types: []string{"null", "string"}, ContentEncoding: "base64"},
	}
	if err := collectOverrides(t, overrides, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: overrides})
	if err != nil {
		if strings.Contains(err.Error(), "cycle") {
			return nil, fmt.Errorf("%s is recursive: give it a method JSONSchema() json.RawMessage", t)
		}
		return nil, err
	}
	if err := constrain(t, s, overrides); err != nil {
		return nil, err
	}
	return resolve(s)
}

func resolve(s *jsonschema.Schema) (*Schema, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if err := checkRefs(raw); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{raw: raw, schema: s, resolved: resolved, plain: plainOf(raw)}, nil
}

var providerType = reflect.TypeFor[Provider]()

// collectOverrides finds the types in t that provide their own schema. It rejects fields whose JSON form a schema
// cannot express.
func collectOverrides(t reflect.Type, found map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] || found[t] != nil {
		return nil
	}
	seen[t] = true
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(providerType) {
		s, err := provided(t)
		if err != nil {
			return fmt.Errorf("%s.JSONSchema: %w", t, err)
		}
		found[t] = s
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return collectOverrides(t.Elem(), found, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name != "":
				return fmt.Errorf("%s: the embedded %s has a JSON name; give it a field name too", t, f.Name)
			case slices.Contains(strings.Split(options, ","), "string"):
				return fmt.Errorf("%s.%s: the string option of a json tag is not supported", t, f.Name)
			}
			if err := collectOverrides(f.Type, found, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// provided returns the schema that the zero value of t provides.
func provided(t reflect.Type) (s *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil { // most likely a method promoted from a nil embedded pointer
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	s = new(jsonschema.Schema)
	return s, json.Unmarshal(reflect.New(t).Interface().(Provider).JSONSchema(), s)
}

// constrain applies the "schema" tags of t's fields to the schema derived from t.
func constrain(t reflect.Type, s *jsonschema.Schema, overrides map[reflect.Type]*jsonschema.Schema) error {
	if s == nil || overrides[t] != nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return constrain(t.Elem(), s, overrides)
	case reflect.Slice, reflect.Array:
		return constrain(t.Elem(), s.Items, overrides)
	case reflect.Map:
		return constrain(t.Elem(), s.AdditionalProperties, overrides)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if !f.IsExported() || f.Anonymous {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			property := s.Properties[name]
			if property == nil {
				continue
			}
			if err := constrain(f.Type, property, overrides); err != nil {
				return err
			}
			if tag := f.Tag.Get("schema"); tag != "" {
				if err := applyTag(property, f.Type, tag); err != nil {
					return fmt.Errorf("%s.%s: schema tag: %w", t, f.Name, err)
				}
			}
		}
	}
	return nil
}

func applyTag(s *jsonschema.Schema, t reflect.Type, tag string) error {
	for tag != "" {
		var item string
		if strings.HasPrefix(tag, "pattern=") { // a pattern may contain commas, so it takes the rest
			item, tag = tag, ""
		} else {
			item, tag, _ = strings.Cut(tag, ",")
		}
		key, value, _ := strings.Cut(item, "=")
		var err error
		switch key {
		case "enum":
			s.Enum, err = enumValues(t, value)
		case "min":
			s.Minimum, err = number(value)
		case "max":
			s.Maximum, err = number(value)
		case "minLength":
			s.MinLength, err = count(value)
		case "maxLength":
			s.MaxLength, err = count(value)
		case "minItems":
			s.MinItems, err = count(value)
		case "maxItems":
			s.MaxItems, err = count(value)
		case "format":
			s.Format = value
		case "pattern":
			s.Pattern = value
			_, err = regexp.Compile(value)
		default:
			err = errors.New("unknown constraint")
		}
		if err != nil {
			return fmt.Errorf("%q: %w", item, err)
		}
	}
	return nil
}

func enumValues(t reflect.Type, list string) ([]any, error) {
	var values []any
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
		values = []any{nil} // a nil pointer is null
	}
	for word := range strings.SplitSeq(list, "|") {
		switch t.Kind() {
		case reflect.String:
			values = append(values, word)
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
			reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
			n, err := number(word)
			if err != nil {
				return nil, err
			}
			values = append(values, *n)
		default:
			return nil, fmt.Errorf("only strings and numbers can be enumerated, not %s", t)
		}
	}
	return values, nil
}

func number(text string) (*float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, errors.New("not a number")
	}
	return &n, nil
}

func count(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, errors.New("not a whole number of 0 or more")
	}
	return &n, nil
}

// Validate returns everything in the JSON text that violates the schema; nil means that it is valid.
func (s *Schema) Validate(raw json.RawMessage) []string {
	if s.plain != nil && s.plain.accepts(raw) {
		return nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return []string{"not valid JSON: " + err.Error()}
	}
	err := s.resolved.Validate(value)
	if err == nil {
		return nil
	}
	if list := violations(s, nil, "", s.schema, value, 0); len(list) > 0 {
		return list
	}
	return []string{reason(err)}
}

// maxRefs bounds how many references are followed, since they may form a cycle.
const maxRefs = 100

// violations walks the plain parts of a schema, objects and arrays, to report each fault in words with its place. For
// parts that it cannot split, such as combinations, the caller reports the validator's message.
func violations(whole *Schema, list []string, at string, s *jsonschema.Schema, value any, refs int) []string {
	if s == nil {
		return list
	}
	if s.Ref != "" {
		name, local := strings.CutPrefix(s.Ref, "#/$defs/")
		if def := whole.schema.Defs[name]; local && def != nil && refs < maxRefs {
			list = violations(whole, list, at, def, value, refs+1)
		}
		return list
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Properties == nil && len(s.Required) == 0 && s.AdditionalProperties == nil {
			break
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				list = append(list, member(at, name)+": is required")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := member(at, name)
			switch {
			case s.Properties[name] != nil:
				list = violations(whole, list, inner, s.Properties[name], v[name], refs)
			case s.AdditionalProperties != nil && isFalse(s.AdditionalProperties):
				list = append(list, inner+": unknown member")
			default:
				list = violations(whole, list, inner, s.AdditionalProperties, v[name], refs)
			}
		}
		return list
	case []any:
		if s.Items == nil {
			break
		}
		for i, item := range v {
			list = violations(whole, list, element(at, i), s.Items, item, refs)
		}
	}
	return leafViolations(list, at, *s, value)
}

// leafViolations checks what a schema requires of a value itself, without the values inside it.
func leafViolations(list []string, at string, leaf jsonschema.Schema, value any) []string {
	leaf.Items, leaf.Properties, leaf.AdditionalProperties, leaf.Required = nil, nil, nil, nil
	leaf.PropertyOrder = nil
	if said := broken(&leaf, value); said != nil {
		for _, words := range said {
			list = append(list, place(at)+cut(words))
		}
		return list
	}
	if text, err := json.Marshal(&leaf); err != nil || bytes.Contains(text, []byte(`"$ref"`)) {
		return list // a reference resolves differently outside of its document
	}
	resolved, err := leaf.CloneSchemas().Resolve(nil)
	if err != nil {
		return list
	}
	if err := resolved.Validate(value); err != nil {
		list = append(list, place(at)+reason(err))
	}
	return list
}

func isFalse(s *jsonschema.Schema) bool {
	raw, err := json.Marshal(s)
	return err == nil && string(raw) == "false"
}

func place(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}

// maxReason bounds a violation's text, in bytes; the text may quote the value at fault.
const maxReason = 300

// reason returns the innermost message of a validator's error, without the chain of schema addresses.
func reason(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return cut(err.Error())
}

func cut(text string) string {
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
