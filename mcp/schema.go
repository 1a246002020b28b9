package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/schema"
)

// Bounds of a server's schema: its size in bytes, the number of its parts with references followed, and the depth
// of its nesting.
const (
	maxSchema = 64 << 10
	maxParts  = 20_000
	maxNest   = 64
)

// checkSchema returns why a server's schema of arguments cannot be used. It rejects schemas against which a
// validation would take forever: references that lead to themselves without descending into the value, and a few
// that expand to very many parts.
func checkSchema(raw json.RawMessage) error {
	if len(raw) > maxSchema {
		return fmt.Errorf("schema is too large (max %d KiB)", maxSchema>>10)
	}
	if err := cairn.CheckJSON("schema", raw); err != nil {
		return err
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return fmt.Errorf("decode schema: %w", err)
	}
	object, ok := root.(map[string]any)
	if !ok || object["type"] != "object" {
		return fmt.Errorf("schema must describe an object")
	}
	m := measure{root: root, sizes: map[string]int{}}
	if _, err := m.size(root, 0); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if _, err := schema.Parse(raw); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}

// measure counts the parts of a schema with its references followed.
type measure struct {
	root  any
	sizes map[string]int // by reference; -1 while it is being measured
}

func (m *measure) size(v any, depth int) (int, error) {
	if depth > maxNest {
		return 0, fmt.Errorf("is nested more than %d levels deep", maxNest)
	}
	total := 1
	add := func(v any) error {
		n, err := m.size(v, depth+1)
		if total += n; err == nil && total > maxParts {
			err = fmt.Errorf("has more than %d parts", maxParts)
		}
		return err
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			if err := add(v[i]); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		for _, key := range []string{"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor"} {
			if _, there := v[key].(string); there && !(key == "$id" && depth == 0) {
				return 0, fmt.Errorf("has %s, which is not supported", key)
			}
		}
		if ref, ok := v["$ref"].(string); ok {
			n, err := m.refer(ref, depth)
			if total += n; err != nil {
				return 0, err
			}
		}
		for _, part := range v {
			if err := add(part); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

// refer measures the target of a reference.
func (m *measure) refer(ref string, depth int) (int, error) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return 0, fmt.Errorf("refers to another document")
	}
	switch n := m.sizes[ref]; {
	case n < 0:
		return 0, fmt.Errorf("refers to itself")
	case n > 0:
		return n, nil
	}
	target := m.root
	for _, name := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		object, ok := target.(map[string]any)
		if target = object[name]; !ok || target == nil {
			return 0, fmt.Errorf("has an unresolved reference")
		}
	}
	m.sizes[ref] = -1
	n, err := m.size(target, depth+1)
	m.sizes[ref] = n
	return n, err
}
