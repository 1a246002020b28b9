package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// plain is the schema of an object whose members have types and no other constraints, like the arguments of most tools.
// It can only accept values, at a fraction of the cost of validation. Values that it does not accept are validated in
// full.
type plain struct {
	types    map[string][]string
	required []string
	closed   bool // no other members are allowed
}

// maxRequired is the maximum number of required members that accepts can track.
const maxRequired = 64

// plainOf returns the plain form of a schema; nil if it has none.
func plainOf(raw json.RawMessage) *plain {
	var s struct {
		Type       any                                   `json:"type"`
		Properties map[string]map[string]json.RawMessage `json:"properties"`
		Required   []string                              `json:"required"`
		Additional json.RawMessage                       `json:"additionalProperties"`
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(raw, &s) != nil || s.Type != "object" {
		return nil
	}
	if !only(all, "type", "properties", "required", "additionalProperties", "title", "description", "$schema") {
		return nil
	}
	p := &plain{types: map[string][]string{}, required: s.Required, closed: string(s.Additional) == "false"}
	if len(s.Additional) > 0 && !p.closed || len(p.required) > maxRequired {
		return nil
	}
	for name, property := range s.Properties {
		types := scalars(property["type"])
		if types == nil || !only(property, "type", "title", "description") {
			return nil
		}
		p.types[name] = types
	}
	return p
}

// only reports whether an object has no members other than the given names.
func only(object map[string]json.RawMessage, names ...string) bool {
	for name := range maps.Keys(object) {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// scalars returns the types that a schema's type keyword names; nil if one of them is an object or an array.
func scalars(raw json.RawMessage) []string {
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil {
		list = []string{one}
	} else if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, t := range list {
		if !slices.Contains([]string{"string", "boolean", "integer", "number", "null"}, t) {
			return nil
		}
	}
	return list
}

// accepts reports whether a JSON text certainly satisfies the schema.
func (p *plain) accepts(raw json.RawMessage) bool {
	if !json.Valid(raw) {
		return false
	}
	rest := skipSpace(raw)
	if rest[0] != '{' {
		return false
	}
	var met uint64 // required members found
	for rest = skipSpace(rest[1:]); rest[0] != '}'; rest = skipSpace(rest) {
		var name, value []byte
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		name, rest = scalar(rest)
		value, rest = scalar(skipSpace(skipSpace(rest)[1:]))
		if value == nil || bytes.IndexByte(name, '\\') >= 0 || !utf8.Valid(name) {
			return false
		}
		name = name[1 : len(name)-1]
		types, known := p.types[string(name)]
		if !known && p.closed || known && !slices.ContainsFunc(types, func(t string) bool { return isType(t, value) }) {
			return false
		}
		for i, required := range p.required {
			if required == string(name) {
				met |= 1 << i
			}
		}
	}
	return met == 1<<len(p.required)-1
}

func skipSpace(raw []byte) []byte { return bytes.TrimLeft(raw, " \t\r\n") }

// scalar splits the leading scalar off valid JSON; nil if the JSON begins with an object or an array.
func scalar(raw []byte) (value, rest []byte) {
	end := 1
	switch raw[0] {
	case '{', '[':
		return nil, raw
	case '"':
		for ; raw[end] != '"'; end++ {
			if raw[end] == '\\' {
				end++
			}
		}
		end++
	default:
		for strings.IndexByte(",} \t\r\n", raw[end]) < 0 {
			end++
		}
	}
	return raw[:end], raw[end:]
}

func isType(name string, value json.RawMessage) bool {
	switch c := value[0]; name {
	case "string":
		return c == '"'
	case "boolean":
		return c == 't' || c == 'f'
	case "null":
		return c == 'n'
	case "number":
		return c == '-' || c >= '0' && c <= '9'
	case "integer":
		return (c == '-' || c >= '0' && c <= '9') && !bytes.ContainsAny(value, ".eE")
	}
	return false
}
