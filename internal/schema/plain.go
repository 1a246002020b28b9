package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// plain is the schema of an object whose members have types and nothing else, as most tools' arguments do. It only ever
// says yes, at a fraction of the cost: what it cannot vouch for is checked in full.
type plain struct {
	types    map[string][]string
	required []string
	closed   bool // no other members are allowed
}

// plainOf returns the plain form of a schema, or nil if it says more than that.
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
	if len(s.Additional) > 0 && !p.closed {
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

// only reports whether an object has no members but the named ones.
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
	if kind := bytes.TrimLeft(raw, " \t\r\n"); len(kind) == 0 || kind[0] != '{' {
		return false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	for _, name := range p.required {
		if _, ok := members[name]; !ok {
			return false
		}
	}
	for name, value := range members {
		types, known := p.types[name]
		if !known && p.closed || known && !slices.ContainsFunc(types, func(t string) bool { return isType(t, value) }) {
			return false
		}
	}
	return true
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
