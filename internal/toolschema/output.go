package toolschema

import (
	"encoding/json"
	"slices"
	"strings"
)

// Output returns a schema of structured output in a dialect. What the provider does not know or refuses, such as
// bounds, is left out and stands in the descriptions instead, so that the model reads it; the output is checked against
// the schema as it was given. Of a dialect with a strict mode the schema is as that mode demands, and objects that
// describe their properties accept no others. ok is false if it cannot be made so: it has maps, values of any type, or
// contains itself.
func (d *Dialect) Output(raw json.RawMessage) (out json.RawMessage, ok bool) {
	out, ok = d.worded(raw, true)
	if !ok {
		return d.Lower(raw), false
	}
	out = d.Lower(out)
	if d.strict == nil {
		return out, true
	}
	if out, ok = d.worded(out, false); !ok { // bounds that tuples became
		return d.Lower(raw), false
	}
	return out, d.Enforceable(out)
}

// worded returns a schema with what the provider does not accept in words, and with closed objects if closes is set.
func (d *Dialect) worded(raw json.RawMessage, closes bool) (json.RawMessage, bool) {
	root, err := parse(raw)
	if err != nil {
		return nil, false
	}
	w := &wording{Dialect: d, accepted: d.Keywords, closes: closes && d.strict != nil}
	if d.strict != nil {
		w.accepted = d.strict.keywords
	}
	s := w.schema(root, 0)
	if equal(s, root) {
		return raw, true
	}
	out, err := encode(s)
	return out, err == nil
}

// wording is one pass over a schema.
type wording struct {
	*Dialect
	accepted map[string]bool
	closes   bool
}

// bounding are the keywords that bound values, other than those that say what a value consists of, which
// [Dialect.Lower] keeps or rewrites.
var bounding = words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format minItems maxItems uniqueItems " +
	"contains minContains maxContains minProperties maxProperties propertyNames patternProperties dependentRequired dependentSchemas dependencies " +
	"not if then else unevaluatedProperties unevaluatedItems enum const")

func (w *wording) schema(s *object, depth int) *object {
	if depth > maxDepth {
		return s
	}
	s = s.clone()
	bounds(s)
	lost := newObject()
	for _, name := range slices.Clone(s.names) {
		if w.loses(s, name) {
			lost.set(name, s.of[name])
			if w.strict != nil {
				s.drop(name)
			}
			continue
		}
		s.of[name] = each(name, s.of[name], func(o *object) *object { return w.schema(o, depth+1) })
	}
	if w.strict != nil {
		w.shape(s, lost)
	}
	if len(lost.names) > 0 {
		text, _ := s.get("description").(string)
		if bound, err := encode(lost); err == nil {
			s.set("description", strings.TrimSpace(text+"\nMust also match the JSON Schema "+string(bound)))
		}
	}
	return s
}

// loses reports whether the provider does not accept a keyword that bounds values.
func (w *wording) loses(s *object, name string) bool {
	switch {
	case !w.accepted[name] || !bounding[name]:
		return bounding[name] && (w.strict != nil || name != "const") // which becomes an enumeration
	case w.strict == nil:
		f, _ := s.get("format").(string)
		return name == "format" && !formats[f]
	}
	switch name {
	case "format", "pattern", "minItems", "enum", "const":
		return !(&enforcing{enforcement: w.strict}).value(s, name, 0)
	}
	return false
}

// shape gives a schema the form that the strict mode demands. lost are the keywords that were left out.
func (w *wording) shape(s, lost *object) {
	if list := s.list("oneOf"); list != nil && !w.accepted["oneOf"] && !s.has("anyOf") {
		s.set("anyOf", list)
		s.drop("oneOf")
	}
	for _, name := range slices.Clone(s.names) {
		if !w.accepted[name] && name != "prefixItems" && name != "additionalItems" {
			s.drop(name) // bounds nothing
		}
	}
	if n, ok := lost.get("minItems").(json.Number); ok && n != "0" && usable("minItems", n) {
		s.set("minItems", json.Number("1"))
	}
	if !s.has("type") {
		if kinds := kindsOf(choices(s)); len(kinds) == 1 {
			s.set("type", kinds[0])
		} else if len(kinds) > 1 {
			s.set("type", kinds)
		}
	}
	if w.closes && closable(s) && !lost.has("patternProperties") {
		s.set("additionalProperties", false)
	}
}

// closable reports whether a schema describes the properties of objects, and accepts others only because it does not
// say otherwise.
func closable(s *object) bool {
	props, more := s.object("properties"), s.get("additionalProperties")
	if props == nil || len(props.names) == 0 || s.has("$ref") || s.has("anyOf") || s.has("allOf") {
		return false
	}
	if slices.ContainsFunc(s.list("required"), func(r any) bool { name, ok := r.(string); return !ok || !props.has(name) }) {
		return false
	}
	any, isSchema := more.(*object)
	return more == nil || more == true || isSchema && len(any.names) == 0
}

// kindsOf returns the types of values, none of which may have parts; nil otherwise.
func kindsOf(values []any) (kinds []any) {
	for _, v := range values {
		kind := "null"
		switch v.(type) {
		case string:
			kind = "string"
		case bool:
			kind = "boolean"
		case json.Number:
			kind = "number"
		case nil:
		default:
			return nil
		}
		if !slices.Contains(kinds, any(kind)) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
