package cairn

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/cairn-agents/cairn/internal/decode"
)

// OpKind is the kind of an [Op].
type OpKind string

const (
	// OpAppend appends Items to the array at Path; a missing or null value counts as an empty array.
	OpAppend OpKind = "append"
	// OpReplace sets Path to Value and creates missing objects on the way; the last write wins.
	OpReplace OpKind = "replace"
	// OpDelete removes the member at Path; a missing member is not an error.
	OpDelete OpKind = "delete"
	// OpIncrement adds Value, a number, to the number at Path, so increments by several writers all count. A missing
	// or null value counts as 0, and missing objects on the way are created, as by OpReplace. The sum of two integers
	// is exact and must fit into an int64; any other sum is a float64 and must be finite.
	OpIncrement OpKind = "increment"
)

// Op is one write to a session's state.
type Op struct {
	// Kind is append, replace, delete or increment.
	Kind OpKind `json:"op"`
	// Path is a JSON Pointer (RFC 6901). Each of its tokens names a member of an object; "" is the whole state,
	// which only OpReplace may address.
	Path string `json:"path"`
	// Items are the items that an append adds, as JSON.
	Items []json.RawMessage `json:"items,omitempty"`
	// Value is the new value of a replace or the amount of an increment, as JSON.
	Value json.RawMessage `json:"value,omitempty"`
}

// StateType declares the Go type of an agent's state and the initial state of a new session.
type StateType struct {
	typ     reflect.Type
	initial json.RawMessage
	err     error
}

// StateOf declares S, which must encode to a JSON object, as the type of an agent's state. initial is the state of a
// new session: at most one value; without it, the zero value of S, and an empty object for a map.
func StateOf[S any](initial ...S) *StateType {
	st := &StateType{typ: reflect.TypeFor[S]()}
	var first S
	switch {
	case len(initial) == 1:
		first = initial[0]
	case len(initial) > 1:
		st.err = fmt.Errorf("%d initial states, want at most 1", len(initial))
		return st
	case st.typ.Kind() == reflect.Map:
		first = reflect.MakeMap(st.typ).Interface().(S)
	}
	if st.initial, st.err = encode(first); st.err == nil && !isObject(st.initial) {
		st.err = fmt.Errorf("%T must encode as a JSON object", first)
	}
	return st
}

// encode encodes a value. It recovers from a panic of the value's own method.
func encode(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			raw, err = nil, fmt.Errorf("encode %T: panic: %v", v, p)
		}
	}()
	return json.Marshal(v)
}

// Initial returns the initial state of a new session.
func (t *StateType) Initial() json.RawMessage { return t.initial }

// Check returns an ErrState error if raw cannot be decoded as the state type.
func (t *StateType) Check(raw json.RawMessage) error {
	if err := json.Unmarshal(raw, reflect.New(t.typ).Interface()); err != nil {
		return Errorf(ErrState, "decode state as %s: %w", t.typ, err)
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// Handle gives access to a session's state: a *[Step] or a *[Call].
type Handle interface {
	step() *Step
}

// State returns the session's state as an S. A tool sees the state before its step, with its own updates applied.
// The error is an ErrState error if the stored state cannot be decoded as an S.
func State[S any](h Handle) (S, error) {
	var s S
	raw, err := h.step().env.State()
	if err != nil {
		return s, err
	}
	if err := decode.Into(raw, &s); err != nil {
		return s, Errorf(ErrState, "decode state as %T: %w", s, err)
	}
	return s, nil
}

// UpdateState calls change with a copy of the session's state and records the members that it changed. Members that
// change did not touch are not written, and an array that only grew is appended to, so that parallel tools that append
// to one list all keep their items. Any other changed member is replaced: if parallel calls of a step change the same
// member, the last one in call order wins, even if each only added to a number, and [Event].Conflicts reports it. Use
// [Step.Add] for counters, and [Serial] for tools that must see each other's writes.
//
// The write takes effect when the step is committed. Its cost grows with the size of the state; to make a small change
// to a large state use [Step.Add], [Step.Append] and [Step.Set].
func UpdateState[S any](h Handle, change func(*S)) error {
	raw, err := h.step().env.State()
	if err != nil {
		return err
	}
	var was, given S
	if err := decode.Twice(raw, &was, &given); err != nil {
		return Errorf(ErrState, "decode state as %T: %w", was, err)
	}
	change(&given)
	is := given // a copy: change may have kept the pointer
	narrow(&was, &is)
	before, err := json.Marshal(was)
	if err != nil {
		return Errorf(ErrState, "encode state: %w", err)
	}
	after, err := json.Marshal(is)
	if err != nil {
		return Errorf(ErrState, "encode state: %w", err)
	}
	return h.step().env.Change(before, after)
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// narrow removes what is equal from two states, so that only what may differ is encoded and compared as JSON. It
// zeroes fields in both. Maps are replaced by new ones, since user code may hold the originals. A type that encodes
// itself is left unchanged.
func narrow[S any](was, is *S) {
	t := reflect.TypeFor[S]()
	if t.Implements(marshaler) || t.Implements(textMarshaler) || reflect.PointerTo(t).Implements(marshaler) || reflect.PointerTo(t).Implements(textMarshaler) {
		return
	}
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			x, y := a.Field(i), b.Field(i)
			if t.Field(i).IsExported() && reflect.DeepEqual(x.Interface(), y.Interface()) {
				x.SetZero()
				y.SetZero()
			}
		}
	case reflect.Map:
		if a.IsNil() || b.IsNil() {
			return
		}
		before, after := reflect.MakeMap(t), reflect.MakeMap(t)
		for _, pair := range [...][3]reflect.Value{{a, b, before}, {b, a, after}} {
			for key, x := range pair[0].Seq2() {
				if y := pair[1].MapIndex(key); !y.IsValid() || !reflect.DeepEqual(x.Interface(), y.Interface()) {
					pair[2].SetMapIndex(key, x)
				}
			}
		}
		a.Set(before)
		b.Set(after)
	}
}
