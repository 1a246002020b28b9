package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// checkRefs rejects schemas whose references would make a validator loop: those that lead back to themselves without
// descending into the value. It accepts only references whose target it can resolve, so it also rejects $id below the
// top, and dynamic references.
func checkRefs(raw json.RawMessage) error {
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return err
	}
	g := refGraph{root: root, state: map[string]visit{}}
	return g.walk("", root)
}

// visit is the state of a place in the search for a cycle.
type visit int

const (
	underWay visit = iota + 1
	done
)

type refGraph struct {
	root  any
	state map[string]visit // by JSON Pointer
}

// walk visits every place of the document.
func (g *refGraph) walk(at string, node any) error {
	switch node := node.(type) {
	case map[string]any:
		if _, nested := node["$id"].(string); nested && at != "" {
			return errors.New("$id below the top is not supported")
		}
		if err := g.follow(at, node); err != nil {
			return err
		}
		for key, inner := range node {
			if err := g.walk(at+"/"+escape(key), inner); err != nil {
				return err
			}
		}
	case []any:
		for i, inner := range node {
			if err := g.walk(at+"/"+strconv.Itoa(i), inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow walks from a schema to all schemas that apply to the same value, and reports a cycle.
func (g *refGraph) follow(at string, node any) error {
	s, ok := node.(map[string]any)
	if !ok || g.state[at] == done {
		return nil
	}
	if g.state[at] == underWay {
		return fmt.Errorf("the schema at %q refers to itself", "#"+at)
	}
	g.state[at] = underWay
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		for i, inner := range list {
			if err := g.follow(at+"/"+key+"/"+strconv.Itoa(i), inner); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		if err := g.follow(at+"/"+key, s[key]); err != nil {
			return err
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		byName, _ := s[key].(map[string]any)
		for name, inner := range byName {
			if err := g.follow(at+"/"+key+"/"+escape(name), inner); err != nil {
				return err
			}
		}
	}
	if _, dynamic := s["$dynamicRef"].(string); dynamic {
		return errors.New("$dynamicRef is not supported")
	}
	if ref, ok := s["$ref"].(string); ok {
		place, target, err := g.target(ref)
		if err != nil {
			return err
		}
		if err := g.follow(place, target); err != nil {
			return err
		}
	}
	g.state[at] = done
	return nil
}

// target resolves a reference within the document.
func (g *refGraph) target(ref string) (place string, node any, err error) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if pointer, err := url.PathUnescape(fragment); ok && err == nil && (pointer == "" || pointer[0] == '/') {
		node, ok = g.root, true
		for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			if pointer == "" {
				break
			}
			key := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
			switch at := node.(type) {
			case map[string]any:
				node, ok = at[key]
			case []any:
				i, err := strconv.Atoi(key)
				if ok = err == nil && i >= 0 && i < len(at); ok {
					node = at[i]
				}
			default:
				ok = false
			}
			if !ok {
				break
			}
			place += "/" + escape(key)
		}
		if ok {
			return place, node, nil
		}
	}
	return "", nil, fmt.Errorf("reference %q: only references to a place in the same schema are supported", ref)
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
