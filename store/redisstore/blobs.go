package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

// aboutBlobs returns a script about the blobs of an owner, whose first argument is the id of the root.
func aboutBlobs(name, doing string, e effect) *script {
	return load(name, doing, e, source("common")+source("blob")+source(name))
}

// namingBlobs is aboutBlobs for a script that ask runs.
func namingBlobs(name, doing string) *script {
	return load(name, doing, grows, source("common")+source("id")+source("blob")+source(name))
}

var (
	scriptBlobPut    = namingBlobs("blobput", "put blobs")
	scriptBlobName   = namingBlobs("blobname", "name blobs")
	scriptBlobRead   = aboutBlobs("blobread", "read blobs", reads)
	scriptBlobDrop   = aboutBlobs("blobdrop", "drop blobs", frees)
	scriptBlobList   = aboutBlobs("bloblist", "list blobs", reads)
	scriptBlobOwners = keyed("blobowners", "list owners of blobs", reads)
	scriptBlobSweep  = keyed("blobsweep", "sweep blobs", frees)
)

const (
	// movedBlobs is how many blobs are read at once to be copied to another bucket: they may all be large.
	movedBlobs = driver.MaxBlobsBytes / driver.MaxBlob
	// sweptBlobs is how many blobs a script deletes.
	sweptBlobs = 100
)

// Blobs returns the store's blobs. Each call runs one script. On a cluster a blob is kept once for all trees of a bucket;
// Name copies blobs from one bucket to another one in several scripts, so some may be named if it fails.
func (s *Store) Blobs() driver.Blobs { return (*blobs)(s) }

var _ driver.BlobProvider = (*Store)(nil)

// blobs is the store as driver.Blobs.
type blobs Store

// ownerArgs returns the arguments that name an owner, and the others.
func ownerArgs(owner driver.BlobOwner, more ...any) []any {
	return append([]any{owner.Root, owner.Incarnation, owner.Tenant()}, more...)
}

// run runs a script on the bucket of an owner.
func (m *blobs) run(ctx context.Context, sc *script, owner driver.BlobOwner, args ...any) (reply, error) {
	s := (*Store)(m)
	return s.run(ctx, sc, s.bucketOf(owner.Root), ownerArgs(owner, args...)...)
}

// ask runs a script on the bucket of an owner whose sessions must exist.
func (m *blobs) ask(ctx context.Context, sc *script, owner driver.BlobOwner, args ...any) (reply, error) {
	return (*Store)(m).ask(ctx, sc, owner.Root, ownerArgs(owner, args...)[1:]...)
}

// keyArgs returns keys as arguments.
func keyArgs(keys []string) []any {
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = key
	}
	return args
}

// Put implements driver.Blobs.
func (m *blobs) Put(ctx context.Context, owner driver.BlobOwner, list ...[]byte) ([]string, error) {
	keys, err := driver.CheckBlobs(owner, list)
	if err != nil {
		return nil, err
	}
	args := make([]any, 0, 2*len(list))
	for i, key := range keys {
		args = append(args, key, list[i])
	}
	if _, err := m.ask(ctx, scriptBlobPut, owner, args...); err != nil {
		return nil, err
	}
	return keys, nil
}

// Get implements driver.Blobs.
func (m *blobs) Get(ctx context.Context, owner driver.BlobOwner, keys ...string) ([][]byte, error) {
	found, err := m.look(ctx, owner, keys, "1")
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(keys))
	for i := range out {
		if found[i] != nil {
			out[i] = append([]byte{}, plain(found[i])...)
		}
	}
	return out, nil
}

// Has implements driver.Blobs.
func (m *blobs) Has(ctx context.Context, owner driver.BlobOwner, keys ...string) ([]bool, error) {
	found, err := m.look(ctx, owner, keys, "0")
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(keys))
	for i := range out {
		out[i] = found[i] != nil
	}
	return out, nil
}

// look returns, for each key, the blob if data is 1, or else a text; nil for one that the owner does not name.
func (m *blobs) look(ctx context.Context, owner driver.BlobOwner, keys []string, data string) ([]any, error) {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return nil, err
	}
	answer, err := m.run(ctx, scriptBlobRead, owner, append([]any{data}, keyArgs(keys)...)...)
	if err != nil {
		return nil, err
	}
	found := answer.list(1)
	if len(found) != len(keys) {
		return nil, unknown(scriptBlobRead, answer)
	}
	return found, nil
}

