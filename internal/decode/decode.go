// Package decode decodes JSON into plain Go types several times as fast as encoding/json, with the same result. It
// leaves input that it does not certainly handle alike to encoding/json.
package decode

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Into decodes a JSON value into what into points to, which must be zero. Errors are those of encoding/json.
func Into(raw []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		if p := planOf(v.Type().Elem()); p != nil {
			r := reader{raw: raw}
			if r.value(p, v.Elem()) && r.end() {
				return nil
			}
			v.Elem().SetZero()
		}
	}
	return json.Unmarshal(raw, into)
}

// Twice decodes a JSON value into two zero values of the same type that share no mutable memory.
func Twice[T any](raw []byte, a, b *T) error {
	if err := Into(raw, a); err != nil {
		return err
	}
	if p := planOf(reflect.TypeFor[T]()); p != nil {
		p.copy(reflect.ValueOf(b).Elem(), reflect.ValueOf(a).Elem())
		return nil
	}
	return Into(raw, b)
}

// copy makes to, which must be zero, a copy of a decoded value.
func (p *plan) copy(to, from reflect.Value) {
	switch {
	case p.flat:
		to.Set(from)
	case p.kind == reflect.Struct:
		for i := range p.fields {
			f := &p.fields[i]
			f.plan.copy(to.Field(f.index), from.Field(f.index))
		}
	case from.IsNil():
	case p.kind == reflect.Pointer:
		to.Set(reflect.New(p.elem.typ))
		p.elem.copy(to.Elem(), from.Elem())
	case p.kind == reflect.Slice:
		to.Set(reflect.MakeSlice(p.typ, from.Len(), from.Len()))
		if p.elem.flat {
			reflect.Copy(to, from)
			return
		}
		for i := range from.Len() {
			p.elem.copy(to.Index(i), from.Index(i))
		}
	case p.kind == reflect.Map:
		to.Set(reflect.MakeMapWithSize(p.typ, from.Len()))
		for it := from.MapRange(); it.Next(); {
			elem := it.Value()
			if !p.elem.flat {
				elem = reflect.New(p.elem.typ).Elem()
				p.elem.copy(elem, it.Value())
			}
			to.SetMapIndex(it.Key(), elem)
		}
	}
}

// plan describes how values of a type are decoded.
type plan struct {
	kind   reflect.Kind
	flat   bool // values hold no pointers to mutable memory
	typ    reflect.Type
	elem   *plan // of a pointer, slice or map
	fields []field
	byName map[string]int
}

type field struct {
	name  string
	index int
	plan  *plan
}

// maxFields is the maximum number of fields of a struct: the size of a bit set.
const maxFields = 64

var plans sync.Map // of reflect.Type to *plan, nil for a type that is not plain

// planOf returns how a type is decoded; nil if encoding/json must decode it.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := makePlan(t, 0)
	plans.Store(t, p)
	return p
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// maxLevels bounds the nesting of types, because recursive types nest without end.
const maxLevels = 16

func makePlan(t reflect.Type, level int) *plan {
	for _, special := range []reflect.Type{unmarshaler, textUnmarshaler} {
		if t.Implements(special) || reflect.PointerTo(t).Implements(special) {
			return nil
		}
	}
	p := &plan{kind: t.Kind(), typ: t}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if t == reflect.TypeFor[json.Number]() {
			return nil
		}
		p.flat = true
		return p
	case reflect.Map:
		if key := t.Key(); key.Kind() != reflect.String || key.Implements(textUnmarshaler) || reflect.PointerTo(key).Implements(textUnmarshaler) {
			return nil
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // base64
			return nil
		}
	case reflect.Pointer:
	case reflect.Struct:
		if level > maxLevels || !p.addFields(level) {
			return nil
		}
		return p
	default:
		return nil
	}
	if level > maxLevels {
		return nil
	}
	if p.elem = makePlan(t.Elem(), level+1); p.elem == nil {
		return nil
	}
	return p
}

// addFields reports whether all fields are plain.
func (p *plan) addFields(level int) bool {
	p.byName, p.flat = map[string]int{}, true
	for i := range p.typ.NumField() {
		f := p.typ.Field(i)
		if f.Anonymous {
			return false
		}
		tag := f.Tag.Get("json")
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		// encoding/json treats other names in its own way.
		if strings.Contains(options, "string") || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			return false
		}
		inner := makePlan(f.Type, level+1)
		if _, twice := p.byName[name]; inner == nil || twice {
			return false
		}
		p.flat = p.flat && inner.flat
		p.byName[name] = len(p.fields)
		p.fields = append(p.fields, field{name, i, inner})
	}
	return len(p.fields) <= maxFields
}

// reader reads a value once. Its methods report whether the result is certainly that of encoding/json.
type reader struct {
	raw   []byte
	at    int
	level int
}

