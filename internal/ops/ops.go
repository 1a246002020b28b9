// Package ops defines the operations that change session state: a short list of operations on a JSON object, the
// difference of two objects as such a list, and a document that applies operations at a cost that follows the change.
package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/pointer"
)

// Validate returns the first fault of op by itself: in its form, or a value that a session cannot store, see package
// limits. It does not look at any document.
func Validate(op *cairn.Op) error {
	if op.Path != "" && op.Path[0] != '/' {
		return fmt.Errorf("path %q: a JSON Pointer starts with /", op.Path)
	}
	if problem := limits.Text(op.Path); problem != "" {
		return fmt.Errorf("path %.200q %s", op.Path, problem)
	}
	levels := strings.Count(op.Path, "/")
	switch op.Kind {
	case cairn.OpAppend:
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
	case cairn.OpReplace:
		if problem := fits(op.Value, levels); problem != "" {
			return fmt.Errorf("replace %s: the value %s", op.Path, problem)
		}
		if op.Path == "" && kindOf(op.Value) != objectKind {
			return fmt.Errorf("replace: the whole state must be an object")
		}
	case cairn.OpDelete:
		if op.Path == "" {
			return fmt.Errorf("delete: the whole state cannot be deleted")
		}
	case cairn.OpIncrement:
		if op.Path == "" {
			return fmt.Errorf("increment: the whole state is an object, not a number")
		}
		if problem := fits(op.Value, levels); problem != "" {
			return fmt.Errorf("increment %s: the amount %s", op.Path, problem)
		}
		if _, err := parseNumber(op.Value); err != nil {
			return fmt.Errorf("increment %s: the amount %w", op.Path, err)
		}
	default:
		return fmt.Errorf("unknown operation %q", op.Kind)
	}
	return nil
}

// fits returns what is wrong with a value that is the given number of levels below the top of a document; "" if nothing
// is.
func fits(raw json.RawMessage, levels int) string {
	depth, problem := limits.Nested(raw)
	if problem == "" && levels+depth > limits.Depth {
		problem = fmt.Sprintf("is nested more than %d levels deep in the state", limits.Depth)
	}
	return problem
}

// Size returns an upper bound on the bytes by which op can grow a document.
func Size(op *cairn.Op) int {
	n := 64 + 6*len(op.Path) + len(op.Value)
	for _, item := range op.Items {
		n += len(item) + 1
	}
	return n
}

// Diff returns the operations that turn the object before into the object after. Members that are equal as JSON values
// yield nothing, an array that only grew yields an append, and objects are compared member by member. A null or missing
// array or object counts as empty, so that concurrent writers that both start from nothing can be merged.
func Diff(before, after json.RawMessage) ([]cairn.Op, error) {
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

func diffObjects(list []cairn.Op, path string, a, b map[string]json.RawMessage) ([]cairn.Op, error) {
	for _, key := range sortedKeys(b) {
		var err error
		if list, err = diffValues(list, path+"/"+pointer.Escape(key), a[key], b[key]); err != nil {
			return nil, err
		}
	}
	for _, key := range sortedKeys(a) {
		if _, ok := b[key]; !ok {
			list = append(list, cairn.Op{Kind: cairn.OpDelete, Path: path + "/" + pointer.Escape(key)})
		}
	}
	return list, nil
}

func diffValues(list []cairn.Op, path string, a, b json.RawMessage) ([]cairn.Op, error) {
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
			return append(list, cairn.Op{Kind: cairn.OpReplace, Path: path, Value: b}), nil
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
			return append(list, cairn.Op{Kind: cairn.OpReplace, Path: path, Value: b}), nil
		}
		for i := range as {
			if !Equal(as[i], bs[i]) {
				return append(list, cairn.Op{Kind: cairn.OpReplace, Path: path, Value: b}), nil
			}
		}
		if len(bs) > len(as) {
			list = append(list, cairn.Op{Kind: cairn.OpAppend, Path: path, Items: bs[len(as):]})
		}
		return list, nil
	case Equal(a, b):
		return list, nil
	}
	return append(list, cairn.Op{Kind: cairn.OpReplace, Path: path, Value: b}), nil
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

// Equal reports whether two texts are the same JSON value, regardless of white space and member order.
func Equal(a, b json.RawMessage) bool {
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
