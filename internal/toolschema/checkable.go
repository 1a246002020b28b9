package toolschema

import (
	"encoding/json"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Checkable returns a schema without the parts that a validator of draft 2020-12 with patterns of RE2 cannot check:
// patterns in another syntax, keywords of earlier drafts that were meant otherwise, and keywords with a value of the
// wrong type. Values are checked against the rest. ok is false if raw is no JSON object.
func Checkable(raw json.RawMessage) (checkable json.RawMessage, ok bool) {
	root, err := parse(raw)
	if err != nil {
		return nil, false
	}
	out, err := encode(reduced(root, 0))
	return out, err == nil
}

// reduced returns a schema without what cannot be checked.
func reduced(s *object, depth int) *object {
	if depth > maxDepth {
		return newObject()
	}
	s = s.clone()
	bounds(s)
	for _, name := range slices.Clone(s.names) {
		if !usable(name, s.of[name]) {
			s.drop(name)
		}
	}
	if p, ok := s.get("pattern").(string); ok && foreign(p) {
		s.drop("pattern")
	}
	if given := s.object("patternProperties"); given != nil {
		given = given.clone()
		for _, p := range slices.Clone(given.names) {
			if foreign(p) { // its properties are then unknown ones
				given.drop(p)
				s.drop("additionalProperties")
			}
		}
		s.set("patternProperties", given)
	}
	for _, name := range s.names {
		s.of[name] = each(name, s.of[name], func(o *object) *object { return reduced(o, depth+1) })
	}
	return s
}

// each returns the value of a keyword with f applied to the schemas in it.
func each(name string, value any, f func(*object) *object) any {
	switch v := value.(type) {
	case *object:
		switch {
		case slices.Contains(named, name):
			out := newObject()
			for _, key := range v.names {
				if o, ok := v.of[key].(*object); ok {
					out.set(key, f(o))
				} else {
					out.set(key, v.of[key])
				}
			}
			return out
		case slices.Contains(single, name):
			return f(v)
		}
	case []any:
		if !slices.Contains(several, name) {
			return v
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
			if o, ok := v[i].(*object); ok {
				list[i] = f(o)
			}
		}
		return list
	}
	return value
}

// The keywords whose values are schemas by name, one schema, and lists of schemas.
var (
	named   = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	single  = []string{"items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"}
	several = []string{"items", "prefixItems", "anyOf", "oneOf", "allOf"}
)

// foreign reports whether a pattern is in a syntax that RE2 lacks a part of, such as lookahead.
func foreign(pattern string) bool {
	_, err := regexp.Compile(pattern)
	var e *syntax.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharRange, syntax.ErrInvalidRepeatSize, syntax.ErrInvalidNamedCapture:
		return true
	}
	return false
}

// usable reports whether a keyword that checks nothing, or counts, has a value of its type.
func usable(name string, value any) bool {
	switch name {
	case "title", "description", "$comment", "contentEncoding", "contentMediaType", "format", "pattern":
		_, ok := value.(string)
		return ok
	case "deprecated", "readOnly", "writeOnly", "uniqueItems":
		_, ok := value.(bool)
		return ok
	case "examples":
		_, ok := value.([]any)
		return ok
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		n, ok := value.(json.Number)
		return ok && !strings.ContainsAny(string(n), ".eE-")
	}
	return true
}
