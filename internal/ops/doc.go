package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/pointer"
)

// Doc is a JSON object that operations are applied to. Parts that no operation has touched stay unparsed, and an append
// does not copy the array that it grows, so a small change of a large document is cheap. Rendering costs the size of
// the document and is cached until the next change. A Doc is not safe for concurrent use.
type Doc struct {
	root  *node
	raw   json.RawMessage // rendered form; nil after a change
	first node            // the initial root
}

// node is either unexpanded (raw is set) or an expanded object or array.
type node struct {
	raw    json.RawMessage
	fields map[string]*node
	items  []json.RawMessage
	array  bool
}

// NewDoc returns the document of a JSON object. Empty input and null are the empty object. It keeps raw without
// copying.
func NewDoc(raw json.RawMessage) (*Doc, error) {
	switch kindOf(raw) {
	case absentKind, nullKind:
		raw = json.RawMessage("{}")
	case objectKind:
		if problem := limits.JSON(raw); problem != "" {
			return nil, errors.New(problem)
		}
	default:
		return nil, fmt.Errorf("not a JSON object")
	}
	d := &Doc{raw: raw, first: node{raw: raw}}
	d.root = &d.first
	return d, nil
}

// Raw returns the document as JSON. Members of changed objects are sorted. The result must not be modified.
func (d *Doc) Raw() json.RawMessage {
	if d.raw == nil {
		var b bytes.Buffer
		d.root.render(&b)
		d.raw = b.Bytes()
	}
	return d.raw
}

// Value returns the value at a path, as JSON; nil if there is none. The result must not be modified.
func (d *Doc) Value(path string) json.RawMessage {
	at := d.root
	for _, name := range pointer.Split(path) {
		if at.expandObject() != nil {
			return nil
		}
		next, ok := at.fields[name]
		if !ok {
			return nil
		}
		at = next
	}
	if at.fields == nil && !at.array {
		return at.raw
	}
	var b bytes.Buffer
	at.render(&b)
	return b.Bytes()
}

// Apply performs all operations in order, or none, and returns them as a JSON Patch of the document before the call. It
// returns an error for an operation that does not fit, such as a member of a scalar or an append to something that is
// not an array.
func (d *Doc) Apply(list []cairn.Op) ([]cairn.PatchOp, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var undo []func()
	patch := make([]cairn.PatchOp, 0, len(list))
	for _, op := range list {
		p, err := d.apply(op, &undo)
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
			return nil, err
		}
		patch = append(patch, p...)
	}
	if len(undo) > 0 {
		d.raw = nil
	}
	return patch, nil
}

func (d *Doc) apply(op cairn.Op, undo *[]func()) ([]cairn.PatchOp, error) {
	if err := Validate(&op); err != nil {
		return nil, err
	}
	if op.Path == "" {
		old := d.root
		*undo = append(*undo, func() { d.root = old })
		d.root = &node{raw: op.Value}
		return []cairn.PatchOp{{Op: "replace", Path: "", Value: op.Value}}, nil
	}
	path := pointer.Split(op.Path)
	parent, patch, err := d.parent(path, op.Kind != cairn.OpDelete, undo)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", op.Kind, op.Path, err)
	}
	if parent == nil { // a delete below a missing member
		return nil, nil
	}
	key := path[len(path)-1]
	old, exists := parent.fields[key]
	restore := func() {
		if exists {
			parent.fields[key] = old
		} else {
			delete(parent.fields, key)
		}
	}
	switch op.Kind {
	case cairn.OpReplace:
		*undo = append(*undo, restore)
		parent.fields[key] = &node{raw: op.Value}
		verb := "add"
		if exists {
			verb = "replace"
		}
		return append(patch, cairn.PatchOp{Op: verb, Path: op.Path, Value: op.Value}), nil
	case cairn.OpDelete:
		if !exists {
			return nil, nil
		}
		*undo = append(*undo, restore)
		delete(parent.fields, key)
		return []cairn.PatchOp{{Op: "remove", Path: op.Path}}, nil
	case cairn.OpIncrement:
		verb, sum := "add", op.Value
		if exists {
			verb = "replace"
			if old.kind() != nullKind {
				if sum, err = old.plus(op.Value); err != nil {
					return nil, fmt.Errorf("increment %s: %w", op.Path, err)
				}
			}
		}
		*undo = append(*undo, restore)
		parent.fields[key] = &node{raw: sum}
		return append(patch, cairn.PatchOp{Op: verb, Path: op.Path, Value: sum}), nil
	}

	if !exists || old.kind() == nullKind {
		*undo = append(*undo, restore)
		parent.fields[key] = &node{array: true, items: slices.Clone(op.Items)}
		verb := "add"
		if exists {
			verb = "replace"
		}
		return append(patch, cairn.PatchOp{Op: verb, Path: op.Path, Value: renderItems(op.Items)}), nil
	}
	return old.extend(op, patch, undo)
}

