package workspace

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// The sizes of requests for blobs: of directories, whose sizes are unknown, and of files.
const (
	dirsAtOnce  = 64
	bytesAtOnce = 16 << 20
)

// load returns the tree with a key; an empty key is that of an empty tree. If within is true, the error is ErrTooLarge for
// one that is larger than snapshots may be.
func (c *checkout) load(ctx context.Context, root string, within bool) (tree, error) {
	t := tree{}
	size := int64(0)
	if root == "" {
		return t, nil
	}
	type place struct{ path, key string }
	for next := []place{{".", root}}; len(next) > 0; {
		now := next[:min(len(next), dirsAtOnce)]
		next = next[len(now):]
		var keys []string
		for _, p := range now {
			keys = append(keys, p.key)
		}
		list, err := get(ctx, c.blobs, c.owner, keys...)
		if err != nil {
			return nil, err
		}
		for i, data := range list {
			nodes, err := decodeDir(now[i].path, data)
			if err != nil {
				return nil, err
			}
			for _, n := range nodes {
				p := path.Join(now[i].path, n.Name)
				if n.Type == Dirs {
					next = append(next, place{p, n.Dir})
				}
				n.Name, n.Dir = "", ""
				t[p] = n
				if size += n.Size; within && (len(t) > c.limits.SnapshotFiles || size > c.limits.SnapshotBytes || size < 0) {
					return nil, tooLarge("more than %d files or %d MiB", c.limits.SnapshotFiles, c.limits.SnapshotBytes>>20)
				}
			}
		}
	}
	return t, nil
}

// get returns blobs. The error is ErrNotFound if the owner lacks one.
func get(ctx context.Context, blobs driver.Blobs, owner driver.BlobOwner, keys ...string) ([][]byte, error) {
	list, err := blobs.Get(ctx, owner, keys...)
	if err != nil {
		return nil, cairn.Errorf(cairn.AsError(err).Code, "read the snapshot of the workspace: %w", err)
	}
	for i, data := range list {
		if data == nil {
			return nil, cairn.Errorf(cairn.ErrNotFound, "read the snapshot of the workspace: part %s is missing", keys[i])
		}
	}
	return list, nil
}

// restore makes the files of the directory those of a tree. Files that are alike stay. within is as for load.
func (c *checkout) restore(ctx context.Context, root string, within bool) error {
	want, err := c.load(ctx, root, within)
	if err != nil {
		return err
	}
	have, _, err := c.scan(ctx, false, nil)
	if err != nil {
		return err
	}
	if err := c.clear(ctx, have, want); err != nil {
		return err
	}
	var files []string
	for _, p := range slices.Sorted(maps.Keys(want)) {
		n := want[p]
		if got, ok := have.Tree[p]; ok && got.same(&n) {
			continue
		}
		switch n.Type {
		case Dirs:
			err = c.dir.Mkdir(p)
		case Link:
			err = c.dir.Link(p, n.Link)
		default:
			files = append(files, p)
		}
		if err != nil {
			return err
		}
	}
	if err := c.fetch(ctx, want, files); err != nil {
		return err
	}
	if err := c.dir.Reset(); err != nil {
		return err
	}
	return c.reindex(have, want)
}

// clear removes all entries that are not in the tree, or are there as another kind. Links that change are removed, too.
func (c *checkout) clear(ctx context.Context, have *index, want tree) error {
	var extra []string
	err := c.dir.Walk(ctx, func(e Entry) error {
		n, ok := want[e.Path]
		if !ok || n.Type != e.Kind || e.Kind == Link && n.Link != e.Target {
			extra = append(extra, e.Path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(extra)
	for _, p := range extra { // a directory is before its entries
		if err := c.dir.Remove(p); err != nil {
			return err
		}
		delete(have.Tree, p)
	}
	return nil
}

// fetch writes files of the tree, in batches of requests.
func (c *checkout) fetch(ctx context.Context, want tree, files []string) error {
	for len(files) > 0 {
		var keys []string
		size, n := int64(0), 0
		for ; n < len(files); n++ {
			f := want[files[n]]
			if n > 0 && (size+f.Size > bytesAtOnce || len(keys)+len(f.Chunks) > driver.MaxBlobs) {
				break
			}
			size += f.Size
			keys = append(keys, f.Chunks...)
		}
		if size > bytesAtOnce { // one large file
			if err := c.stream(ctx, files[0], want[files[0]]); err != nil {
				return err
			}
			files = files[1:]
			continue
		}
		chunks, err := get(ctx, c.blobs, c.owner, keys...)
		if err != nil {
			return err
		}
		for _, p := range files[:n] {
			f := want[p]
			var parts []io.Reader
			for range f.Chunks {
				parts = append(parts, bytes.NewReader(chunks[0]))
				chunks = chunks[1:]
			}
			if err := c.dir.Write(p, f.Exec, io.MultiReader(parts...)); err != nil {
				return err
			}
		}
		files = files[n:]
	}
	return nil
}

// stream writes a large file, a chunk at a time.
func (c *checkout) stream(ctx context.Context, name string, f node) error {
	return c.dir.Write(name, f.Exec, &chunkReader{ctx: ctx, c: c, keys: f.Chunks})
}

// chunkReader reads the chunks of a file.
type chunkReader struct {
	ctx  context.Context
	c    *checkout
	keys []string
	rest []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.keys) == 0 {
			return 0, io.EOF
		}
		list, err := get(r.ctx, r.c.blobs, r.c.owner, r.keys[0])
		if err != nil {
			return 0, err
		}
		r.keys, r.rest = r.keys[1:], list[0]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// reindex keeps what is known of the files after a restore.
func (c *checkout) reindex(have *index, want tree) error {
	x := &index{At: have.At, Tree: want, Stamps: map[string]string{}}
	for p, n := range want {
		if n.Type != File {
			continue
		}
		if got, ok := have.Tree[p]; ok && got.same(&n) {
			x.Stamps[p] = have.Stamps[p]
			continue
		}
		e, err := c.dir.Stat(p)
		if err != nil {
			return err
		}
		x.Stamps[p] = e.Stamp
	}
	return c.saveIndex(x)
}
