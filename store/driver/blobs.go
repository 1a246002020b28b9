package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// Blobs keeps values that are found by their content: files of workspaces, and artifacts. The key of a blob is the hash of
// its bytes. Session trees name the blobs that they use. A blob is kept once for all trees of a tenant, as long as one of
// them names it; a store may instead keep a copy for each tree.
//
// The names of a tree end with its Purge. A blob without a name is kept until Sweep deletes it, or deleted at once.
//
// All methods are safe for concurrent use by any number of processes. A write is atomic and as durable as a commit, and
// every call that begins after it sees it. A write can be repeated.
//
// Errors are *cairn.Error values: ErrInvalid and ErrTooLarge, which name the field, for invalid arguments; ErrNotFound for
// an owner that does not exist, and for a blob that it does not name; ErrDeleted or ErrExpired for an owner that was
// removed; ErrUnavailable where storage fails, ErrClosed after Close. A write that fails with ErrUnavailable may have been
// applied; one whose context is cancelled is applied in full or not at all.
type Blobs interface {
	// Put stores blobs, at most MaxBlobs with at most MaxBlobsBytes in all, and names them for an owner. It returns their
	// keys, in order. The owner's sessions must exist, and must not be removed.
	Put(ctx context.Context, owner BlobOwner, blobs ...[]byte) (keys []string, err error)
	// Get returns the blobs with the given keys, at most MaxBlobs, in order: nil for one that the owner does not name. The
	// caller bounds their total size, and owns the bytes.
	Get(ctx context.Context, owner BlobOwner, keys ...string) ([][]byte, error)
	// Has reports, for each of at most MaxBlobs keys, whether the owner names the blob.
	Has(ctx context.Context, owner BlobOwner, keys ...string) ([]bool, error)
	// Name names at most MaxBlobs blobs of an owner for another one of the same tenant. If from lacks one of them, the
	// error is ErrNotFound and no name is added. The sessions of to must exist, and must not be removed.
	Name(ctx context.Context, from, to BlobOwner, keys ...string) error
	// Drop removes names of an owner, at most MaxBlobs. Keys that it does not name are ignored.
	Drop(ctx context.Context, owner BlobOwner, keys ...string) error
	// List pages through the blobs that an owner names, in an order of the store.
	List(ctx context.Context, owner BlobOwner, q BlobQuery) (Page[BlobRow], error)
	// Owners pages through the owners that name blobs, ordered by root and incarnation, by bytes.
	Owners(ctx context.Context, q BlobQuery) (Page[BlobOwner], error)
	// Sweep deletes the blobs that have had no name for an age, by the store's clock. An age of 0 means all without a
	// name. Several sweeps at once share the work.
	Sweep(ctx context.Context, age time.Duration) (SweptBlobs, error)
}

// BlobProvider is a Store that keeps blobs as well.
type BlobProvider interface {
	Blobs() Blobs
}

const (
	// MaxBlob is the maximum size of a blob, in bytes. Larger files are lists of blobs.
	MaxBlob = 4 << 20
	// MaxBlobs is the maximum number of blobs in one call.
	MaxBlobs = 1000
	// MaxBlobsBytes is the maximum total size of the blobs of one Put, in bytes.
	MaxBlobsBytes = 16 << 20
	// KeepBlobs is how long a blob without a name is kept by the sweeps of an engine.
	KeepBlobs = 24 * time.Hour
)

// BlobOwner names the session tree that uses blobs. It belongs to one incarnation of the root's id: a later session with
// the same id names no blobs.
type BlobOwner struct {
	// Root is the id of the tree's root. The blobs have its tenant.
	Root string `json:"root"`
	// Incarnation distinguishes the tree from others that had the root's id.
	Incarnation string `json:"incarnation,omitempty"`
}

// OwnerOfBlobs returns the owner of the blobs that a session uses.
func OwnerOfBlobs(s *cairn.Session) BlobOwner {
	return BlobOwner{Root: s.RootID, Incarnation: s.Incarnation}
}

// ownerSeparator stands between the root and the incarnation in a text. No id contains it, and it is less than all
// characters of ids.
const ownerSeparator = "\x01"

// Text returns the owner as a text. Texts of owners are ordered by root and incarnation. It is for implementers.
func (o BlobOwner) Text() string { return o.Root + ownerSeparator + o.Incarnation }

// ParseBlobOwner returns the owner with a text. It is for implementers.
func ParseBlobOwner(text string) BlobOwner {
	root, incarnation, _ := strings.Cut(text, ownerSeparator)
	return BlobOwner{Root: root, Incarnation: incarnation}
}

// Tenant returns the tenant of the owner; empty for none.
func (o BlobOwner) Tenant() string {
	tenant, _ := ids.Split(o.Root)
	return tenant
}

// Check returns an error for an invalid owner. The error is ErrInvalid and names the field.
func (o BlobOwner) Check() error {
	if problem := ids.CheckSession(o.Root); problem != "" {
		return cairn.Invalid("owner.root", "%s", problem)
	}
	if problem := ids.Check(o.Incarnation); problem != "" && o.Incarnation != "" {
		return cairn.Invalid("owner.incarnation", "%s", problem)
	}
	return nil
}

// BlobQuery selects a page of a list.
type BlobQuery struct {
	// Cursor is the Next of the previous page; empty for the first page.
	Cursor string
	// Limit is the page's size, see [PageSize].
	Limit int
}

