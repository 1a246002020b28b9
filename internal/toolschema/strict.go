package toolschema

import (
	"encoding/json"
	"slices"
	"strings"
)

// enforcement is what a provider accepts in a schema that it enforces, by decoding that is constrained to the schema.
// A provider refuses a request with any other schema.
type enforcement struct {
	keywords, formats map[string]bool
	// complete reports that an object requires all its properties.
	complete bool
	// lone reports that a reference stands alone, without other keywords.
	lone bool
	// recursive reports that a schema may contain itself.
	recursive bool
	// simple reports that enumerations have no arrays and objects, that an array's minItems is 0 or 1, that patterns
	// have no word boundaries, and that the parts of allOf are not references.
	simple bool
}

// What the providers' documents of structured output list.
var (
	strictAnthropic = &enforcement{simple: true,
		keywords: words("type title description default properties required additionalProperties items minItems enum const anyOf allOf pattern format $ref $defs definitions"),
		formats:  words("date-time time date duration email hostname uri ipv4 ipv6 uuid")}
	strictOpenAI = &enforcement{complete: true, lone: true, recursive: true,
		keywords: words("type title description properties required additionalProperties items minItems maxItems enum const anyOf pattern format " +
			"multipleOf minimum maximum exclusiveMinimum exclusiveMaximum $ref $defs definitions"),
		formats: words("date-time time date duration email hostname ipv4 ipv6 uuid")}
)

// Enforceable reports whether the provider can enforce a schema that [Dialect.Lower] returned: each object is closed,
// and all keywords are those that the provider's strict mode supports. It is false for a dialect without such a mode.
func (d *Dialect) Enforceable(lowered json.RawMessage) bool {
	root, err := parse(lowered)
	if err != nil || d.strict == nil {
		return false
	}
	c := &enforcing{enforcement: d.strict, at: &lowering{Dialect: d, root: root}, passed: map[string]bool{}}
	return c.accepts(root, 0)
}

// enforcing is one pass over a schema.
type enforcing struct {
	*enforcement
	at     *lowering
	open   []string        // the references that are being followed
	passed map[string]bool // the references whose schemas are accepted
}

func (c *enforcing) accepts(s *object, depth int) bool {
	if depth > maxDepth || !slices.ContainsFunc([]string{"type", "$ref", "anyOf", "allOf"}, s.has) {
		return false
	}
	for _, name := range s.names {
		if !c.keywords[name] || !c.value(s, name, depth) {
			return false
		}
	}
	return c.object(s) && c.reference(s, depth)
}

// value reports whether a keyword's value is accepted.
func (c *enforcing) value(s *object, name string, depth int) bool {
	switch v := s.of[name].(type) {
	case *object:
		switch {
		case slices.Contains(named, name):
			return !slices.ContainsFunc(v.names, func(key string) bool { return !c.part(v.of[key], depth) })
		case slices.Contains(single, name):
			return c.part(v, depth)
		}
	case []any:
		switch {
		case slices.Contains(several, name):
			return !slices.ContainsFunc(v, func(part any) bool { return !c.part(part, depth) || name == "allOf" && c.simple && refers(part) })
		case name == "enum" && c.simple:
			return !slices.ContainsFunc(v, composite)
		}
	case string:
		switch name {
		case "format":
			return c.formats[v]
		case "pattern":
			return !c.simple || !strings.Contains(v, `\b`) && !strings.Contains(v, `\B`)
		}
	case json.Number:
		return name != "minItems" || !c.simple || v == "0" || v == "1"
	}
	return name != "const" || !c.simple || !composite(s.of[name])
}

func (c *enforcing) part(value any, depth int) bool {
	o, ok := value.(*object)
	return ok && c.accepts(o, depth+1)
}

// object reports whether a schema, if it is one of objects, is closed, and complete if it must be.
func (c *enforcing) object(s *object) bool {
	if s.get("type") != "object" && !slices.Contains(s.list("type"), any("object")) && !s.has("properties") {
		return !s.has("additionalProperties") || s.get("additionalProperties") == false
	}
	props := s.object("properties")
	if s.get("additionalProperties") != false {
		return false
	}
	return !c.complete || props == nil || !slices.ContainsFunc(props.names, func(name string) bool { return !slices.Contains(s.list("required"), any(name)) })
}

// reference reports whether a schema's reference, if it has one, leads to an accepted schema in the document.
func (c *enforcing) reference(s *object, depth int) bool {
	if !s.has("$ref") {
		return true
	}
	ref, _ := s.get("$ref").(string)
	target := c.at.target(ref)
	switch {
	case target == nil || c.lone && len(s.names) > 1:
		return false
	case slices.Contains(c.open, ref):
		return c.recursive
	case c.passed[ref]:
		return true
	}
	c.open = append(c.open, ref)
	ok := c.accepts(target, depth+1)
	c.open = c.open[:len(c.open)-1]
	c.passed[ref] = ok
	return ok
}

func refers(value any) bool {
	o, ok := value.(*object)
	return ok && o.has("$ref")
}

func composite(value any) bool {
	switch value.(type) {
	case *object, []any:
		return true
	}
	return false
}
