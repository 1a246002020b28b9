package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

// Blobs returns the store's blobs.
func (s *Store) Blobs() driver.Blobs { return (*blobs)(s) }

var _ driver.BlobProvider = (*Store)(nil)

// blobs is the store as driver.Blobs.
type blobs Store

// blobKey identifies a blob.
type blobKey struct{ tenant, key string }

// blob is a blob with the number of owners that name it. The bytes are never modified.
type blob struct {
	bytes   []byte
	names   int
	unnamed time.Time // since when it has no name
}

// live returns an error unless an owner's sessions exist and are not removed.
func (s *Store) live(owner driver.BlobOwner) error {
	doc, err := s.find(owner.Root, s.clock())
	if err == nil && (doc == nil || doc.Row.RootID != owner.Root || doc.Row.Incarnation != owner.Incarnation) {
		err = driver.NotFound(owner.Root)
	}
	return err
}

// name names a blob for an owner.
func (s *Store) name(owner driver.BlobOwner, key string, b *blob) {
	if s.named == nil {
		s.named = map[driver.BlobOwner]map[string]*blob{}
	}
	if s.named[owner] == nil {
		s.named[owner] = map[string]*blob{}
	}
	if s.named[owner][key] == nil {
		s.named[owner][key] = b
		b.names++
	}
}

// unname removes names of an owner.
func (s *Store) unname(owner driver.BlobOwner, keys ...string) {
	for _, key := range keys {
		if b := s.named[owner][key]; b != nil {
			delete(s.named[owner], key)
			if b.names--; b.names == 0 {
				b.unnamed = s.clock()
			}
		}
	}
	if len(s.named[owner]) == 0 {
		delete(s.named, owner)
	}
}

// Put implements driver.Blobs.
func (m *blobs) Put(ctx context.Context, owner driver.BlobOwner, list ...[]byte) ([]string, error) {
	keys, err := driver.CheckBlobs(owner, list)
	if err != nil {
		return nil, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.live(owner); err != nil {
		return nil, err
	}
	if s.blobs == nil {
		s.blobs = map[blobKey]*blob{}
	}
	for i, key := range keys {
		at := blobKey{owner.Tenant(), key}
		if s.blobs[at] == nil {
			s.blobs[at] = &blob{bytes: append([]byte{}, list[i]...)}
		}
		s.name(owner, key, s.blobs[at])
	}
	return keys, nil
}

// Get implements driver.Blobs.
func (m *blobs) Get(ctx context.Context, owner driver.BlobOwner, keys ...string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	err := m.look(ctx, owner, keys, func(i int, b *blob) { out[i] = append([]byte{}, b.bytes...) })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Has implements driver.Blobs.
func (m *blobs) Has(ctx context.Context, owner driver.BlobOwner, keys ...string) ([]bool, error) {
	out := make([]bool, len(keys))
	err := m.look(ctx, owner, keys, func(i int, _ *blob) { out[i] = true })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// look calls each with the index of each key that an owner names, and the blob.
func (m *blobs) look(ctx context.Context, owner driver.BlobOwner, keys []string, each func(int, *blob)) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for i, key := range keys {
		if b := s.named[owner][key]; b != nil {
			each(i, b)
		}
	}
	return nil
}

// Name implements driver.Blobs.
func (m *blobs) Name(ctx context.Context, from, to driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobNames(from, to, keys); err != nil {
		return err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := s.live(to); err != nil {
		return err
	}
	for _, key := range keys {
		if s.named[from][key] == nil {
			return driver.BlobNotFound(from, key)
		}
	}
	for _, key := range keys {
		s.name(to, key, s.named[from][key])
	}
	return nil
}

// Drop implements driver.Blobs.
func (m *blobs) Drop(ctx context.Context, owner driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.unname(owner, keys...)
	return nil
}

// List implements driver.Blobs.
func (m *blobs) List(ctx context.Context, owner driver.BlobOwner, q driver.BlobQuery) (page driver.Page[driver.BlobRow], err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	if q.Cursor != "" && driver.CheckBlobKeys(owner, []string{q.Cursor}) != nil {
		return page, q.Foreign()
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	var rows []driver.BlobRow
	for key, b := range s.named[owner] {
		if key > q.Cursor {
			rows = append(rows, driver.BlobRow{Key: key, Size: len(b.bytes)})
		}
	}
	slices.SortFunc(rows, func(a, b driver.BlobRow) int { return strings.Compare(a.Key, b.Key) })
	return driver.BlobPage(q, rows, func(r driver.BlobRow) driver.BlobRow { return r }, func(r driver.BlobRow) string { return r.Key }), nil
}

// Owners implements driver.Blobs.
func (m *blobs) Owners(ctx context.Context, q driver.BlobQuery) (page driver.Page[driver.BlobOwner], err error) {
	after, err := q.AfterOwner()
	if err != nil {
		return page, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	var owners []driver.BlobOwner
	for owner := range s.named {
		if owner.Text() > after.Text() {
			owners = append(owners, owner)
		}
	}
	slices.SortFunc(owners, func(a, b driver.BlobOwner) int { return strings.Compare(a.Text(), b.Text()) })
	return driver.BlobOwnerPage(q, owners), nil
}

// Sweep implements driver.Blobs.
func (m *blobs) Sweep(ctx context.Context, age time.Duration) (swept driver.SweptBlobs, err error) {
	if err := driver.CheckBlobAge(age); err != nil {
		return swept, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return swept, err
	}
	defer s.mu.Unlock()
	before := s.clock().Add(-age)
	for at, b := range s.blobs {
		if b.names == 0 && !b.unnamed.After(before) {
			swept.Blobs++
			swept.Bytes += int64(len(b.bytes))
			delete(s.blobs, at)
		}
	}
	return swept, nil
}
