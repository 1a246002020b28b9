package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// rule is a schema keyword that bounds a single value.
type rule struct {
	// alone returns a schema with only that keyword; nil if s does not have it.
	alone func(s *jsonschema.Schema) *jsonschema.Schema
	// says returns in words what the keyword requires.
	says func(s *jsonschema.Schema) string
}

// rules are the keywords that can be put in words. A value of the wrong type violates no other rule.
var rules = []rule{
	{func(s *jsonschema.Schema) *jsonschema.Schema {
		if s.Type == "" && len(s.Types) == 0 {
			return nil
		}
		return &jsonschema.Schema{Type: s.Type, Types: s.Types}
	}, func(s *jsonschema.Schema) string { return "must be " + kinds(s) }},
	{func(s *jsonschema.Schema) *jsonschema.Schema {
		if s.Enum == nil {
			return nil
		}
		return &jsonschema.Schema{Enum: s.Enum}
	}, func(s *jsonschema.Schema) string { return "must be " + either(s.Enum) }},
	{func(s *jsonschema.Schema) *jsonschema.Schema {
		if s.Const == nil {
			return nil
		}
		return &jsonschema.Schema{Const: s.Const}
	}, func(s *jsonschema.Schema) string { return "must be " + literal(*s.Const) }},
	bound("at least", func(s *jsonschema.Schema) **float64 { return &s.Minimum }),
	bound("at most", func(s *jsonschema.Schema) **float64 { return &s.Maximum }),
	bound("more than", func(s *jsonschema.Schema) **float64 { return &s.ExclusiveMinimum }),
	bound("less than", func(s *jsonschema.Schema) **float64 { return &s.ExclusiveMaximum }),
	bound("a multiple of", func(s *jsonschema.Schema) **float64 { return &s.MultipleOf }),
	size("at least", "character", func(s *jsonschema.Schema) **int { return &s.MinLength }),
	size("at most", "character", func(s *jsonschema.Schema) **int { return &s.MaxLength }),
	size("at least", "item", func(s *jsonschema.Schema) **int { return &s.MinItems }),
	size("at most", "item", func(s *jsonschema.Schema) **int { return &s.MaxItems }),
	size("at least", "member", func(s *jsonschema.Schema) **int { return &s.MinProperties }),
	size("at most", "member", func(s *jsonschema.Schema) **int { return &s.MaxProperties }),
	{func(s *jsonschema.Schema) *jsonschema.Schema {
		if s.Pattern == "" {
			return nil
		}
		return &jsonschema.Schema{Pattern: s.Pattern}
	}, func(s *jsonschema.Schema) string { return "must match the pattern " + s.Pattern }},
	{func(s *jsonschema.Schema) *jsonschema.Schema {
		if !s.UniqueItems {
			return nil
		}
		return &jsonschema.Schema{UniqueItems: true}
	}, func(*jsonschema.Schema) string { return "must not have duplicate items" }},
}

// bound returns the rule of a keyword that compares numbers.
func bound(words string, field func(*jsonschema.Schema) **float64) rule {
	return rule{func(s *jsonschema.Schema) *jsonschema.Schema {
		if *field(s) == nil {
			return nil
		}
		alone := new(jsonschema.Schema)
		*field(alone) = *field(s)
		return alone
	}, func(s *jsonschema.Schema) string { return "must be " + words + " " + literal(**field(s)) }}
}

// size returns the rule of a keyword that counts.
func size(words, unit string, field func(*jsonschema.Schema) **int) rule {
	return rule{func(s *jsonschema.Schema) *jsonschema.Schema {
		if *field(s) == nil {
			return nil
		}
		alone := new(jsonschema.Schema)
		*field(alone) = *field(s)
		return alone
	}, func(s *jsonschema.Schema) string {
		n := **field(s)
		if n == 1 {
			return fmt.Sprintf("must have %s 1 %s", words, unit)
		}
		return fmt.Sprintf("must have %s %d %ss", words, n, unit)
	}}
}

// broken returns in words the rules of a schema that a value violates; nil if it violates none that can be put in
// words.
func broken(s *jsonschema.Schema, value any) (list []string) {
	for i, r := range rules {
		alone := r.alone(s)
		if alone == nil {
			continue
		}
		resolved, err := alone.Resolve(nil)
		if err != nil || resolved.Validate(value) == nil {
			continue
		}
		list = append(list, r.says(s))
		if i == 0 {
			break
		}
	}
	return list
}

// kinds returns the names of the types that a schema allows.
func kinds(s *jsonschema.Schema) string {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	var list []string
	for _, t := range types {
		switch t {
		case "null": // comes last
		case "integer":
			list = append(list, "a whole number")
		case "boolean":
			list = append(list, "true or false")
		case "object", "array":
			list = append(list, "an "+t)
		default:
			list = append(list, "a "+t)
		}
	}
	if slices.Contains(types, "null") {
		list = append(list, "null")
	}
	return strings.Join(list, " or ")
}

// maxChoices is how many values of an enumeration are listed.
const maxChoices = 20

// either lists values as alternatives.
func either(values []any) string {
	var list []string
	for i, v := range values {
		if i == maxChoices {
			list = append(list, fmt.Sprintf("%d others", len(values)-i))
			break
		}
		list = append(list, literal(v))
	}
	if len(list) == 1 {
		return list[0]
	}
	return "one of " + strings.Join(list, ", ")
}

// literal returns a value as JSON.
func literal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

var simpleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// member returns the place of an object's member below another place.
func member(at, name string) string {
	name = cut(name)
	switch {
	case !simpleName.MatchString(name):
		return at + "[" + strconv.Quote(name) + "]"
	case at == "":
		return name
	}
	return at + "." + name
}

// element returns the place of an array's item below another place.
func element(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }
