// Package toolschema lowers the JSON Schema of a tool's arguments to what a model's provider accepts. The schemas of
// MCP servers and of code generators use all of JSON Schema, in several drafts, and a provider refuses a whole request
// for one keyword that it does not know. What is lost in a schema is not lost for a call: its arguments are checked
// against the tool's own schema.
package toolschema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Dialect is what a provider accepts. Every dialect has an object at the top, without combinations, schemas of draft 2020-12, items in each array, and patterns in the syntax of RE2.
type Dialect struct {
	// Keywords are the only keywords that are accepted; nil accepts all.
	Keywords map[string]bool
	// Property matches the names of properties that are accepted; nil accepts all. Others are described in words.
	Property *regexp.Regexp
	// Inline reports that references are not accepted. A recursive one ends in a schema that accepts anything.
	Inline bool
	// Listed reports that the object at the top must have properties, if only an empty list.
	Listed bool
	// Plain reports that allOf, tuples, const and the values of enumerations other than texts and numbers are not
	// accepted; oneOf is sent as anyOf.
	Plain bool

	strict *enforcement // nil if the adapter has no strict tools

	mu    sync.RWMutex
	known map[string]json.RawMessage // lowered schemas, by the given ones
}

// maxKnown is how many lowered schemas a dialect remembers.
const maxKnown = 4096

