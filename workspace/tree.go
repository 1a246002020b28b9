package workspace

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// A tree is stored as one blob per directory, which lists its entries by name. So a snapshot after a small change stores
// the changed files and the directories above them.

// node is an entry of a stored directory. Exactly one of its forms is set: a file (Chunks, which an empty file lacks), a
// directory (Dir) or a link (Link).
type node struct {
	Name   string   `json:"name"`
	Type   Kind     `json:"type"`
	Exec   bool     `json:"exec,omitempty"`
	Size   int64    `json:"size,omitempty"`
	Chunks []string `json:"chunks,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Link   string   `json:"link,omitempty"`
}

// same reports whether two nodes are alike, whatever their names.
func (n *node) same(o *node) bool {
	return n.Type == o.Type && n.Exec == o.Exec && n.Size == o.Size && n.Link == o.Link && slices.Equal(n.Chunks, o.Chunks)
}

// tree has the entries of a workspace by path. Directories in it have no Dir until they are encoded.
type tree map[string]node

// encode returns the blobs of the tree's directories by key, and the key of the root.
func (t tree) encode() (root string, blobs map[string][]byte, err error) {
	children := map[string][]node{".": {}}
	for _, p := range slices.Sorted(maps.Keys(t)) {
		n := t[p]
		n.Name = path.Base(p)
		children[path.Dir(p)] = append(children[path.Dir(p)], n)
		if n.Type == Dirs {
			if children[p] == nil {
				children[p] = []node{}
			}
		}
	}
	blobs = map[string][]byte{}
	keys := map[string]string{}
	// In this order each directory comes after those below it.
	for _, dir := range slices.SortedFunc(maps.Keys(children), deeperFirst) {
		list := children[dir]
		slices.SortFunc(list, func(a, b node) int { return strings.Compare(a.Name, b.Name) })
		for i := range list {
			if list[i].Type == Dirs {
				list[i].Dir = keys[path.Join(dir, list[i].Name)]
			}
		}
		data, err := json.Marshal(list)
		if err != nil {
			return "", nil, err
		}
		if len(data) > driver.MaxBlob {
			return "", nil, tooLarge("the directory %q has too many entries", dir)
		}
		keys[dir] = driver.BlobKey(data)
		blobs[keys[dir]] = data
	}
	return keys["."], blobs, nil
}

// deeperFirst orders paths so that each comes after all paths below it.
func deeperFirst(a, b string) int {
	if a == "." || b == "." {
		return strings.Compare(b, a) // "." is before all others by text
	}
	if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// decodeDir returns the entries of a stored directory. The error is ErrCorrupt if no snapshot has stored it.
func decodeDir(dir string, data []byte) (list []node, err error) {
	corrupt := func(format string, args ...any) error {
		return cairn.Errorf(cairn.ErrCorrupt, "stored directory %q: "+format, append([]any{dir}, args...)...)
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, corrupt("%w", err)
	}
	for i := range list {
		n := &list[i]
		if strings.Contains(n.Name, "/") || checkPath(path.Join(dir, n.Name)) != nil || i > 0 && list[i-1].Name >= n.Name {
			return nil, corrupt("invalid name %q", n.Name)
		}
		ok := false
		switch n.Type {
		case File:
			ok = n.Dir == "" && n.Link == "" && n.Size >= 0 && int64(len(n.Chunks)) == (n.Size+driver.MaxBlob-1)/driver.MaxBlob
		case Dirs:
			ok = n.Dir != "" && n.Link == "" && n.Size == 0 && len(n.Chunks) == 0
		case Link:
			ok = n.Dir == "" && n.Link != "" && n.Size == 0 && len(n.Chunks) == 0
		}
		if !ok {
			return nil, corrupt("invalid entry %q", n.Name)
		}
	}
	return list, nil
}

// tooLarge returns an ErrTooLarge error about a workspace.
func tooLarge(format string, args ...any) error {
	return cairn.Errorf(cairn.ErrTooLarge, "the workspace is larger than its snapshots may be: "+format, args...)
}

// parented reports whether the directories above a path are in the tree.
func (t tree) parented(p string) bool {
	for p = path.Dir(p); p != "."; p = path.Dir(p) {
		if t[p].Type != Dirs {
			return false
		}
	}
	return true
}
