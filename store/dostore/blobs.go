package dostore

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Blobs returns the store's blobs. Each session tree has a copy of its blobs in its own object, with these rows:
//
//	owner tree,      key blobs  the [blobState], if the tree has blobs
//	owner blob,      key KEY    the size of a blob
//	owner blob data, key KEY    its bytes, in base 64 without padding
//
// A blob whose name is dropped is deleted at once, so sweeps find nothing to delete. Name copies blobs of another tree in
// several writes, so some may be named if it fails.
func (s *Store) Blobs() driver.Blobs { return (*blobs)(s) }

var _ driver.BlobProvider = (*Store)(nil)

// blobs is the store as driver.Blobs.
type blobs Store

const (
	blobsKey   = "blobs"
	ofBlob     = "blob"
	ofBlobData = "blob data"

	// ownersOfBlobs is the list of owners in the directory.
	ownersOfBlobs = "owners of blobs"
)

// blobState says which incarnation of a tree has blobs, and how many.
type blobState struct {
	Incarnation string `json:"incarnation,omitempty"`
	Count       int    `json:"count"`
}

func sourceOfBlobs(root string) string { return "blobs/" + root }

// named is which of some keys an owner names, as of a version of the state.
type named struct {
	state   blobState
	version int64
	sizes   map[string]int // of those keys that the owner names
}

// names asks for the state of a tree and for the names of keys.
func names(keys []string) []ask {
	asks := []ask{get(ofTree, blobsKey)}
	for _, key := range keys {
		asks = append(asks, get(ofBlob, key))
	}
	return asks
}

// namedIn decodes the answer to [names], whose parts begin at an index.
func namedIn(a *answer, first int, owner driver.BlobOwner, keys []string) (*named, error) {
	n := &named{sizes: map[string]int{}}
	r, err := a.one(first)
	if err != nil || r == nil {
		return n, err
	}
	n.version = r.version
	if err := backend.DecodeJSON("state of blobs", r.value, &n.state); err != nil || n.state.Incarnation != owner.Incarnation {
		return n, err
	}
	for i, key := range keys {
		r, err := a.one(first + 1 + i)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		row, err := blobRow(r)
		if err != nil {
			return nil, err
		}
		n.sizes[key] = row.Size
	}
	return n, nil
}

func blobRow(r *row) (driver.BlobRow, error) {
	row := driver.BlobRow{Key: r.key}
	return row, backend.DecodeJSON("size of a blob", r.value, &row.Size)
}

// named reads which of some keys an owner names.
func (m *blobs) named(ctx context.Context, owner driver.BlobOwner, keys []string) (*named, error) {
	a, err := m.tree(owner.Root).call(ctx, &request{Op: "read", Ask: names(keys)})
	if err != nil {
		return nil, err
	}
	return namedIn(a, 0, owner, keys)
}

// blobs adds the state of a tree after a change of the number of its blobs, for the object and for the directory.
func (r *rows) blobs(owner driver.BlobOwner, count int) {
	item := shared{Source: sourceOfBlobs(owner.Root)}
	if count == 0 {
		r.Clear = append(r.Clear, only(ofTree, blobsKey))
	} else {
		text := r.put(ofTree, blobsKey, "state of blobs", blobState{owner.Incarnation, count})
		item.Value, item.Lists = &text, [][2]string{{ownersOfBlobs, owner.Text()}}
	}
	r.Share = append(r.Share, item)
}

// Put implements driver.Blobs. It sends the blobs that the owner lacks, in one write.
func (m *blobs) Put(ctx context.Context, owner driver.BlobOwner, list ...[]byte) ([]string, error) {
	keys, err := driver.CheckBlobs(owner, list)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for i, key := range keys {
		if _, ok := texts[key]; !ok {
			texts[key] = base64.RawStdEncoding.EncodeToString(list[i])
		}
	}
	for {
		f, err := m.open(ctx, owner.Root, append(names(keys), get(ofTree, "members"))...)
		switch {
		case err != nil:
			return nil, err
		case f.root != owner.Root || f.head.Row.Incarnation != owner.Incarnation:
			return nil, driver.NotFound(owner.Root)
		}
		n, err := namedIn(f.a, 1, owner, keys)
		if err != nil {
			return nil, err
		}
		members, err := f.a.one(2 + len(keys))
		if err != nil {
			return nil, err
		}
		if members == nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "the tree of session %q lists no sessions", owner.Root)
		}
		r := &rows{}
		r.expect(ofTree, "life", f.life.version)
		r.expect(ofTree, "members", members.version) // a tree that was purged has none
		r.expect(ofTree, blobsKey, n.version)
		count := n.state.Count
		for key, text := range texts {
			if _, ok := n.sizes[key]; ok {
				continue
			}
			count++
			r.put(ofBlob, key, "size of a blob", base64.RawStdEncoding.DecodedLen(len(text)))
			r.text(ofBlobData, key, text)
		}
		if count == n.state.Count {
			return keys, nil
		}
		r.blobs(owner, count)
		if r.err != nil {
			return nil, r.err
		}
		refused, _, err := f.link.write(ctx, fixed(&r.request))
		if err != nil {
			return nil, err
		}
		if refused == nil {
			return keys, nil
		}
	}
}

