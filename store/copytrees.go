package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// copyBatch is how many trees are copied together: they are read together by a [driver.Gatherer], and imported
	// concurrently, so that they can share a flush to disk.
	copyBatch = 64
	// copyBatches is how many batches are copied concurrently, so that some are read while others are written.
	copyBatches = 3
	// maxHeld is the size in JSON up to which a tree that is read by itself is held in memory while it is copied. Larger
	// ones are copied part by part, one tree at a time.
	maxHeld = 256 << 10
	// maxGathered is the size of the trees of a batch that are read together. The others are read one by one.
	maxGathered = 4 << 20
)

// TreeCopy is the outcome of copying a session tree.
type TreeCopy struct {
	// Root is the id of the tree's root.
	Root string
	// Sessions, Messages and Events count the original's sessions, messages and events, as far as they could be read.
	Sessions, Messages int
	Events             int64
	// Blobs counts the blobs of workspaces and artifacts that both stores have afterwards.
	Blobs int
	// Copied is false if an equal tree already exists in the other store, or for an error.
	Copied bool
	// Err is the error that [Copy] returns for the tree; nil if both stores have it.
	Err error

	owner BlobOwner // of its blobs
}

// CopyTrees copies session trees as [Copy] does, many at a time, and yields the outcome of each in the order of roots.
// A tree that cannot be copied is an outcome, and keeps none of the others from being copied. Each tree is imported all
// at once or not at all, so a copy that was interrupted can be repeated: trees that are there already are compared
// only. It ends early with an error of roots, or when ctx is done, after the outcomes of the trees that were copied by
// then, with the error of ctx. If the caller stops, the copies under way are cancelled, and have ended when the
// iterator returns.
func CopyTrees(ctx context.Context, from, to Importer, roots iter.Seq2[string, error]) iter.Seq2[TreeCopy, error] {
	return func(yield func(TreeCopy, error) bool) {
		var working sync.WaitGroup
		defer working.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		next, stop := iter.Pull2(roots)
		defer stop()
		c := newCopier(from, to)
		var under []chan []TreeCopy // batches under way, in order
		var failed error            // of roots
		for more := true; ; {
			for more && len(under) < copyBatches && ctx.Err() == nil {
				var batch []string
				for more && len(batch) < copyBatch {
					var root string
					if root, failed, more = next(); failed != nil {
						more = false
					} else if more {
						batch = append(batch, root)
					}
				}
				done := make(chan []TreeCopy, 1)
				under = append(under, done)
				working.Go(func() { done <- c.trees(ctx, batch) })
			}
			if len(under) == 0 {
				break
			}
			for _, t := range <-under[0] {
				if cut := ctx.Err() != nil && errors.Is(t.Err, ctx.Err()); !cut && !yield(t, nil) {
					return
				}
			}
			under = under[1:]
		}
		if err := cmp.Or(failed, ctx.Err()); err != nil {
			yield(TreeCopy{}, err)
		}
	}
}

// copier copies trees from one store to another. It is safe for concurrent use.
type copier struct {
	from, to Importer
	ttl      bool       // whether TTLs are compared
	large    sync.Mutex // held while a tree is copied that is not held in memory
}

func newCopier(from, to Importer) *copier {
	return &copier{from: from, to: to, ttl: keepTTLs(from, to)}
}