// extend appends the items of an operation to an array, and an addition for each to the patch.
func (n *node) extend(op cairn.Op, patch []cairn.PatchOp, undo *[]func()) ([]cairn.PatchOp, error) {
	if err := n.expandArray(); err != nil {
		return nil, fmt.Errorf("append %s: %w", op.Path, err)
	}
	size := len(n.items)
	*undo = append(*undo, func() { n.items = n.items[:size] })
	n.items = append(n.items, op.Items...)
	for _, item := range op.Items {
		patch = append(patch, cairn.PatchOp{Op: "add", Path: op.Path + "/-", Value: item})
	}
	return patch, nil
}

// parent walks to the object that holds the last token of path. If create is set, it adds missing objects, and lists
// each in the patch.
func (d *Doc) parent(path []string, create bool, undo *[]func()) (*node, []cairn.PatchOp, error) {
	var patch []cairn.PatchOp
	at := d.root
	for i := 0; ; i++ {
		if err := at.expandObject(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", pointer.Join(path[:i]...), err)
		}
		if i == len(path)-1 {
			return at, patch, nil
		}
		next, ok := at.fields[path[i]]
		if !ok || next.kind() == nullKind {
			if !create {
				return nil, nil, nil
			}
			holder, key, old := at, path[i], next
			*undo = append(*undo, func() {
				if ok {
					holder.fields[key] = old
				} else {
					delete(holder.fields, key)
				}
			})
			next = &node{fields: map[string]*node{}}
			at.fields[key] = next
			verb := "add"
			if ok {
				verb = "replace"
			}
			patch = append(patch, cairn.PatchOp{Op: verb, Path: pointer.Join(path[:i+1]...), Value: json.RawMessage("{}")})
		}
		at = next
	}
}

func (n *node) kind() valueKind {
	switch {
	case n.fields != nil:
		return objectKind
	case n.array:
		return arrayKind
	}
	return kindOf(n.raw)
}

func (n *node) expandObject() error {
	if n.fields != nil {
		return nil
	}
	if n.kind() != objectKind {
		return fmt.Errorf("not an object")
	}
	raw, err := members(n.raw)
	if err != nil {
		return err
	}
	n.fields = make(map[string]*node, len(raw))
	for k, v := range raw {
		n.fields[k] = &node{raw: v}
	}
	n.raw = nil
	return nil
}

func (n *node) expandArray() error {
	if n.array {
		return nil
	}
	if n.kind() != arrayKind {
		return fmt.Errorf("not an array")
	}
	items, err := elements(n.raw)
	if err != nil {
		return err
	}
	n.items, n.array, n.raw = items, true, nil
	return nil
}

func (n *node) render(b *bytes.Buffer) {
	switch {
	case n.fields != nil:
		b.WriteByte('{')
		for i, key := range sortedKeys(n.fields) {
			if i > 0 {
				b.WriteByte(',')
			}
			name, _ := json.Marshal(key)
			b.Write(name)
			b.WriteByte(':')
			n.fields[key].render(b)
		}
		b.WriteByte('}')
	case n.array:
		b.Write(renderItems(n.items))
	default:
		b.Write(n.raw)
	}
}

func renderItems(items []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// Fold applies a list of operation lists, oldest first, to a document and returns the result.
func Fold(raw json.RawMessage, changes ...[]cairn.Op) (json.RawMessage, error) {
	d, err := NewDoc(raw)
	if err != nil {
		return nil, err
	}
	for _, list := range changes {
		if _, err := d.Apply(list); err != nil {
			return nil, err
		}
	}
	return d.Raw(), nil
}
