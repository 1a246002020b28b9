package toolschema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schema lowers a schema below the top, and that of the top once its combinations are resolved.
func (l *lowering) schema(s *object, depth int) *object {
	if depth > maxDepth {
		return newObject()
	}
	if len(l.open) > 0 {
		l.size++
	}
	if out, done := l.reference(s, depth); done {
		return out
	}
	s = s.clone()
	modern(s)
	if l.Plain {
		for _, part := range s.list("allOf") {
			if o, ok := part.(*object); ok {
				s = merge(s, l.flat(o, depth+1))
			}
		}
		s.drop("allOf")
		modern(s)
		plain(s)
	}
	l.array(s)
	if p, ok := s.get("pattern").(string); ok && !portable(p) {
		s.drop("pattern")
	}
	if s.object("patternProperties") != nil {
		l.patternProperties(s)
	}
	l.format(s)
	for _, name := range slices.Clone(s.names) {
		switch {
		case l.Keywords != nil && !l.Keywords[name]:
			s.drop(name)
		default:
			l.keyword(s, name, depth)
		}
	}
	l.properties(s, depth)
	return s
}

// reference lowers a schema that is a reference. done reports whether it was one.
func (l *lowering) reference(s *object, depth int) (out *object, done bool) {
	ref, ok := s.get("$ref").(string)
	if !ok {
		return nil, false
	}
	rest := s.clone()
	rest.drop("$ref")
	target := l.target(ref)
	defined := strings.HasPrefix(ref, "#/$defs/") || strings.HasPrefix(ref, "#/definitions/")
	switch {
	case target == nil:
		return l.schema(rest, depth+1), true
	case defined && !l.Inline:
		return nil, false
	case slices.Contains(l.open, ref) || l.size > maxInlined:
		if t, ok := target.get("type").(string); ok && t != "array" {
			rest.set("type", t)
		}
		return l.schema(rest, depth+1), true
	}
	l.open = append(l.open, ref)
	defer func() { l.open = l.open[:len(l.open)-1] }()
	return l.schema(merge(rest, target), depth+1), true
}

// keyword lowers the schemas in a keyword's value.
func (l *lowering) keyword(s *object, name string, depth int) {
	switch name {
	case "items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties", "unevaluatedProperties", "unevaluatedItems":
		if o := s.object(name); o != nil {
			s.set(name, l.schema(o, depth+1))
		}
	case "anyOf", "oneOf", "allOf":
		var list []any
		for _, part := range s.list(name) {
			switch part := part.(type) {
			case *object:
				list = append(list, l.schema(part, depth+1))
			case bool:
				if part {
					list = append(list, newObject())
				}
			}
		}
		if list = unique(list); len(list) == 0 {
			s.drop(name)
		} else {
			s.set(name, list)
		}
	case "$defs", "definitions", "dependentSchemas", "patternProperties":
		if defs := s.object(name); defs != nil {
			out := newObject()
			for _, key := range defs.names {
				if o, ok := defs.of[key].(*object); ok {
					out.set(key, l.schema(o, depth+1))
				} else {
					out.set(key, newObject())
				}
			}
			s.set(name, out)
		}
	}
}

// properties lowers the properties of an object. Those whose names are not accepted are described in words.
func (l *lowering) properties(s *object, depth int) {
	props := s.object("properties")
	if props == nil {
		s.drop("properties")
		if l.Plain {
			s.drop("required")
		}
		return
	}
	out := newObject()
	var unnamed []string
	for _, name := range props.names {
		o, ok := props.of[name].(*object)
		if !ok {
			if props.of[name] == false {
				continue
			}
			o = newObject()
		}
		o = l.schema(o, depth+1)
		if l.Property != nil && !l.Property.MatchString(name) {
			unnamed = append(unnamed, described(name, o, slices.Contains(s.list("required"), any(name))))
			continue
		}
		out.set(name, o)
	}
	s.set("properties", out)
	if len(unnamed) > 0 {
		text, _ := s.get("description").(string)
		s.set("description", strings.TrimSpace(text+"\nFurther properties: "+strings.Join(unnamed, "; ")))
		if s.get("additionalProperties") == false {
			s.drop("additionalProperties")
		}
	}
	if !s.has("required") {
		return
	}
	var required []any
	for _, r := range s.list("required") {
		if name, ok := r.(string); ok && (out.has(name) || !l.Plain && !props.has(name)) && !slices.Contains(required, r) {
			required = append(required, r)
		}
	}
	if len(required) == 0 {
		s.drop("required")
	} else if !equal(required, s.list("required")) {
		s.set("required", required)
	}
}

// described returns in words a property that cannot be declared.
func described(name string, s *object, required bool) string {
	key, _ := encode(name)
	text, err := encode(s)
	if err != nil {
		text = []byte("{}")
	}
	if required {
		return string(key) + " (required): " + string(text)
	}
	return string(key) + ": " + string(text)
}

