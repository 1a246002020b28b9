package server

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
)

// checkNames returns an error for valid JSON with a name that is in one object twice, since other readers may choose the
// other of the two values, or that the type it is to be decoded into does not have; nil is any type. The names of the
// outermost object are those of a request, which are case-insensitive. It neither copies nor decodes values.
func checkNames(raw []byte, into reflect.Type) error {
	var open []opened
	isName := false // the next text is a name
	for at := 0; at < len(raw); at++ {
		switch c := raw[at]; c {
		case '{', '[':
			o := opened{object: c == '{', of: plain(into)}
			if n := len(open); n < cap(open) {
				o.few = open[:n+1][n].few[:0] // of an earlier one
			}
			open, isName, into = append(open, o), o.object, o.item()
		case '}', ']':
			open, isName = open[:len(open)-1], false
		case ',':
			o := &open[len(open)-1]
			isName, into = o.object, o.item()
		case '"':
			end := at + 1
			for ; raw[end] != '"'; end++ {
				if raw[end] == '\\' {
					end++
				}
			}
			if isName {
				isName = false
				o, name := &open[len(open)-1], unquoted(raw[at:end+1])
				if len(open) == 1 {
					name = strings.ToLower(name)
				}
				if o.has(name) {
					return cairn.Invalid(name, "is a duplicate in its object")
				}
				if o.of != nil && o.of.Kind() == reflect.Struct {
					known := false
					if into, known = fieldsOf(o.of)[strings.ToLower(name)]; !known {
						return cairn.Invalid(name, "unknown field")
					}
				}
			}
			at = end
		}
	}
	return nil
}

// opened is an object or a list that is open.
type opened struct {
	object bool
	of     reflect.Type // nil for any
	few    []string     // the names so far
	many   map[string]bool
}

// item returns the type of the items of a list or a map.
func (o *opened) item() reflect.Type {
	if o.of == nil || o.of.Kind() == reflect.Struct {
		return nil
	}
	return o.of.Elem()
}

// has adds a name to an object. It reports whether the object had it.
func (o *opened) has(name string) bool {
	const few = 16
	if o.many == nil && len(o.few) < few {
		there := slices.Contains(o.few, name)
		o.few = append(o.few, name)
		return there
	}
	if o.many == nil {
		o.many = make(map[string]bool, 4*few)
		for _, name := range o.few {
			o.many[name] = true
		}
	}
	there := o.many[name]
	o.many[name] = true
	return there
}

func unquoted(raw []byte) string {
	text := string(raw[1 : len(raw)-1])
	if strings.Contains(text, `\`) {
		_ = json.Unmarshal(raw, &text) // it is valid
	}
	return text
}

// plain returns the struct, map or list type that a type is read as; nil for one that reads itself, or reads a scalar.
func plain(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return t
	}
	return nil
}

// known caches fieldsOf.
var known sync.Map

// fieldsOf returns the types of the JSON fields of a struct, by name in lower case.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if list, ok := known.Load(t); ok {
		return list.(map[string]reflect.Type)
	}
	list := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if !f.IsExported() || tag == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		list[strings.ToLower(name)] = f.Type
	}
	known.Store(t, list)
	return list
}
