package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// Reader reads the files of sessions' workspaces from their snapshots in a store, without the directories. It is safe for
// concurrent use. A [Workspace] is one as well; Reader is for programs without the agents.
type Reader struct{ blobs driver.Blobs }

var _, _ cairn.WorkspaceReader = (*Reader)(nil), (*Workspace)(nil)

// NewReader returns a reader of the snapshots in a store. The error is ErrInvalid if the store keeps no blobs.
func NewReader(st driver.Store) (*Reader, error) {
	blobs, err := driver.BlobsOf(st)
	if err != nil {
		return nil, err
	}
	return &Reader{blobs}, nil
}

// Name implements [cairn.WorkspaceReader].
func (r *Reader) Name() string { return toolsetName }

// Files implements [cairn.WorkspaceReader]. It reads the directories that it comes to.
func (r *Reader) Files(ctx context.Context, s *cairn.Session, state cairn.WorkspaceState, prefix, after string) iter.Seq2[cairn.WorkspaceFile, error] {
	return func(yield func(cairn.WorkspaceFile, error) bool) {
		from, root, err := r.stored(ctx, s, state)
		x := walk{stored: from, prefix: prefix, yield: yield}
		if after != "" {
			x.after = strings.Split(after, "/")
		}
		if err == nil && root != "" {
			err = x.dir(".", root)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(cairn.WorkspaceFile{}, err)
		}
	}
}

// Open implements [cairn.WorkspaceReader].
func (r *Reader) Open(ctx context.Context, s *cairn.Session, state cairn.WorkspaceState, name string) (*cairn.WorkspaceFile, io.ReadSeeker, error) {
	if err := checkPath(name); err != nil {
		return nil, nil, err
	}
	missing := &cairn.Error{Code: cairn.ErrNotFound, Field: "path", Message: fmt.Sprintf("file %q not found in the workspace", name)}
	from, key, err := r.stored(ctx, s, state)
	if err != nil {
		return nil, nil, err
	}
	var n node
	for dir, elements := ".", strings.Split(name, "/"); ; dir = path.Join(dir, n.Name) {
		if key == "" {
			return nil, nil, missing
		}
		list, err := from.nodes(dir, key)
		if err != nil {
			return nil, nil, err
		}
		at, found := slices.BinarySearchFunc(list, elements[0], func(n node, name string) int { return strings.Compare(n.Name, name) })
		if !found {
			return nil, nil, missing
		}
		n = list[at]
		if elements = elements[1:]; len(elements) == 0 {
			break
		}
		key = n.Dir
	}
	f := n.file(name)
	if n.Type != File {
		return nil, nil, cairn.Invalid("path", "%q is a %s, not a file", name, f.Type)
	}
	owner, err := from.ownerOf(n.Chunks)
	if err != nil {
		return nil, nil, err
	}
	return &f, driver.NewBlobReader(ctx, r.blobs, owner, n.Chunks, n.Size, fmt.Sprintf("file %q of the workspace of session %q", name, s.ID)), nil
}

// Files implements [cairn.WorkspaceReader].
func (w *Workspace) Files(ctx context.Context, s *cairn.Session, state cairn.WorkspaceState, prefix, after string) iter.Seq2[cairn.WorkspaceFile, error] {
	return (&Reader{w.blobs}).Files(ctx, s, state, prefix, after)
}

// Open implements [cairn.WorkspaceReader].
func (w *Workspace) Open(ctx context.Context, s *cairn.Session, state cairn.WorkspaceState, path string) (*cairn.WorkspaceFile, io.ReadSeeker, error) {
	return (&Reader{w.blobs}).Open(ctx, s, state, path)
}

// stored returns the stored tree of a state, and the key of its tree; "" for an empty workspace.
func (r *Reader) stored(ctx context.Context, s *cairn.Session, state cairn.WorkspaceState) (stored, string, error) {
	text := state.Ref
	if text == "" && state.Pinned != nil {
		var p pinned
		if err := json.Unmarshal(state.Pinned, &p); err != nil {
			return stored{}, "", cairn.Errorf(cairn.ErrCorrupt, "the pinned offer of the workspace: %w", err)
		}
		text = p.Base
	}
	ref, err := parseReference(text)
	from := stored{ctx: ctx, blobs: r.blobs, owner: driver.OwnerOfBlobs(s)}
	if ref.owner.Tenant() == from.owner.Tenant() {
		from.made = ref.owner
	}
	return from, ref.root, err
}

// file describes a node at a path.
func (n *node) file(at string) cairn.WorkspaceFile {
	f := cairn.WorkspaceFile{Path: at, Size: n.Size, Executable: n.Exec, Target: n.Link}
	switch n.Type {
	case File:
		f.Type, f.Version = cairn.WorkspaceRegular, ids.Derive("file", n.Chunks...)
	case Dirs:
		f.Type = cairn.WorkspaceDirectory
	default:
		f.Type = cairn.WorkspaceLink
	}
	return f
}

// stored reads the directories of a tree.
type stored struct {
	ctx   context.Context // of one call
	blobs driver.Blobs
	owner driver.BlobOwner
	// made is the owner in the tenant that has stored the tree; zero if it is unknown. It has the blobs of a branch that were
	// not named for the branch, since its process was killed.
	made driver.BlobOwner
}

func (r *stored) nodes(dir, key string) ([]node, error) {
	list, err := get(r.ctx, r.blobs, r.owner, key)
	if errors.Is(err, cairn.ErrNotFound) && r.made.Root != "" {
		list, err = get(r.ctx, r.blobs, r.made, key)
	}
	if errors.Is(err, cairn.ErrNotFound) {
		err = cairn.Errorf(cairn.ErrCorrupt, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	return decodeDir(dir, list[0])
}

// ownerOf returns the owner of the blobs of a file.
func (r *stored) ownerOf(keys []string) (driver.BlobOwner, error) {
	has, err := r.blobs.Has(r.ctx, r.owner, keys...)
	if err == nil && slices.Contains(has, false) && r.made.Root != "" {
		return r.made, nil
	}
	return r.owner, err
}

// walk yields the entries of a tree.
type walk struct {
	stored
	prefix string
	after  []string // the elements of the path up to which entries are left out
	yield  func(cairn.WorkspaceFile, error) bool
}

// dir yields the entries below a directory.
func (x *walk) dir(at, key string) error {
	list, err := x.nodes(at, key)
	if err != nil {
		return err
	}
	for i := range list {
		n := &list[i]
		p := path.Join(at, n.Name)
		if err := x.ctx.Err(); err != nil {
			return err
		}
		// Paths are in the order of their elements: "a", "a/c", "a-b".
		order := slices.Compare(strings.Split(p, "/"), x.after)
		within := len(x.after) > 0 && strings.HasPrefix(strings.Join(x.after, "/")+"/", p+"/")
		if order < 0 && !within {
			continue
		}
		if order > 0 && strings.HasPrefix(p, x.prefix) && !x.yield(n.file(p), nil) {
			return errEnough
		}
		if n.Type == Dirs && (strings.HasPrefix(p, x.prefix) || strings.HasPrefix(x.prefix, p+"/")) {
			if err := x.dir(p, n.Dir); err != nil {
				return err
			}
		}
	}
	return nil
}