func (r *reader) next() byte {
	for r.at < len(r.raw) {
		switch c := r.raw[r.at]; c {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) end() bool { return r.next() == 0 && r.at == len(r.raw) }

func (r *reader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

func (r *reader) word(word string) bool {
	if len(r.raw)-r.at < len(word) || string(r.raw[r.at:r.at+len(word)]) != word {
		return false
	}
	r.at += len(word)
	return true
}

// value reads a value into v, which is zero.
func (r *reader) value(p *plan, v reflect.Value) bool {
	c := r.next()
	if c == 'n' { // null leaves v unchanged
		return r.word("null")
	}
	switch p.kind {
	case reflect.Pointer:
		inner := reflect.New(p.elem.typ)
		if !r.value(p.elem, inner.Elem()) {
			return false
		}
		v.Set(inner)
		return true
	case reflect.Struct:
		return r.members(func(name []byte) bool { return r.known(p, v, name) }, p)
	case reflect.Map:
		m := reflect.MakeMap(p.typ)
		keyType := p.typ.Key()
		ok := r.members(func(name []byte) bool {
			elem := reflect.New(p.elem.typ).Elem()
			if !r.value(p.elem, elem) {
				return false
			}
			m.SetMapIndex(reflect.ValueOf(string(name)).Convert(keyType), elem)
			return true
		}, nil)
		v.Set(m)
		return ok
	case reflect.Slice:
		return r.items(p, v)
	case reflect.String:
		text, ok := r.text()
		v.SetString(string(text))
		return ok
	case reflect.Bool:
		v.SetBool(c == 't')
		return r.word("true") || r.word("false")
	}
	return r.number(p, v)
}

// members reads an object. member reads a member's value, and must not retain the name. A struct's names must be
// unique.
func (r *reader) members(member func(name []byte) bool, p *plan) bool {
	if !r.take('{') {
		return false
	}
	if r.take('}') {
		return true
	}
	var met uint64
	for {
		if r.next() != '"' {
			return false
		}
		name, ok := r.text()
		if !ok || !r.take(':') {
			return false
		}
		if p != nil {
			if i, known := p.byName[string(name)]; known {
				if met&(1<<i) != 0 {
					return false
				}
				met |= 1 << i
			}
		}
		if !member(name) {
			return false
		}
		if r.take('}') {
			return true
		}
		if !r.take(',') {
			return false
		}
	}
}

// known decodes a field of a struct, or skips an unknown member.
func (r *reader) known(p *plan, v reflect.Value, name []byte) bool {
	if i, ok := p.byName[string(name)]; ok {
		f := &p.fields[i]
		return r.value(f.plan, v.Field(f.index))
	}
	for i := range p.fields {
		if strings.EqualFold(p.fields[i].name, string(name)) {
			return false
		}
	}
	return r.skip()
}

func (r *reader) items(p *plan, v reflect.Value) bool {
	if !r.take('[') {
		return false
	}
	if r.take(']') {
		v.Set(reflect.MakeSlice(p.typ, 0, 0))
		return true
	}
	for n := 0; ; n++ {
		if n == v.Cap() {
			v.Grow(max(4, n))
		}
		v.SetLen(n + 1)
		item := v.Index(n)
		item.SetZero()
		if !r.value(p.elem, item) {
			return false
		}
		if r.take(']') {
			return true
		}
		if !r.take(',') {
			return false
		}
	}
}

// skip skips a value.
func (r *reader) skip() bool {
	if r.level++; r.level > 1000 {
		return false
	}
	defer func() { r.level-- }()
	switch r.next() {
	case '{':
		return r.members(func([]byte) bool { return r.skip() }, nil)
	case '[':
		r.at++
		if r.take(']') {
			return true
		}
		for r.skip() {
			if r.take(']') {
				return true
			}
			if !r.take(',') {
				return false
			}
		}
		return false
	case '"':
		_, ok := r.text()
		return ok
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	}
	_, _, ok := r.literal()
	return ok
}

// text reads a string. If it has no escapes, the result aliases the input.
func (r *reader) text() ([]byte, bool) {
	if r.next() != '"' {
		return nil, false
	}
	from := r.at
	escaped, ascii := false, true
	for at := from + 1; at < len(r.raw); at++ {
		switch c := r.raw[at]; {
		case c == '"':
			r.at = at + 1
			if !escaped {
				text := r.raw[from+1 : at]
				return text, ascii || utf8.Valid(text)
			}
			var s string
			if json.Unmarshal(r.raw[from:r.at], &s) != nil {
				return nil, false
			}
			return []byte(s), true
		case c == '\\':
			escaped = true
			at++
		case c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// literal reads a number and reports whether it is an integer.
func (r *reader) literal() (text []byte, whole, ok bool) {
	r.next()
	from, at := r.at, r.at
	digits := func() bool {
		begin := at
		for at < len(r.raw) && r.raw[at] >= '0' && r.raw[at] <= '9' {
			at++
		}
		return at > begin
	}
	is := func(list string) bool { return at < len(r.raw) && strings.IndexByte(list, r.raw[at]) >= 0 }
	if is("-") {
		at++
	}
	begin := at
	if !digits() || r.raw[begin] == '0' && at > begin+1 {
		return nil, false, false
	}
	whole = true
	if is(".") {
		at++
		if whole = false; !digits() {
			return nil, false, false
		}
	}
	if is("eE") {
		at++
		if is("+-") {
			at++
		}
		if whole = false; !digits() {
			return nil, false, false
		}
	}
	r.at = at
	return r.raw[from:at], whole, true
}

// number reads a number. If it does not fit, encoding/json decides whether that is an error.
func (r *reader) number(p *plan, v reflect.Value) bool {
	text, whole, ok := r.literal()
	if !ok {
		return false
	}
	switch p.kind {
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(string(text), p.typ.Bits())
		v.SetFloat(f)
		return err == nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(string(text), 10, p.typ.Bits())
		v.SetInt(n)
		return whole && err == nil
	}
	n, err := strconv.ParseUint(string(text), 10, p.typ.Bits())
	v.SetUint(n)
	return whole && err == nil
}
