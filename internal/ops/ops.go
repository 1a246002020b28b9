// Package ops holds the write language of session state: a short list of operations on a JSON object, how two
// versions of an object become such a list, and a document that applies it at a cost that follows the change.
package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Kind says what an Op does.
type Kind string

const (
	// Append adds Items to the end of the array at Path; a missing or null value counts as an empty array.
	Append Kind = "append"
	// Replace puts Value at Path, creating the objects on the way; the last write wins.
	Replace Kind = "replace"
	// Delete removes the member at Path; a missing member is not an error.
	Delete Kind = "delete"
)

// Op is one write. Path is a JSON Pointer (RFC 6901) whose every token names an object member; "" is the whole
// document, which only Replace may address.
type Op struct {
	Kind  Kind              `json:"op"`
	Path  string            `json:"path"`
	Items []json.RawMessage `json:"items,omitempty"`
	Value json.RawMessage   `json:"value,omitempty"`
}

// Patch is one operation of an RFC 6902 JSON Patch.
type Patch struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Validate reports the first thing wrong with op by itself: its form, and what a session cannot keep, see package limits.
// It does not look at any document.
func (op Op) Validate() error {
	if op.Path != "" && op.Path[0] != '/' {
		return fmt.Errorf("path %q: a JSON Pointer starts with /", op.Path)
	}
	if problem := limits.Text(op.Path); problem != "" {
		return fmt.Errorf("path %.200q %s", op.Path, problem)
	}
	levels := strings.Count(op.Path, "/")
	switch op.Kind {
	case Append:
		if op.Path == "" {
			return fmt.Errorf("append: the whole state is an object, not an array")
		}
		if levels+1 > limits.Depth {
			return fmt.Errorf("append %.200q: is nested more than %d levels deep in the state", op.Path, limits.Depth)
		}
		for i, item := range op.Items {
			if problem := fits(item, levels+1); problem != "" {
				return fmt.Errorf("append %s: item %d %s", op.Path, i, problem)
			}
		}
	case Replace:
		if problem := fits(op.Value, levels); problem != "" {
			return fmt.Errorf("replace %s: the value %s", op.Path, problem)
		}
		if op.Path == "" && kindOf(op.Value) != objectKind {
			return fmt.Errorf("replace: the whole state must be an object")
		}
	case Delete:
		if op.Path == "" {
			return fmt.Errorf("delete: the whole state cannot be deleted")
		}
	default:
		return fmt.Errorf("unknown operation %q", op.Kind)
	}
	return nil
}

// fits returns what is wrong with a value some levels below the top of a document, or "".
func fits(raw json.RawMessage, levels int) string {
	depth, problem := limits.Nested(raw)
	if problem == "" && levels+depth > limits.Depth {
		problem = fmt.Sprintf("is nested more than %d levels deep in the state", limits.Depth)
	}
	return problem
}

// Size returns about how many bytes a document can grow by op, and no fewer.
func (op Op) Size() int {
	n := 64 + 6*len(op.Path) + len(op.Value)
	for _, item := range op.Items {
		n += len(item) + 1
	}
	return n
}

// Diff returns the operations that turn the object before into the object after. Members that are equal as JSON
// values yield nothing, an array that only grew yields an append, objects are compared member by member. An array or
// object that was null or missing counts as empty, so that concurrent writers that both start from nothing can be merged.
func Diff(before, after json.RawMessage) ([]Op, error) {
	a, err := members(before)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	b, err := members(after)
	if err != nil {
		return nil, fmt.Errorf("after: %w", err)
	}
	return diffObjects(nil, "", a, b)
}

func diffObjects(list []Op, path string, a, b map[string]json.RawMessage) ([]Op, error) {
	for _, key := range sortedKeys(b) {
		var err error
		if list, err = diffValues(list, path+"/"+escape(key), a[key], b[key]); err != nil {
			return nil, err
		}
	}
	for _, key := range sortedKeys(a) {
		if _, ok := b[key]; !ok {
			list = append(list, Op{Kind: Delete, Path: path + "/" + escape(key)})
		}
	}
	return list, nil
}

func diffValues(list []Op, path string, a, b json.RawMessage) ([]Op, error) {
	if bytes.Equal(a, b) {
		return list, nil
	}
	was, is := kindOf(a), kindOf(b)
	empty := was == absentKind || was == nullKind
	switch {
	case is == objectKind && (was == objectKind || empty):
		am, err := members(a)
		if err != nil {
			return nil, err
		}
		bm, err := members(b)
		if err != nil {
			return nil, err
		}
		if empty && len(bm) == 0 {
			return append(list, Op{Kind: Replace, Path: path, Value: b}), nil
		}
		return diffObjects(list, path, am, bm)
	case is == arrayKind && (was == arrayKind || empty):
		as, err := elements(a)
		if err != nil {
			return nil, err
		}
		bs, err := elements(b)
		if err != nil {
			return nil, err
		}
		if len(bs) < len(as) || (empty && len(bs) == 0) {
			return append(list, Op{Kind: Replace, Path: path, Value: b}), nil
		}
		for i := range as {
			if !equal(as[i], bs[i]) {
				return append(list, Op{Kind: Replace, Path: path, Value: b}), nil
			}
		}
		if len(bs) > len(as) {
			list = append(list, Op{Kind: Append, Path: path, Items: bs[len(as):]})
		}
		return list, nil
	case equal(a, b):
		return list, nil
	}
	return append(list, Op{Kind: Replace, Path: path, Value: b}), nil
}

type valueKind int

const (
	absentKind valueKind = iota
	nullKind
	objectKind
	arrayKind
	scalarKind
)

func kindOf(raw json.RawMessage) valueKind {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return absentKind
	}
	switch raw[0] {
	case '{':
		return objectKind
	case '[':
		return arrayKind
	case 'n':
		if string(bytes.TrimRight(raw, " \t\r\n")) == "null" {
			return nullKind
		}
	}
	return scalarKind
}

func members(raw json.RawMessage) (map[string]json.RawMessage, error) {
	switch kindOf(raw) {
	case absentKind, nullKind:
		return map[string]json.RawMessage{}, nil
	case objectKind:
		if limits.JSON(raw) == "" {
			return splitObject(raw), nil
		}
		m := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, fmt.Errorf("not a JSON object")
}

func elements(raw json.RawMessage) ([]json.RawMessage, error) {
	switch kindOf(raw) {
	case absentKind, nullKind:
		return nil, nil
	case arrayKind:
		if limits.JSON(raw) == "" {
			return splitArray(raw), nil
		}
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		return list, nil
	}
	return nil, fmt.Errorf("not a JSON array")
}

// equal reports whether two texts are the same JSON value, whatever their white space and member order.
func equal(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ca, errA := Canonical(a)
	cb, errB := Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func escape(token string) string { return escaper.Replace(token) }

// Pointer joins object member names into a JSON Pointer.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(escape(t))
	}
	return b.String()
}

func tokens(path string) []string {
	if path == "" {
		return nil
	}
	parts := strings.Split(path[1:], "/")
	for i, p := range parts {
		if strings.Contains(p, "~") {
			parts[i] = unescaper.Replace(p)
		}
	}
	return parts
}
