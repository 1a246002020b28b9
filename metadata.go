package cairn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Metadata is a JSON object that the application keeps with a session. Its keys follow the rules of ids; its size, as
// JSON, counts towards [MaxMetadataBytes].
//
// In a session that was read, values have the types to which encoding/json decodes: string, float64, bool, nil, []any
// and map[string]any. Where metadata is set, each value that encodes to JSON is accepted. Numbers may not exceed 2^53-1
// in magnitude, since JSON's readers do not keep larger ones exact; store those as strings.
type Metadata map[string]any

// Canonical returns the metadata as a session has it once it is stored: with the types that encoding/json decodes to,
// and sharing no memory with m. It is nil for empty metadata. The error is ErrInvalid for a key or value that cannot be
// stored, with the field "metadata".
func (m Metadata) Canonical() (Metadata, error) {
	out, _, err := m.canonical()
	return out, err
}

// canonical also returns the size of the metadata as JSON.
func (m Metadata) canonical() (out Metadata, size int, err error) {
	for key, value := range m {
		if problem := ids.Check(key); problem != "" {
			return nil, 0, Invalid("metadata", "a key %s", problem)
		}
		own, n, problem := canonicalValue(value)
		if problem != "" {
			return nil, 0, Invalid("metadata", "value of %q %s", key, problem)
		}
		if out == nil {
			out = make(Metadata, len(m))
		}
		out[key] = own
		size += len(`"":,`) + len(key) + n
	}
	return out, size, nil
}

// canonicalValue returns a value as encoding/json decodes it, and its size as JSON, or what is wrong with it.
func canonicalValue(v any) (own any, size int, problem string) {
	raw, err := encodePlain(v)
	if err != nil {
		return nil, 0, fmt.Sprintf("cannot be encoded as JSON: %v", err)
	}
	depth, problem := limits.Nested(raw)
	switch {
	case problem != "":
		return nil, 0, problem
	case depth >= limits.Depth:
		return nil, 0, fmt.Sprintf("is nested more than %d levels deep", limits.Depth-1)
	case !validText(reflect.ValueOf(v)): // which encoding replaces
		return nil, 0, "is not valid UTF-8"
	}
	if err := json.Unmarshal(raw, &own); err != nil {
		return nil, 0, fmt.Sprintf("is not valid JSON: %v", err)
	}
	if !exact(own) {
		return nil, 0, "has a number beyond 2^53-1, which is not exact in JSON; use a string"
	}
	return own, len(raw), ""
}

// encodePlain encodes a value without the escapes for HTML.
func encodePlain(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // of the value's own method
			raw, err = nil, fmt.Errorf("encode %T: panic: %v", v, p)
		}
	}()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err = e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// validText reports whether the texts in a value of lists and maps are valid UTF-8. The value has been encoded, so it
// has no cycles.
func validText(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Interface:
		return validText(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if !validText(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if !validText(key) || !validText(value) {
				return false
			}
		}
	}
	return true
}

// exact reports whether all numbers in a decoded value are within the range in which whole numbers are exact.
func exact(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.Abs(v) <= limits.Count
	case []any:
		for _, item := range v {
			if !exact(item) {
				return false
			}
		}
	case map[string]any:
		for _, member := range v {
			if !exact(member) {
				return false
			}
		}
	}
	return true
}

// Clone returns a copy that shares no memory with m, whose values must have the types of a session that was read.
func (m Metadata) Clone() Metadata {
	if m == nil {
		return nil
	}
	return Metadata(cloneValue(map[string]any(m)).(map[string]any))
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cloneValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = cloneValue(v[key])
		}
		return out
	}
	return v
}
