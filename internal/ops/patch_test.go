package ops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
)

// applyPatch applies a JSON Patch to a document by RFC 6902, as far as ops uses it: add, replace and remove. It shares
// no code with the package.
func applyPatch(doc json.RawMessage, patch []cairn.PatchOp) (json.RawMessage, error) {
	tree, err := decode(doc)
	if err != nil {
		return nil, err
	}
	for i, p := range patch {
		if tree, err = applyOne(tree, p); err != nil {
			return nil, fmt.Errorf("operation %d, %s %q: %w", i, p.Op, p.Path, err)
		}
	}
	return json.Marshal(tree)
}

func applyOne(tree any, p cairn.PatchOp) (any, error) {
	var value any
	if p.Op != "remove" {
		var err error
		if value, err = decode(p.Value); err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
	}
	if p.Path == "" {
		if p.Op == "remove" {
			return nil, fmt.Errorf("removes the whole document")
		}
		return value, nil
	}
	if p.Path[0] != '/' {
		return nil, fmt.Errorf("not a pointer")
	}
	var path []string
	for token := range strings.SplitSeq(p.Path[1:], "/") {
		path = append(path, strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
	}
	return applyAt(tree, path, p.Op, value)
}

// applyAt returns at with the operation applied at the end of path.
func applyAt(at any, path []string, op string, value any) (any, error) {
	key := path[0]
	if len(path) > 1 {
		inner, err := get(at, key)
		if err != nil {
			return nil, err
		}
		if value, err = applyAt(inner, path[1:], op, value); err != nil {
			return nil, err
		}
		op = "replace"
	}
	switch at := at.(type) {
	case map[string]any:
		if _, there := at[key]; !there && op != "add" {
			return nil, fmt.Errorf("no member %q", key)
		}
		if op == "remove" {
			delete(at, key)
		} else {
			at[key] = value
		}
		return at, nil
	case []any:
		if key == "-" && op == "add" {
			return append(at, value), nil
		}
		i, err := strconv.Atoi(key)
		if err != nil || i >= len(at) || op != "replace" {
			return nil, fmt.Errorf("no %s at item %q", op, key)
		}
		at[i] = value
		return at, nil
	}
	return nil, fmt.Errorf("%q is in a scalar", key)
}

func get(at any, key string) (any, error) {
	m, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%q is not in an object", key)
	}
	v, ok := m[key]
	if !ok {
		return nil, fmt.Errorf("no member %q", key)
	}
	return v, nil
}

func decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// equal reports whether two texts are the same JSON value.
func equal(a, b json.RawMessage) bool {
	x, errA := decode(a)
	y, errB := decode(b)
	return errA == nil && errB == nil && reflect.DeepEqual(x, y)
}