// The dialects of the providers. The sources of the rules are in docs/MCP.md.
var (
	// Anthropic is that of the Messages API.
	Anthropic = &Dialect{Property: regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`), strict: strictAnthropic}
	// OpenAI is that of the Responses and the Chat Completions API, and of servers that speak the latter.
	OpenAI = &Dialect{Listed: true, strict: strictOpenAI}
	// Gemini is that of parametersJsonSchema.
	Gemini = &Dialect{Inline: true, Plain: true, Keywords: words("type format title description enum items minItems maxItems minimum maximum anyOf properties additionalProperties required")}
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// Empty is the schema of a tool without arguments.
const Empty = `{"type":"object","properties":{}}`

// Lower returns a schema in a dialect. The result depends on the arguments only, and a schema that is accepted as it is
// is returned unchanged, so that a provider's cached prefix stays valid. What is no schema of an object accepts any
// object.
// Lower may be called concurrently.
func (d *Dialect) Lower(raw json.RawMessage) json.RawMessage {
	d.mu.RLock()
	out, ok := d.known[string(raw)]
	d.mu.RUnlock()
	if ok {
		return out
	}
	out = d.lower(raw)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnown {
		clear(d.known)
	}
	if d.known == nil {
		d.known = map[string]json.RawMessage{}
	}
	d.known[string(raw)] = out
	return out
}

func (d *Dialect) lower(raw json.RawMessage) json.RawMessage {
	root, err := parse(raw)
	if err != nil {
		return json.RawMessage(Empty)
	}
	l := &lowering{Dialect: d, root: root}
	top := l.top(root)
	if equal(top, root) {
		return raw
	}
	out, err := encode(top)
	if err != nil {
		return json.RawMessage(Empty)
	}
	return out
}

// lowering is one pass over a schema.
type lowering struct {
	*Dialect
	root *object
	open []string // the references that are being inlined, outermost first
	size int      // of what was inlined, in schemas
}

// maxInlined bounds how many schemas references expand to.
const maxInlined = 2_000

// top lowers the root. It must describe an object, and no combination is accepted there: the properties of all
// alternatives are offered, and those that every alternative requires are required.
func (l *lowering) top(root *object) *object {
	s := l.flat(root, 0)
	s = s.clone()
	s.drop("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "dependentSchemas", "dependentRequired", "dependencies", "$schema", "$id", "nullable")
	if s.get("type") != "object" {
		s.drop("type")
		out := newObject()
		out.set("type", "object")
		for _, name := range s.names {
			out.set(name, s.of[name])
		}
		s = out
	}
	if s.object("properties") == nil && l.Listed {
		s.set("properties", newObject())
	}
	return l.schema(s, 0)
}

// flat resolves the references and combinations at the top of a schema of objects.
func (l *lowering) flat(s *object, depth int) *object {
	if l.size++; depth > maxDepth || l.size > maxInlined {
		return newObject()
	}
	if ref, ok := s.get("$ref").(string); ok {
		target := l.target(ref)
		s = s.clone()
		s.drop("$ref")
		if target != nil && !slices.Contains(l.open, ref) {
			l.open = append(l.open, ref)
			s = merge(l.flat(target, depth+1), s)
			l.open = l.open[:len(l.open)-1]
		}
	}
	for _, part := range s.list("allOf") {
		if o, ok := part.(*object); ok {
			s = merge(s, l.flat(o, depth+1))
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		var branches []*object
		for _, part := range s.list(key) {
			if o, ok := part.(*object); ok {
				branches = append(branches, l.flat(o, depth+1))
			}
		}
		s = joined(s, branches)
	}
	for _, key := range []string{"then", "else"} {
		if o := s.object(key); o != nil {
			s = joined(s, []*object{l.flat(o, depth+1), newObject()})
		}
	}
	return s
}

// merge returns a schema that requires what both require, as far as one schema can say that. The first one's words
// have precedence.
func merge(a, b *object) *object {
	out := a.clone()
	for _, name := range b.names {
		switch value := b.of[name]; {
		case !out.has(name):
			out.set(name, value)
		case name == "properties":
			props, more := out.object(name), b.object(name)
			if props == nil || more == nil {
				continue
			}
			props = props.clone()
			for _, p := range more.names {
				props.set(p, both(props.get(p), more.of[p]))
			}
			out.set(name, props)
		case name == "required":
			list := slices.Clone(out.list(name))
			for _, r := range b.list(name) {
				if !slices.Contains(list, r) {
					list = append(list, r)
				}
			}
			out.set(name, list)
		case name == "allOf" || name == "anyOf" || name == "oneOf":
			if out.get(name) == nil {
				out.set(name, value)
			}
		}
	}
	if a.has("properties") && b.has("properties") && (a.get("additionalProperties") == false || b.get("additionalProperties") == false) {
		out.drop("additionalProperties") // each part may forbid what the other one describes
	}
	return out
}

// both returns the schema of a property that two schemas describe.
func both(a, b any) any {
	x, ok := a.(*object)
	y, also := b.(*object)
	switch {
	case !ok:
		return b
	case !also:
		return a
	}
	return merge(x, y)
}

// joined returns a schema of objects that accepts what any of the branches accepts.
func joined(s *object, branches []*object) *object {
	if len(branches) == 0 {
		return s
	}
	out := s.clone()
	props := newObject()
	if given := out.object("properties"); given != nil {
		props = given.clone()
	}
	own := slices.Clone(props.names)
	open := false
	for _, b := range branches {
		more := b.object("properties")
		open = open || more != nil && len(more.names) > 0
		if more == nil {
			continue
		}
		for _, name := range more.names {
			switch value := more.of[name]; {
			case !props.has(name):
				props.set(name, value)
			case slices.Contains(own, name): // the schema's own says it; branches narrow it down
				if o, ok := props.get(name).(*object); ok && len(o.names) == 0 {
					props.set(name, value)
				}
			default:
				props.set(name, either(props.get(name), value))
			}
		}
	}
	if len(props.names) > 0 {
		out.set("properties", props)
	}
	if open && len(own) == 0 && out.get("additionalProperties") == false {
		out.drop("additionalProperties")
	}
	required := slices.Clone(out.list("required"))
	for _, r := range branches[0].list("required") {
		if all := !slices.ContainsFunc(branches, func(b *object) bool { return !slices.Contains(b.list("required"), r) }); all && !slices.Contains(required, r) {
			required = append(required, r)
		}
	}
	if len(required) > 0 {
		out.set("required", required)
	}
	return out
}

// either returns a schema that accepts what one of two accepts. Constants become an enumeration.
func either(a, b any) any {
	if equal(a, b) {
		return a
	}
	x, ok := a.(*object)
	y, also := b.(*object)
	if ok && also && equal(x.get("type"), y.get("type")) {
		if list, more := choices(x), choices(y); list != nil && more != nil {
			out := x.clone()
			out.drop("const")
			out.set("enum", unique(append(list, more...)))
			return out
		}
	}
	if ok && len(x.names) == 1 && x.list("anyOf") != nil {
		out := newObject()
		out.set("anyOf", unique(append(slices.Clone(x.list("anyOf")), b)))
		return out
	}
	out := newObject()
	out.set("anyOf", []any{a, b})
	return out
}

// choices returns the values to which a schema is limited; nil if it is not.
func choices(s *object) []any {
	if s.has("const") {
		return []any{s.get("const")}
	}
	return slices.Clone(s.list("enum"))
}

func unique(list []any) []any {
	var out []any
	for _, v := range list {
		if !slices.ContainsFunc(out, func(o any) bool { return equal(o, v) }) {
			out = append(out, v)
		}
	}
	return out
}

// target returns the schema that a reference within the document leads to; nil if there is none.
func (l *lowering) target(ref string) *object {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := any(l.root)
	for _, name := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		name = strings.NewReplacer("~1", "/", "~0", "~", "%24", "$", "%20", " ").Replace(name)
		switch v := at.(type) {
		case *object:
			at = v.get(name)
		case []any:
			i := index(name, len(v))
			if i < 0 {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	o, _ := at.(*object)
	return o
}

func index(text string, n int) int {
	i := 0
	for _, c := range text {
		if c < '0' || c > '9' || i > n {
			return -1
		}
		i = 10*i + int(c-'0')
	}
	if text == "" || i >= n {
		return -1
	}
	return i
}
