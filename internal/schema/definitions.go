package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Definitions are the schemas of structs that refer to each other by name, for a document that has many of them.
// Structs may be recursive. A type's JSON form is that of encoding/json; its tags are those of [For].
type Definitions struct {
	// Prefix is the prefix of a name in a reference, such as "#/components/schemas/".
	Prefix string
	// Name returns the name of a struct type.
	Name func(reflect.Type) string
	// Enums lists the values of types that admit no others.
	Enums map[reflect.Type][]string
	// Own has the schemas of types with a JSON form of their own.
	Own map[reflect.Type]*jsonschema.Schema
	// Doc returns the description of a struct type's field, or of the type itself for an empty field name; "" if it has
	// none. A nil Doc means that nothing is described.
	Doc func(t reflect.Type, field string) string

	Schemas map[string]*jsonschema.Schema
	known   map[reflect.Type]*jsonschema.Schema // the schema used for a type wherever it occurs
	types   map[string]reflect.Type
}

// Add returns the schema to use for a type. For a struct with a name it is a reference, and Add adds the struct's
// definition and those of all that it refers to. The error says which type or field cannot be expressed, or which two
// types have the same name.
func (d *Definitions) Add(t reflect.Type) (*jsonschema.Schema, error) {
	if d.known == nil {
		d.Schemas, d.types = map[string]*jsonschema.Schema{}, map[string]reflect.Type{}
		d.known = map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[json.RawMessage](): {Description: "Any JSON."},
			reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
			reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		}
		maps.Copy(d.known, d.Own)
		for t, values := range d.Enums {
			s := &jsonschema.Schema{Type: "string"}
			for _, v := range values {
				s.Enum = append(s.Enum, v)
			}
			d.known[t] = s
		}
	}
	if err := d.collect(t); err != nil {
		return nil, err
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: d.known})
	if err != nil {
		return nil, err
	}
	return notNull(s), nil
}

// collect defines the named structs that values of a type may contain.
func (d *Definitions) collect(t reflect.Type) error {
	if d.known[t] != nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return d.collect(t.Elem())
	case reflect.Struct:
		name := d.Name(t)
		if other := d.types[name]; other != nil {
			return fmt.Errorf("schema: %s and %s are both called %s", t, other, name)
		}
		d.types[name], d.known[t] = t, &jsonschema.Schema{Ref: d.Prefix + name}
		s, err := d.Object(t, nil)
		if err != nil {
			return err
		}
		s.Description = d.doc(t, "")
		d.Schemas[name] = s
	}
	return nil
}

// Object returns the schema of a struct itself, without the fields that leaveOut selects.
func (d *Definitions) Object(t reflect.Type, leaveOut func(reflect.StructField) bool) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" || leaveOut != nil && leaveOut(f) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		property, err := d.Add(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		if tag := f.Tag.Get("schema"); tag != "" {
			if err := applyTag(property, f.Type, tag); err != nil {
				return nil, fmt.Errorf("%s.%s: schema tag: %w", t, f.Name, err)
			}
		}
		if text := cmp.Or(f.Tag.Get("jsonschema"), d.Field(t, f)); text != "" {
			property.Description = text
		}
		list := strings.Split(options, ",")
		if !slices.Contains(list, "omitempty") && !slices.Contains(list, "omitzero") {
			s.Required = append(s.Required, name)
		}
		s.Properties[name] = property
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	return s, nil
}

// Field returns the description of a visible field of a struct. The field may be promoted from an embedded struct.
func (d *Definitions) Field(t reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return d.doc(t, f.Name)
}

func (d *Definitions) doc(t reflect.Type, field string) string {
	if d.Doc == nil {
		return ""
	}
	return d.Doc(t, field)
}

// notNull removes null from a schema: absent values are omitted, and required lists are never nil.
func notNull(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" }); len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
	if len(s.Types) == 0 {
		s.Types = nil
	}
	notNull(s.Items)
	notNull(s.AdditionalProperties)
	return s
}