// Name implements driver.Blobs.
func (m *blobs) Name(ctx context.Context, from, to driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobNames(from, to, keys); err != nil {
		return err
	}
	s := (*Store)(m)
	if s.bucketOf(from.Root) != s.bucketOf(to.Root) {
		return m.move(ctx, from, to, keys)
	}
	answer, err := m.ask(ctx, scriptBlobName, to, append([]any{from.Root, from.Incarnation}, keyArgs(keys)...)...)
	if err == nil && answer.word() == "lacks" {
		err = driver.BlobNotFound(from, answer.text(1))
	}
	return err
}

// move is Name for owners in two buckets.
func (m *blobs) move(ctx context.Context, from, to driver.BlobOwner, keys []string) error {
	has, err := m.Has(ctx, from, keys...)
	if err != nil {
		return err
	}
	if i := slices.Index(has, false); i >= 0 {
		return driver.BlobNotFound(from, keys[i])
	}
	if len(keys) == 0 {
		_, err = m.Put(ctx, to)
	}
	for list := range slices.Chunk(keys, movedBlobs) {
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
	return err
}

// Drop implements driver.Blobs.
func (m *blobs) Drop(ctx context.Context, owner driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	_, err := m.run(ctx, scriptBlobDrop, owner, keyArgs(keys)...)
	return err
}

// List implements driver.Blobs.
func (m *blobs) List(ctx context.Context, owner driver.BlobOwner, q driver.BlobQuery) (page driver.Page[driver.BlobRow], err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	from := "-"
	if q.Cursor != "" {
		if driver.CheckBlobKeys(owner, []string{q.Cursor}) != nil {
			return page, q.Foreign()
		}
		from = "(" + q.Cursor
	}
	answer, err := m.run(ctx, scriptBlobList, owner, from, driver.PageSize(q.Limit)+1)
	if err != nil {
		return page, err
	}
	var rows []driver.BlobRow
	fields := answer.list(1)
	for i := 0; i+1 < len(fields); i += 2 {
		size, err := strconv.Atoi(plain(fields[i+1]))
		if err != nil {
			return page, unknown(scriptBlobList, answer)
		}
		rows = append(rows, driver.BlobRow{Key: plain(fields[i]), Size: size})
	}
	return driver.BlobPage(q, rows, func(r driver.BlobRow) driver.BlobRow { return r }, func(r driver.BlobRow) string { return r.Key }), nil
}

// Owners implements driver.Blobs. On a cluster it asks every bucket.
func (m *blobs) Owners(ctx context.Context, q driver.BlobQuery) (page driver.Page[driver.BlobOwner], err error) {
	after, err := q.AfterOwner()
	if err != nil {
		return page, err
	}
	from := "-"
	if q.Cursor != "" {
		from = "(" + after.Text()
	}
	replies, err := (*Store)(m).runAll(ctx, scriptBlobOwners, from, driver.PageSize(q.Limit)+1)
	if err != nil {
		return page, err
	}
	var owners []driver.BlobOwner
	for _, answer := range replies {
		for _, text := range answer.list(1) {
			owners = append(owners, driver.ParseBlobOwner(plain(text)))
		}
	}
	slices.SortFunc(owners, func(a, b driver.BlobOwner) int { return strings.Compare(a.Text(), b.Text()) })
	return driver.BlobOwnerPage(q, owners), nil
}

// Sweep implements driver.Blobs. On a cluster it sweeps every bucket.
func (m *blobs) Sweep(ctx context.Context, age time.Duration) (swept driver.SweptBlobs, err error) {
	if err := driver.CheckBlobAge(age); err != nil {
		return swept, err
	}
	s := (*Store)(m)
	for bucket := range s.buckets {
		for done := false; !done; {
			answer, err := s.run(ctx, scriptBlobSweep, bucket, age.Microseconds(), sweptBlobs)
			if err != nil {
				return swept, err
			}
			blobs, err := answer.number(scriptBlobSweep, 1)
			if err != nil {
				return swept, err
			}
			bytes, err := answer.number(scriptBlobSweep, 2)
			if err != nil {
				return swept, err
			}
			swept.Blobs += int(blobs)
			swept.Bytes += bytes
			done = blobs < sweptBlobs
		}
	}
	return swept, nil
}
