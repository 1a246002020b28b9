package store

import (
	"context"
	"errors"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Import adds a session tree from the parts of [Export], with the blobs of its workspaces and artifacts. parts are
// ranged over several times, for example by reading a file again. Before the store is changed, all blobs are compared
// with their keys; the error is ErrCorrupt and names one that is missing or damaged. It is ErrInvalid for a store that
// keeps no blobs; other errors come from [driver.Importer].
//
// The sessions bring the counters of their usage. Their usage rows stay with the store that they were committed to, which
// counts them, see [CopyUsage].
//
// The tree is added at once, and its blobs after it. If an equal tree exists, only the blobs that it lacks are added, so
// an Import that was interrupted can be repeated. Parts of earlier versions have no blobs.
func Import(ctx context.Context, to Importer, root string, parts iter.Seq2[*Part, error]) error {
	owner, err := checkFiles(root, parts)
	if err != nil {
		return err
	}
	var blobs Blobs
	if owner != nil {
		p, ok := driver.As[BlobProvider](to)
		if !ok {
			return cairn.Errorf(cairn.ErrInvalid, "session %q has files in blobs, which the target does not keep", root)
		}
		blobs = p.Blobs()
	}
	err = to.Import(ctx, root, withoutFiles(parts, owner != nil))
	if errors.Is(err, cairn.ErrExists) {
		err = existing(ctx, to, root, withoutFiles(parts, owner != nil), err)
	}
	if err != nil || owner == nil {
		return err
	}
	for part, err := range parts {
		if err == nil && len(part.Bytes) > 0 {
			err = putMissing(ctx, blobs, *owner, part.Bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putMissing puts those of some blobs that an owner does not name yet.
func putMissing(ctx context.Context, to Blobs, owner BlobOwner, list [][]byte) error {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = driver.BlobKey(list[i])
	}
	there, err := to.Has(ctx, owner, keys...)
	if err != nil {
		return err
	}
	var missing [][]byte
	for i := range list {
		if !there[i] {
			missing = append(missing, list[i])
		}
	}
	if len(missing) > 0 {
		_, err = to.Put(ctx, owner, missing...)
	}
	return err
}

// existing returns nil if the tree that a store has is that of the parts, or else an error.
func existing(ctx context.Context, to Importer, root string, parts iter.Seq2[*Part, error], conflict error) error {
	if _, err := driver.Load(ctx, to, root); err != nil {
		return conflict // a child or a log of that name is there
	}
	difference, err := compare(root, parts, export(ctx, to, root, false), false)
	if err == nil && difference != "" {
		err = anotherThere(root, difference)
	}
	return err
}

// withoutFiles yields the parts before the blobs, with a head that counts none. Without some, it yields all parts.
func withoutFiles(parts iter.Seq2[*Part, error], some bool) iter.Seq2[*Part, error] {
	if !some {
		return parts
	}
	return func(yield func(*Part, error) bool) {
		for part, err := range parts {
			if err == nil && len(part.Blobs)+len(part.Bytes) > 0 {
				return
			}
			if err == nil && part.Session != nil && part.Session.BlobCount != 0 {
				own, head := *part, *part.Session
				head.BlobCount, own.Session = 0, &head
				part = &own
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// checkFiles checks that the parts of a tree have the blobs that they list, and nothing after them. It returns their
// owner; nil for a tree without blobs, whose other parts are not read.
func checkFiles(root string, parts iter.Seq2[*Part, error]) (*BlobOwner, error) {
	var c *fileCheck
	for part, err := range parts {
		if err != nil {
			return nil, err
		}
		if c == nil {
			head := part.Session
			if head == nil || head.BlobCount == 0 {
				return nil, nil
			}
			owner := driver.OwnerOfBlobs(&head.Row)
			if owner.Root != root {
				return nil, cairn.Invalid("session", "%q must not come before the root %q", head.Row.ID, root)
			}
			c = &fileCheck{owner: owner, count: head.BlobCount}
		}
		if err := c.part(part); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return nil, nil
	}
	return &c.owner, c.end()
}

// fileCheck is the state of a check of a tree's blobs.
type fileCheck struct {
	owner BlobOwner
	count int
	began bool
	// due are the listed blobs whose bytes have not come.
	due []driver.BlobRow
	// listed counts the blobs of all lists.
	listed int
}

func (c *fileCheck) part(p *Part) error {
	if len(p.Blobs)+len(p.Bytes) == 0 {
		if c.began {
			return cairn.Invalid("blobs", "session %q: another part follows them", c.owner.Root)
		}
		return nil
	}
	c.began = true
	c.due, c.listed = append(c.due, p.Blobs...), c.listed+len(p.Blobs)
	keys, err := driver.CheckBlobs(c.owner, p.Bytes)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if len(c.due) == 0 {
			return cairn.Errorf(cairn.ErrCorrupt, "session %q: blob %s is not listed", c.owner.Root, key)
		}
		if due := c.due[0]; key != due.Key || len(p.Bytes[i]) != due.Size {
			return c.missing(due.Key)
		}
		c.due = c.due[1:]
	}
	return nil
}

func (c *fileCheck) missing(key string) error {
	return cairn.Errorf(cairn.ErrCorrupt, "session %q: blob %s is missing or damaged", c.owner.Root, key)
}

// end checks that no blob is missing.
func (c *fileCheck) end() error {
	if len(c.due) > 0 {
		return c.missing(c.due[0].Key)
	}
	if c.listed != c.count {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q: %d blobs of %d are listed", c.owner.Root, c.listed, c.count)
	}
	return nil
}