// trees copies a batch of trees.
func (c *copier) trees(ctx context.Context, roots []string) []TreeCopy {
	sources, before := c.gather(ctx, c.from, roots), c.gather(ctx, c.to, roots)
	list, again := make([]TreeCopy, len(roots)), make([]bool, len(roots))
	each(roots, func(i int, root string) {
		t, source := &list[i], sources[root]
		if again[i] = source == nil; again[i] {
			return
		}
		t.Root = root
		if t.Err = t.admit(source.rows, source.log); t.Err != nil {
			return
		}
		if there := before[root]; there != nil {
			t.Err = source.compare(there, true)
			return
		}
		t.Err = c.to.Import(ctx, root, source.all())
		t.Copied, again[i] = t.Err == nil, errors.Is(t.Err, cairn.ErrExists)
	})
	var imported []string
	for i := range list {
		if list[i].Copied {
			imported = append(imported, list[i].Root)
		}
	}
	checking := context.WithoutCancel(ctx) // what was imported is reported
	after := c.gather(checking, c.to, imported)
	each(roots, func(i int, root string) {
		t := &list[i]
		switch result := after[root]; {
		case again[i]: // it was not gathered, here or there
			*t = c.tree(ctx, root)
		case !t.Copied:
		case result != nil:
			t.Err = sources[root].compare(result, false)
		default:
			t.Err = c.check(checking, root, sources[root], false)
		}
		if again[i] {
			return
		}
		c.blobs(checking, t)
		t.Copied = t.Copied && t.Err == nil
	})
	return list
}

// blobs copies the blobs of a tree that both stores have.
func (c *copier) blobs(ctx context.Context, t *TreeCopy) {
	if t.Err == nil {
		t.Blobs, t.Err = copyBlobs(ctx, c.from, c.to, t.owner)
	}
}

// each calls do for each tree of a batch, concurrently.
func each(roots []string, do func(i int, root string)) {
	var working sync.WaitGroup
	for i, root := range roots {
		working.Go(func() { do(i, root) })
	}
	working.Wait()
}

// tree copies one tree.
func (c *copier) tree(ctx context.Context, root string) TreeCopy {
	t := TreeCopy{Root: root}
	source, err := c.hold(ctx, c.from, root, t.admit)
	if err == nil {
		t.Copied, err = c.held(ctx, root, source)
	}
	if errors.Is(err, errLarge) {
		t.Copied, err = c.streamed(ctx, root)
	}
	t.Err = err
	c.blobs(context.WithoutCancel(ctx), &t) // what was imported is reported
	t.Copied = t.Copied && t.Err == nil
	return t
}

// admit notes what a tree has, and refuses one that runs.
func (t *TreeCopy) admit(rows []cairn.Session, log *driver.LogExtent) error {
	t.Sessions, t.Messages, t.Events = len(rows), 0, log.Last-log.First+1
	for i := range rows {
		t.Messages += rows[i].MessageCount
		if rows[i].ID == t.Root {
			t.owner = driver.OwnerOfBlobs(&rows[i])
		}
	}
	return atRest(rows)
}

// held copies a tree from memory.
func (c *copier) held(ctx context.Context, root string, source *heldTree) (copied bool, err error) {
	there, err := driver.Exists(ctx, c.to, root)
	if err == nil && !there {
		err = c.to.Import(ctx, root, source.all())
	}
	if err == nil {
		err = c.check(context.WithoutCancel(ctx), root, source, there) // what was imported is reported
	}
	return !there && err == nil, err
}

// check compares a tree with its copy. there means that the copy is an earlier one.
func (c *copier) check(ctx context.Context, root string, source *heldTree, there bool) error {
	result, err := c.hold(ctx, c.to, root, nil)
	if err != nil {
		return err
	}
	return source.compare(result, there)
}

// streamed copies a tree part by part.
func (c *copier) streamed(ctx context.Context, root string) (copied bool, err error) {
	c.large.Lock()
	defer c.large.Unlock()
	there, err := Copied(ctx, c.from, c.to, root)
	if there || err != nil {
		return false, err
	}
	if err := c.to.Import(ctx, root, export(ctx, c.from, root, false)); err != nil {
		return false, err
	}
	difference, err := Compare(ctx, c.from, c.to, root)
	if err == nil && difference != "" {
		err = badCopy(root, difference)
	}
	return err == nil, err
}

func badCopy(root, difference string) error {
	return cairn.Errorf(cairn.ErrCorrupt, "session %q was copied, but its copy differs in %s", root, difference)
}

// heldTree is a tree in memory.
type heldTree struct {
	root    string
	rows    []cairn.Session
	log     *driver.LogExtent
	parts   []*Part
	encoded [][]byte // the parts in the form in which they are compared; nil for those that are not encoded yet
	size    int      // of encoded
	ttl     bool     // whether TTLs are compared
}

