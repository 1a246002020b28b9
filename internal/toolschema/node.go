package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// object is a JSON object whose members keep their order, in which models read them. Its values are *object, []any, or
// scalars of encoding/json with numbers as json.Number. Objects are never changed: a changed one is a copy.
type object struct {
	names []string
	of    map[string]any
}

func newObject() *object { return &object{of: map[string]any{}} }

// get returns a member; nil if there is none.
func (o *object) get(name string) any { return o.of[name] }

func (o *object) has(name string) bool {
	_, there := o.of[name]
	return there
}

// object returns a member that is an object; nil if it is none.
func (o *object) object(name string) *object {
	inner, _ := o.of[name].(*object)
	return inner
}

// list returns a member that is an array; nil if it is none.
func (o *object) list(name string) []any {
	list, _ := o.of[name].([]any)
	return list
}

func (o *object) set(name string, value any) {
	if !o.has(name) {
		o.names = append(o.names, name)
	}
	o.of[name] = value
}

func (o *object) drop(names ...string) {
	for _, name := range names {
		if o.has(name) {
			delete(o.of, name)
			o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
		}
	}
}

func (o *object) clone() *object {
	out := newObject()
	for _, name := range o.names {
		out.set(name, o.of[name])
	}
	return out
}

// MarshalJSON writes the members in order, without escapes for HTML, which cost models tokens.
func (o *object) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("{")
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := encode(name)
		if err != nil {
			return nil, err
		}
		value, err := encode(o.of[name])
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxDepth bounds how deeply a schema nests; deeper parts accept anything.
const maxDepth = 100

// parse reads a JSON object.
func parse(raw []byte) (*object, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*object)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return o, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return token, nil
	}
	if depth > 4*maxDepth {
		return nil, errors.New("nested too deeply")
	}
	if delim == '[' {
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	o := newObject()
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.set(name.(string), v)
	}
	_, err = d.Token()
	return o, err
}

// equal reports whether two parts of a schema are the same text.
func equal(a, b any) bool {
	x, err := encode(a)
	y, failed := encode(b)
	return err == nil && failed == nil && bytes.Equal(x, y)
}
