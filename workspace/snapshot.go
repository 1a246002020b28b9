package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// The notes that are kept beside a directory's files.
const (
	// treeNote is the reference of the state that the files are in. A change begins by removing it.
	treeNote = "tree"
	// indexNote is what is known of the files.
	indexNote = "index"
)

// checkout is a directory with the blobs of its snapshots.
type checkout struct {
	dir    Directory
	info   Info
	blobs  driver.Blobs
	owner  driver.BlobOwner
	limits Limits
	index  *index // nil until it is read
}

// index describes the files of a directory as of a snapshot, so that the next one reads only those that have changed since.
// All blobs of its tree are in the store.
type index struct {
	// At is when the snapshot began, in nanoseconds.
	At int64 `json:"at"`
	// Tree has the nodes, and Stamps the stamps of the files, by path.
	Tree   tree              `json:"tree"`
	Stamps map[string]string `json:"stamps,omitempty"`
}

// quiet is how long before a snapshot a file must have been changed for its stamp to count.
const quiet = 2 * time.Second

// has returns the node of a file that has not changed since the snapshot.
func (x *index) has(e *Entry) (node, bool) {
	if e.Stamp == "" || x.Stamps[e.Path] != e.Stamp || e.Changed.IsZero() || e.Changed.UnixNano() > x.At-int64(quiet) {
		return node{}, false
	}
	n, ok := x.Tree[e.Path]
	return n, ok && n.Type == File && n.Size == e.Size && n.Exec == e.Executable
}

// loadIndex reads the index.
func (c *checkout) loadIndex() error {
	if c.index != nil {
		return nil
	}
	data, err := c.dir.Note(indexNote)
	if err != nil {
		return err
	}
	x := &index{}
	if data != nil && json.Unmarshal(data, x) != nil {
		x = &index{} // as if there were none
	}
	c.index = x
	return nil
}

func (c *checkout) saveIndex(x *index) error {
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	c.index = x
	return c.dir.SetNote(indexNote, data)
}

// leftOut counts what a snapshot leaves out.
type leftOut struct{ special, links, names int }