// Get implements driver.Blobs.
func (m *blobs) Get(ctx context.Context, owner driver.BlobOwner, keys ...string) ([][]byte, error) {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return nil, err
	}
	out := make([][]byte, 0, len(keys))
	for len(out) < len(keys) {
		asks := []ask{get(ofTree, blobsKey)}
		for _, key := range keys[len(out):] {
			data := only(ofBlobData, key)
			asks = append(asks, scan(data[0], data[1], data[2])) // only scans are cut
		}
		a, err := m.tree(owner.Root).call(ctx, &request{Op: "read", Ask: asks, Most: readAtOnce})
		if err != nil {
			return nil, err
		}
		n, err := namedIn(a, 0, owner, nil)
		if err != nil {
			return nil, err
		}
		if len(a.Rows) < 2 {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "the object answered no part of a read of blobs")
		}
		for i := 1; i < len(a.Rows); i++ {
			found, err := a.all(i)
			if err != nil {
				return nil, err
			}
			var blob []byte
			if len(found) > 0 && n.version != 0 && n.state.Incarnation == owner.Incarnation {
				if blob, err = base64.RawStdEncoding.AppendDecode([]byte{}, []byte(found[0].value)); err != nil {
					return nil, cairn.Errorf(cairn.ErrCorrupt, "invalid stored blob %s: %w", found[0].key, err)
				}
			}
			out = append(out, blob)
		}
	}
	return out, nil
}

// Has implements driver.Blobs.
func (m *blobs) Has(ctx context.Context, owner driver.BlobOwner, keys ...string) ([]bool, error) {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return nil, err
	}
	n, err := m.named(ctx, owner, keys)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(keys))
	for i, key := range keys {
		_, out[i] = n.sizes[key]
	}
	return out, nil
}

// Name implements driver.Blobs.
func (m *blobs) Name(ctx context.Context, from, to driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobNames(from, to, keys); err != nil {
		return err
	}
	n, err := m.named(ctx, from, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, ok := n.sizes[key]; !ok {
			return driver.BlobNotFound(from, key)
		}
	}
	if from == to || len(keys) == 0 {
		_, err := m.Put(ctx, to)
		return err
	}
	rows := make([]driver.BlobRow, 0, len(n.sizes))
	for key, size := range n.sizes {
		rows = append(rows, driver.BlobRow{Key: key, Size: size})
	}
	for list := range driver.BlobGroups(rows) {
		found, err := m.Get(ctx, from, list...)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(found, func(b []byte) bool { return b == nil }); i >= 0 {
			return driver.BlobNotFound(from, list[i])
		}
		if _, err := m.Put(ctx, to, found...); err != nil {
			return err
		}
	}
	return nil
}

// Drop implements driver.Blobs.
func (m *blobs) Drop(ctx context.Context, owner driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	for {
		n, err := m.named(ctx, owner, keys)
		if err != nil || len(n.sizes) == 0 {
			return err
		}
		r := &rows{}
		r.expect(ofTree, blobsKey, n.version)
		for key := range n.sizes {
			r.Clear = append(r.Clear, only(ofBlob, key), only(ofBlobData, key))
		}
		r.blobs(owner, n.state.Count-len(n.sizes))
		if r.err != nil {
			return r.err
		}
		refused, _, err := m.tree(owner.Root).write(ctx, fixed(&r.request))
		if err != nil || refused == nil {
			return err
		}
	}
}

// purgeBlobs adds the end of all blobs of a tree.
func (r *rows) purgeBlobs(root string) {
	r.Clear = append(r.Clear, [3]string{ofBlob, "", behind}, [3]string{ofBlobData, "", behind})
	r.Share = append(r.Share, shared{Source: sourceOfBlobs(root)})
}

// List implements driver.Blobs.
func (m *blobs) List(ctx context.Context, owner driver.BlobOwner, q driver.BlobQuery) (page driver.Page[driver.BlobRow], err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	from := ""
	if q.Cursor != "" {
		if driver.CheckBlobKeys(owner, []string{q.Cursor}) != nil {
			return page, q.Foreign()
		}
		from = q.Cursor + "\x00"
	}
	listed := scan(ofBlob, from, behind)
	listed.Limit = driver.PageSize(q.Limit) + 1
	a, err := m.tree(owner.Root).call(ctx, &request{Op: "read", Ask: []ask{get(ofTree, blobsKey), listed}})
	if err != nil {
		return page, err
	}
	n, err := namedIn(a, 0, owner, nil)
	if err != nil || n.version == 0 || n.state.Incarnation != owner.Incarnation {
		return page, err
	}
	found, err := a.all(1)
	if err != nil {
		return page, err
	}
	list := make([]driver.BlobRow, len(found))
	for i := range found {
		if list[i], err = blobRow(&found[i]); err != nil {
			return page, err
		}
	}
	return driver.BlobPage(q, list, func(r driver.BlobRow) driver.BlobRow { return r }, func(r driver.BlobRow) string { return r.Key }), nil
}

// Owners implements driver.Blobs.
func (m *blobs) Owners(ctx context.Context, q driver.BlobQuery) (page driver.Page[driver.BlobOwner], err error) {
	after, err := q.AfterOwner()
	if err != nil {
		return page, err
	}
	from := ""
	if q.Cursor != "" {
		from = after.Text() + "\x00"
	}
	var owners []driver.BlobOwner
	err = m.each(ctx, ownersOfBlobs, from, behind, false, func(r *row, _ time.Time) (bool, error) {
		owners = append(owners, driver.ParseBlobOwner(r.key))
		return len(owners) <= driver.PageSize(q.Limit), nil
	})
	if err != nil {
		return page, err
	}
	return driver.BlobOwnerPage(q, owners), nil
}

// Sweep implements driver.Blobs. No blob is without a name.
func (m *blobs) Sweep(ctx context.Context, age time.Duration) (driver.SweptBlobs, error) {
	if m.closed.Load() {
		return driver.SweptBlobs{}, errClosed
	}
	if err := ctx.Err(); err != nil {
		return driver.SweptBlobs{}, err
	}
	return driver.SweptBlobs{}, driver.CheckBlobAge(age)
}