// BlobRow is a blob that an owner names.
type BlobRow struct {
	// Key is the blob's key, see [BlobKey].
	Key string `json:"key"`
	// Size is the size of the blob in bytes.
	Size int `json:"size"`
}

// SweptBlobs counts the blobs that a sweep has deleted.
type SweptBlobs struct {
	// Blobs is their number, and Bytes their total size.
	Blobs int   `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// BlobKey returns the key of a blob: its SHA-256 in hexadecimal.
func BlobKey(blob []byte) string {
	sum := sha256.Sum256(blob)
	return hex.EncodeToString(sum[:])
}

// CheckBlobs validates the arguments of Blobs.Put and returns the keys of the blobs.
func CheckBlobs(owner BlobOwner, blobs [][]byte) ([]string, error) {
	if err := checkBlobCount(owner, len(blobs)); err != nil {
		return nil, err
	}
	total := 0
	for i, blob := range blobs {
		if total += len(blob); len(blob) > MaxBlob {
			return nil, blobsTooLarge("blobs", "blob %d is too large: %d bytes (max %d)", i, len(blob), MaxBlob)
		}
	}
	if total > MaxBlobsBytes {
		return nil, blobsTooLarge("blobs", "are too large: %d bytes (max %d in one call)", total, MaxBlobsBytes)
	}
	keys := make([]string, len(blobs))
	for i, blob := range blobs {
		keys[i] = BlobKey(blob)
	}
	return keys, nil
}

// CheckBlobKeys validates an owner and keys.
func CheckBlobKeys(owner BlobOwner, keys []string) error {
	if err := checkBlobCount(owner, len(keys)); err != nil {
		return err
	}
	for _, key := range keys {
		if !isBlobKey(key) {
			return cairn.Invalid("keys", "%q is not the key of a blob", key)
		}
	}
	return nil
}

// CheckBlobNames validates the arguments of Blobs.Name.
func CheckBlobNames(from, to BlobOwner, keys []string) error {
	if err := CheckBlobKeys(from, keys); err != nil {
		return err
	}
	if err := to.Check(); err != nil {
		return err
	}
	if from.Tenant() != to.Tenant() {
		return cairn.Invalid("owner", "sessions %q and %q are of different tenants", from.Root, to.Root)
	}
	return nil
}

// CheckBlobAge validates the argument of Blobs.Sweep.
func CheckBlobAge(age time.Duration) error {
	if age < 0 {
		return cairn.Invalid("age", "%s is negative", age)
	}
	return nil
}

func checkBlobCount(owner BlobOwner, n int) error {
	if err := owner.Check(); err != nil {
		return err
	}
	if n > MaxBlobs {
		return blobsTooLarge("keys", "are too many: %d (max %d)", n, MaxBlobs)
	}
	return nil
}

// isBlobKey reports whether a text can be the key of a blob.
func isBlobKey(key string) bool {
	return len(key) == 2*sha256.Size && strings.Trim(key, "0123456789abcdef") == ""
}

func blobsTooLarge(field, format string, args ...any) error {
	e := cairn.Invalid(field, format, args...)
	e.Code = cairn.ErrTooLarge
	return e
}

// AfterOwner validates a query for Owners and returns the owner after which its page begins.
func (q *BlobQuery) AfterOwner() (BlobOwner, error) {
	owner := ParseBlobOwner(q.Cursor)
	if q.Cursor != "" && owner.Check() != nil {
		return owner, q.Foreign()
	}
	return owner, nil
}

// Foreign returns the error for a cursor that does not belong to the list. It is for implementers.
func (q *BlobQuery) Foreign() error {
	return cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
}

// BlobNotFound returns the error for a blob that an owner does not name. It is for implementers.
func BlobNotFound(owner BlobOwner, key string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "keys", Message: "blob " + key + " of session \"" + owner.Root + "\" not found"}
}

// BlobPage returns one page of a list: rows has at least one more than the page's size if there are more, and cursor
// returns the cursor after a row. It is for implementers.
func BlobPage[Row, T any](q BlobQuery, rows []Row, item func(Row) T, cursor func(Row) string) (page Page[T]) {
	if size := PageSize(q.Limit); len(rows) > size {
		rows = rows[:size]
		page.Next = cursor(rows[size-1])
	}
	for _, row := range rows {
		page.Items = append(page.Items, item(row))
	}
	return page
}

// BlobOwnerPage is [BlobPage] for Blobs.Owners.
func BlobOwnerPage(q BlobQuery, owners []BlobOwner) Page[BlobOwner] {
	return BlobPage(q, owners, func(o BlobOwner) BlobOwner { return o }, BlobOwner.Text)
}

// BlobGroups yields the keys of blobs, in order, in groups whose blobs fit in one Put. rows has at most [MaxBlobs]. It is for
// implementers.
func BlobGroups(rows []BlobRow) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var group []string
		size := 0
		for _, row := range rows {
			if len(group) > 0 && size+row.Size > MaxBlobsBytes {
				if !yield(group) {
					return
				}
				group, size = nil, 0
			}
			group, size = append(group, row.Key), size+row.Size
		}
		if len(group) > 0 {
			yield(group)
		}
	}
}

// BlobsOf returns the blobs of a store. The error is ErrInvalid for a store that keeps none.
func BlobsOf(st Store) (Blobs, error) {
	p, ok := As[BlobProvider](st)
	if !ok {
		return nil, cairn.Invalid("store", "keeps no blobs")
	}
	return p.Blobs(), nil
}