// String describes it for the model; "" for nothing.
func (l leftOut) String() string {
	var list []string
	for _, part := range []struct {
		n    int
		what string
	}{{l.special, "devices, pipes or sockets"}, {l.links, "links that lead out of the workspace"}, {l.names, "entries whose names are not valid text or too long"}} {
		if part.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if list == nil {
		return ""
	}
	return "Snapshots leave out " + strings.Join(list, " and ") + "."
}

// scan describes the files of the directory. If new is not nil, it is called with each chunk of a file that has changed.
// If within is false, the limits of snapshots do not count.
func (c *checkout) scan(ctx context.Context, within bool, chunk func(data []byte) error) (*index, leftOut, error) {
	if err := c.loadIndex(); err != nil {
		return nil, leftOut{}, err
	}
	x := &index{At: time.Now().UnixNano(), Tree: tree{}, Stamps: map[string]string{}}
	var left leftOut
	var total int64
	var changed []Entry
	err := c.dir.Walk(ctx, func(e Entry) error {
		switch {
		case checkPath(e.Path) != nil || !utf8.ValidString(e.Path):
			left.names++
			return nil
		case e.Kind == Special:
			left.special++
			return nil
		case e.Kind == Link && !linkStays(c.info.Root, e.Path, e.Target):
			left.links++
			return nil
		}
		if total += e.Size; within && total > c.limits.SnapshotBytes {
			return tooLarge("more than %d MiB", c.limits.SnapshotBytes>>20)
		}
		if within && len(x.Tree) >= c.limits.SnapshotFiles {
			return tooLarge("more than %d files", c.limits.SnapshotFiles)
		}
		n, known := c.index.has(&e)
		if !known {
			n = node{Type: e.Kind, Exec: e.Executable, Link: e.Target}
		}
		x.Tree[e.Path] = n
		if e.Kind == File {
			x.Stamps[e.Path] = e.Stamp
			if !known {
				changed = append(changed, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, left, err
	}
	for _, e := range changed {
		if !within && e.Size > c.limits.SnapshotBytes {
			x.Tree[e.Path] = node{Type: File, Size: -1} // unlike any file of a snapshot
			continue
		}
		n, err := c.hash(e, chunk)
		if isPathError(err) { // removed since, by a process in the background
			delete(x.Tree, e.Path)
			continue
		}
		if err != nil {
			return nil, left, err
		}
		if total += n.Size - e.Size; within && total > c.limits.SnapshotBytes {
			return nil, left, tooLarge("more than %d MiB", c.limits.SnapshotBytes>>20)
		}
		x.Tree[e.Path] = n
		if err := ctx.Err(); err != nil {
			return nil, left, err
		}
	}
	// An entry whose name is not kept, but which has entries below it, is not in the tree: neither are these.
	maps.DeleteFunc(x.Tree, func(p string, _ node) bool { return !x.Tree.parented(p) })
	return x, left, nil
}

// hash reads a file and returns its node.
func (c *checkout) hash(e Entry, chunk func(data []byte) error) (node, error) {
	n := node{Type: File, Exec: e.Executable}
	f, _, err := c.dir.Open(e.Path)
	if err != nil {
		return n, err
	}
	defer f.Close()
	for most := c.limits.SnapshotBytes + 1; n.Size <= most; {
		data := make([]byte, min(max(e.Size-n.Size, 0)+1, driver.MaxBlob)) // one more, to find the end
		got, err := io.ReadFull(f, data)
		if got < len(data) && err == io.ErrUnexpectedEOF || err == io.EOF {
			err = nil
		}
		if err != nil {
			return n, err
		}
		if got > 0 {
			n.Size += int64(got)
			n.Chunks = append(n.Chunks, driver.BlobKey(data[:got]))
			if chunk != nil {
				if err := chunk(data[:got]); err != nil {
					return n, err
				}
			}
		}
		if got < len(data) {
			return n, nil
		}
		if len(data) < driver.MaxBlob { // it grew while it was read: begin again, with whole chunks
			e.Size = max(2*e.Size, driver.MaxBlob)
			return c.hash(e, chunk)
		}
	}
	return n, tooLarge("more than %d MiB", c.limits.SnapshotBytes>>20)
}

// snapshot stores the files of the directory, and returns the key of the tree.
func (c *checkout) snapshot(ctx context.Context) (root string, left leftOut, err error) {
	if err := c.loadIndex(); err != nil {
		return "", left, err
	}
	up := &upload{c: c, known: c.index.Tree.keys()}
	if len(c.index.Tree) > 0 {
		_, dirs, err := c.index.Tree.encode()
		if err != nil {
			return "", left, err
		}
		for key := range dirs {
			up.known[key] = true
		}
	}
	x, left, err := c.scan(ctx, true, func(data []byte) error { return up.add(ctx, data) })
	if err != nil {
		return "", left, err
	}
	root, dirs, err := x.Tree.encode()
	if err != nil {
		return "", left, err
	}
	for _, data := range dirs {
		if err := up.add(ctx, data); err != nil {
			return "", left, err
		}
	}
	if err := up.flush(ctx); err != nil {
		return "", left, err
	}
	return root, left, c.saveIndex(x)
}

// keys returns the keys of the files' chunks.
func (t tree) keys() map[string]bool {
	known := map[string]bool{}
	for _, n := range t {
		for _, key := range n.Chunks {
			known[key] = true
		}
	}
	return known
}

// upload puts blobs that the store may lack, in batches.
type upload struct {
	c     *checkout
	known map[string]bool
	blobs [][]byte
	bytes int
}

func (u *upload) add(ctx context.Context, data []byte) error {
	key := driver.BlobKey(data)
	if u.known[key] {
		return nil
	}
	if u.bytes+len(data) > driver.MaxBlobsBytes || len(u.blobs) == driver.MaxBlobs {
		if err := u.flush(ctx); err != nil {
			return err
		}
	}
	u.known[key] = true
	u.blobs, u.bytes = append(u.blobs, data), u.bytes+len(data)
	return nil
}

func (u *upload) flush(ctx context.Context) error {
	if len(u.blobs) == 0 {
		return nil
	}
	if _, err := u.c.blobs.Put(ctx, u.c.owner, u.blobs...); err != nil {
		return cairn.Errorf(cairn.AsError(err).Code, "store the snapshot of the workspace: %w", err)
	}
	u.blobs, u.bytes = nil, 0
	return nil
}

// isPathError reports whether an error is about a path of the workspace.
func isPathError(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p)
}