// modern turns keywords of earlier drafts, and values that no draft knows, into those of draft 2020-12.
func modern(s *object) {
	bounds(s)
	oneType(s)
	if list, ok := s.get("enum").([]any); s.has("enum") && (!ok || len(list) == 0) {
		s.drop("enum")
	} else if ok {
		s.set("enum", unique(list))
	}
	for _, name := range []string{"items", "additionalProperties", "contains", "not"} {
		if s.has(name) && s.get(name) == nil {
			s.drop(name)
		}
	}
	if s.get("items") == true {
		s.set("items", newObject())
	}
}

// bounds turns exclusive bounds and required properties of drafts 3 and 4 into those of later drafts.
func bounds(s *object) {
	for _, side := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		exclusive, old := s.get(side[0]).(bool)
		if !old {
			continue
		}
		bound := s.get(side[1])
		s.drop(side[0])
		if n, ok := bound.(json.Number); exclusive && ok {
			s.drop(side[1])
			s.set(side[0], n)
		}
	}
	if _, old := s.get("required").(bool); old { // draft 3
		s.drop("required")
	}
}

// oneType leaves out types that do not exist.
func oneType(s *object) {
	switch list := s.get("type").(type) {
	case string:
		if !slices.Contains(types, list) {
			s.drop("type")
		}
	case []any:
		known := slices.DeleteFunc(unique(list), func(t any) bool { name, ok := t.(string); return !ok || !slices.Contains(types, name) })
		switch len(known) {
		case 0:
			s.drop("type")
		case 1:
			s.set("type", known[0])
		default:
			s.set("type", known)
		}
	case nil:
		s.drop("type")
	default:
		s.drop("type")
	}
}

var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// isArray reports whether a schema names arrays among its types.
func isArray(s *object) bool {
	return s.get("type") == "array" || slices.Contains(s.list("type"), any("array"))
}

// array gives arrays items that are one schema. The items of a tuple become alternatives.
func (l *lowering) array(s *object) {
	tuple, rest := s.list("items"), s.get("additionalItems") // before draft 2020-12
	if list := s.list("prefixItems"); list != nil {
		tuple, rest = list, s.get("items")
	}
	s.drop("prefixItems", "additionalItems")
	if tuple == nil {
		if (isArray(s) || s.has("items")) && s.object("items") == nil {
			s.set("items", newObject())
		}
		return
	}
	if rest == false && !s.has("maxItems") {
		s.set("maxItems", json.Number(strconv.Itoa(len(tuple))))
	}
	if o, ok := rest.(*object); ok {
		tuple = append(slices.Clone(tuple), o)
	}
	tuple = unique(slices.DeleteFunc(slices.Clone(tuple), func(v any) bool { _, ok := v.(*object); return !ok }))
	switch len(tuple) {
	case 0:
		s.set("items", newObject())
	case 1:
		s.set("items", tuple[0])
	default:
		alternatives := newObject()
		alternatives.set("anyOf", tuple)
		s.set("items", alternatives)
	}
}

// plain turns constants and alternatives into the forms that every provider knows.
func plain(s *object) {
	if s.has("const") && !s.has("enum") {
		s.set("enum", []any{s.get("const")})
	}
	s.drop("const")
	if list := s.list("oneOf"); list != nil {
		if !s.has("anyOf") {
			s.set("anyOf", list)
		}
		s.drop("oneOf")
	}
	if s.has("exclusiveMinimum") && !s.has("minimum") {
		s.set("minimum", s.get("exclusiveMinimum"))
	}
	if s.has("exclusiveMaximum") && !s.has("maximum") {
		s.set("maximum", s.get("exclusiveMaximum"))
	}
	list := s.list("enum")
	if list == nil {
		return
	}
	var kept []any
	null := false
	for _, v := range list {
		switch v := v.(type) {
		case string:
			if v != "" {
				kept = append(kept, v)
			}
		case json.Number:
			kept = append(kept, v)
		case nil:
			null = true
		default:
			s.drop("enum")
			return
		}
	}
	if len(kept) == 0 {
		s.drop("enum")
		if null {
			s.set("type", "null")
		}
		return
	}
	s.set("enum", kept)
	if !s.has("type") {
		kind := "string"
		if _, ok := kept[0].(json.Number); ok {
			kind = "number"
		}
		s.set("type", kind)
	}
}

// patternProperties become additional properties where their patterns are not portable.
func (l *lowering) patternProperties(s *object) {
	given := s.object("patternProperties")
	for _, p := range given.names {
		if !portable(p) {
			s.drop("patternProperties")
			if s.get("additionalProperties") == false {
				s.drop("additionalProperties")
			}
			return
		}
	}
	if l.Keywords != nil && !l.Keywords["patternProperties"] && s.get("additionalProperties") == false {
		s.drop("additionalProperties")
	}
}

// formats are those that dialects with a list of keywords know.
var formats = words("date-time date time duration int32 int64 float double")

func (l *lowering) format(s *object) {
	if f, ok := s.get("format").(string); l.Keywords != nil && (!ok || !formats[f]) {
		s.drop("format")
	}
}

// portable reports whether a pattern means the same in all syntaxes: RE2 compiles it, and it has no classes or groups
// that others write differently.
func portable(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil && !strings.Contains(pattern, `\p`) && !strings.Contains(pattern, `\P`) && !strings.Contains(pattern, `(?`)
}