// errLarge reports a tree that is too large to be held.
var errLarge = errors.New("tree is too large to be held in memory")

// add adds a part. Its encoded form, if it is not nil, counts against the size.
func (t *heldTree) add(p *Part, encoded []byte) error {
	if t.size += len(encoded); t.size > maxHeld {
		return errLarge
	}
	if p.Session != nil {
		t.rows = append(t.rows, p.Session.Row)
		if p.Session.Log != nil {
			t.log = p.Session.Log
		}
	}
	t.parts, t.encoded = append(t.parts, p), append(t.encoded, encoded)
	return nil
}

// part returns a part in the form in which it is compared.
func (t *heldTree) part(i int) ([]byte, error) {
	if t.encoded[i] == nil {
		data, err := encode(t.parts[i], t.ttl)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: %w", t.root, err)
		}
		t.encoded[i] = data
	}
	return t.encoded[i], nil
}

// hold reads a tree whole. The error is errLarge for one that is too large.
func (c *copier) hold(ctx context.Context, st Importer, root string, admit func([]cairn.Session, *driver.LogExtent) error) (*heldTree, error) {
	t := &heldTree{root: root, ttl: c.ttl}
	var failed error
	x := exporter{ctx: ctx, st: st, root: root, admit: admit, yield: func(p *Part, _ error) bool {
		var data []byte
		if data, failed = encode(p, c.ttl); failed != nil {
			failed = cairn.Errorf(cairn.ErrCorrupt, "session %q: %w", root, failed)
		} else {
			failed = t.add(p, data)
		}
		return failed == nil
	}}
	err := x.tree()
	if errors.Is(err, errEnough) {
		err = failed
	}
	return t, err
}

// gather reads trees together, if the store can. Those that it does not return must be read one by one.
func (c *copier) gather(ctx context.Context, st Importer, roots []string) map[string]*heldTree {
	g, ok := st.(driver.Gatherer)
	if !ok || len(roots) == 0 {
		return nil
	}
	found, err := g.Gather(ctx, roots, maxGathered)
	if err != nil { // if it is no passing one, each tree meets it again
		return nil
	}
	trees := make(map[string]*heldTree, len(found))
	for root, parts := range found { // all of them together have about maxGathered
		t := &heldTree{root: root, ttl: c.ttl}
		for _, p := range parts {
			_ = t.add(p, nil)
		}
		trees[root] = t
	}
	return trees
}

// all yields the parts of the tree.
func (t *heldTree) all() iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		for _, p := range t.parts {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// compare returns an error if a copy of the tree differs from it.
func (t *heldTree) compare(result *heldTree, there bool) error {
	switch difference, err := t.differs(result); {
	case err != nil:
		return err
	case difference == "":
		return nil
	case there:
		return anotherThere(t.root, difference)
	default:
		return badCopy(t.root, difference)
	}
}

// differs names the first kind of item in which a copy differs; empty if it does not.
func (t *heldTree) differs(other *heldTree) (string, error) {
	for i, p := range t.parts {
		if i == len(other.parts) {
			return kind(p), nil
		}
		if same(p, other.parts[i]) {
			continue
		}
		one, err1 := t.part(i)
		two, err2 := other.part(i)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if !bytes.Equal(one, two) {
			return kind(p), nil
		}
	}
	if len(other.parts) > len(t.parts) {
		return kind(other.parts[len(t.parts)]), nil
	}
	return "", nil
}

// same reports whether two parts are equal in memory, and so in any form. It takes less than to encode them, as long as
// both come from stores that keep the same.
func same(p, other *Part) bool {
	one, two := *p, *other
	if one.Session != nil && two.Session != nil {
		head1, head2 := *one.Session, *two.Session
		head1.Row.AsOf, head2.Row.AsOf = time.Time{}, time.Time{} // when it was read
		one.Session, two.Session = &head1, &head2
	}
	return reflect.DeepEqual(&one, &two)
}
