package driver

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Memories keeps the memories of agents, by scope. For a store, a scope is a versioned set of entries, each a key with
// bytes. Package memory gives entries their meaning: rows of memories, an inverted index of their terms, links between
// versions. So all stores rank alike, and a scope costs the same however many others exist.
//
// All methods are safe for concurrent use by any number of processes. A write is atomic and as durable as a commit, and
// every call that begins after it sees it. Writers of a scope compare its version, so they are serialised.
//
// Errors are *cairn.Error values: ErrInvalid and ErrTooLarge, which name the field, for invalid arguments;
// ErrStale for a scope that has another version; ErrUnavailable where storage fails, ErrClosed after Close. A write that
// fails with ErrUnavailable may have been applied; one whose context is cancelled is applied in full or not at all.
type Memories interface {
	// Read returns entries of a scope, all from one point in time. A scope that does not exist has version 0 and no
	// entries.
	Read(ctx context.Context, scope MemoryScope, reads ...MemoryRead) (*MemoryEntries, error)
	// Write changes entries of a scope that has the version w.Seen, and returns its new version. The first write creates
	// the scope.
	Write(ctx context.Context, w MemoryWrite) (version int64, err error)
	// Drop deletes a scope with all its entries, at any version. found is false if it does not exist.
	Drop(ctx context.Context, scope MemoryScope) (found bool, err error)
	// Scopes pages through the scopes, ordered by kind and name, by bytes.
	Scopes(ctx context.Context, q MemoryScopeQuery) (Page[MemoryScopeRow], error)
}

// MemoryProvider is a Store that keeps memories as well. Purge drops the scopes of the sessions that it removes, see
// [SessionMemories].
type MemoryProvider interface {
	Memories() Memories
}

// MemoryKind is the kind of a scope: whose memories it has.
type MemoryKind = cairn.MemoryScopeKind

// The kinds of scopes. A user's is erased with the user's data.
const (
	MemoryOfSession = cairn.MemoryOfSession
	MemoryOfUser    = cairn.MemoryOfUser
	MemoryOfGroup   = cairn.MemoryOfGroup
)

// MemoryScope names a scope of memories. No two scopes share an entry.
type MemoryScope struct {
	Kind MemoryKind `json:"kind"`
	// Name is text of 1 to MaxMemoryName bytes without control characters and surrounding white space.
	Name string `json:"name"`
}

// SessionMemories returns the scope of a session's own memories. It belongs to one incarnation of the session's id: a
// later session with the same id has another scope. It survives Remove and Restore, and ends with Purge.
func SessionMemories(id, incarnation string) MemoryScope {
	return MemoryScope{Kind: MemoryOfSession, Name: ids.Log(id, incarnation)}
}

// UserMemories returns the scope of a user's memories.
func UserMemories(user string) MemoryScope { return MemoryScope{Kind: MemoryOfUser, Name: user} }

const (
	// MaxMemoryName is the maximum size of a scope's name, in bytes.
	MaxMemoryName = 2*ids.MaxLength + 64
	// MaxMemoryKey is the maximum size of an entry's key, in bytes.
	MaxMemoryKey = 256
	// MaxMemoryValue is the maximum size of an entry's value, in bytes.
	MaxMemoryValue = limits.RecordBytes
	// MaxMemoryChanges is the maximum number of entries that a write changes.
	MaxMemoryChanges = 100_000
	// MaxMemoryReads is the maximum number of ranges in a read.
	MaxMemoryReads = 100_000
)

// MemoryRead selects entries of a scope: one key, or a range of keys in byte order.
type MemoryRead struct {
	// From is the key of one entry, or the first key of the range.
	From string
	// Before is the first key after the range; empty for the one entry at From.
	Before string
	// Limit is the maximum number of entries of the range; 0 means all.
	Limit int
	// Sizes reads the sizes of values instead of the values.
	Sizes bool
}

// MemoryEntry is one entry of a scope.
type MemoryEntry struct {
	// Key is text of 1 to MaxMemoryKey bytes without NUL.
	Key string
	// Value has up to MaxMemoryValue bytes, any bytes.
	Value []byte
	// Size is the size of the value when it was read.
	Size int
}

// MemoryEntries is the result of a read.
type MemoryEntries struct {
	// Version is the scope's version; 0 if the scope does not exist.
	Version int64
	// Found has the entries of each read, in the order of the reads, ordered by key. The caller owns them.
	Found [][]MemoryEntry
	// AsOf is the store's time of the read.
	AsOf time.Time
}

// MemoryWrite changes entries of one scope.
type MemoryWrite struct {
	Scope MemoryScope
	// Seen is the version that the scope must have; 0 if it must not exist.
	Seen int64
	// Puts replaces or adds entries. Deletes removes entries, if they exist. No key is named twice.
	Puts    []MemoryEntry
	Deletes []string
	// DueAt is the time from which the scope is worth a sweep; zero for never. It replaces the scope's previous one.
	DueAt time.Time
}

// MemoryScopeQuery selects scopes.
type MemoryScopeQuery struct {
	// Kind selects the scopes of one kind; empty means all.
	Kind MemoryKind
	// Due selects the scopes whose DueAt has come.
	Due bool
	// Cursor is the Next of the previous page; empty for the first page.
	Cursor string
	// Limit is the page's size, see [PageSize].
	Limit int
}

// MemoryScopeRow is a scope in a list.
type MemoryScopeRow struct {
	MemoryScope
	// Version is positive, grows with each write and is never used again for a scope of this name.
	Version int64 `json:"version"`
	// UpdatedAt is the store's time of the last write.
	UpdatedAt time.Time `json:"updated_at"`
	// DueAt is the time from which the scope is worth a sweep; zero for never.
	DueAt time.Time `json:"due_at,omitzero"`
}

// NextMemoryVersion returns the version of a scope after a write at the time now. It is a time, so a scope that was
// dropped does not get an old version again. It is for implementers.
func NextMemoryVersion(seen int64, now time.Time) int64 { return max(seen+1, now.UnixMicro()) }

// Check returns an error for an invalid scope. The error is ErrInvalid and names the field.
func (s MemoryScope) Check() error {
	switch s.Kind {
	case MemoryOfSession, MemoryOfUser, MemoryOfGroup:
	default:
		return cairn.Invalid("scope.kind", "unknown kind %q: want session, user or group", s.Kind)
	}
	switch {
	case s.Name == "":
		return cairn.Invalid("scope.name", "is empty")
	case len(s.Name) > MaxMemoryName:
		return cairn.Invalid("scope.name", "is too large: %d bytes (max %d)", len(s.Name), MaxMemoryName)
	case !utf8.ValidString(s.Name):
		return cairn.Invalid("scope.name", "is not valid UTF-8")
	case strings.TrimSpace(s.Name) != s.Name:
		return cairn.Invalid("scope.name", "begins or ends with white space")
	case strings.ContainsFunc(s.Name, unicode.IsControl):
		return cairn.Invalid("scope.name", "contains a control character")
	}
	return nil
}

// CheckMemoryReads returns an error for invalid arguments of Memories.Read.
func CheckMemoryReads(scope MemoryScope, reads []MemoryRead) error {
	if err := scope.Check(); err != nil {
		return err
	}
	if len(reads) > MaxMemoryReads {
		return cairn.Invalid("reads", "has %d ranges (max %d)", len(reads), MaxMemoryReads)
	}
	for i := range reads {
		if err := checkMemoryKey("reads.from", reads[i].From); err != nil {
			return err
		}
		if err := cairn.CheckText("reads.before", reads[i].Before); err != nil {
			return err
		}
		if reads[i].Limit < 0 {
			return cairn.Invalid("reads.limit", "%d is negative", reads[i].Limit)
		}
	}
	return nil
}

// Validate reports why a write cannot be kept. Stores call it before anything else.
func (w *MemoryWrite) Validate() error {
	if err := w.Scope.Check(); err != nil {
		return err
	}
	if w.Seen < 0 || w.Seen > limits.Count {
		return cairn.Invalid("seen", "invalid version %d", w.Seen)
	}
	if n := len(w.Puts) + len(w.Deletes); n > MaxMemoryChanges {
		return cairn.Invalid("puts", "changes %d entries (max %d)", n, MaxMemoryChanges)
	}
	named := make(map[string]bool, len(w.Puts)+len(w.Deletes))
	twice := func(field, key string) error {
		if named[key] {
			return cairn.Invalid(field, "names the key %q twice", key)
		}
		named[key] = true
		return checkMemoryKey(field, key)
	}
	for i := range w.Puts {
		if err := twice("puts", w.Puts[i].Key); err != nil {
			return err
		}
		if n := len(w.Puts[i].Value); n > MaxMemoryValue {
			e := cairn.Invalid("puts", "the value of %q is too large: %d bytes (max %d)", w.Puts[i].Key, n, MaxMemoryValue)
			e.Code = cairn.ErrTooLarge
			return e
		}
	}
	for _, key := range w.Deletes {
		if err := twice("deletes", key); err != nil {
			return err
		}
	}
	return nil
}

func checkMemoryKey(field, key string) error {
	switch {
	case key == "":
		return cairn.Invalid(field, "has an empty key")
	case len(key) > MaxMemoryKey:
		return cairn.Invalid(field, "has a key of %d bytes (max %d)", len(key), MaxMemoryKey)
	}
	return cairn.CheckText(field, key)
}

// StaleMemories returns the error for a scope that does not have the version seen. It is for implementers.
func StaleMemories(scope MemoryScope, seen, version int64) error {
	return cairn.Errorf(cairn.ErrStale, "memories of %s %q have changed: expected version %d, now %d", scope.Kind, scope.Name, seen, version)
}

// After validates a query and returns the scope after which its page begins.
func (q *MemoryScopeQuery) After() (after MemoryScope, err error) {
	if q.Kind != "" {
		if err := (MemoryScope{Kind: q.Kind, Name: "x"}).Check(); err != nil {
			return after, err
		}
	}
	if q.Cursor == "" {
		return after, nil
	}
	kind, name, _ := strings.Cut(q.Cursor, ":")
	after = MemoryScope{Kind: MemoryKind(kind), Name: name}
	if after.Check() != nil {
		return after, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
	}
	return after, nil
}

// Selects reports whether a scope is in the list of a query, after the given one.
func (q *MemoryScopeQuery) Selects(row *MemoryScopeRow, after MemoryScope, now time.Time) bool {
	return (q.Kind == "" || q.Kind == row.Kind) && (!q.Due || !row.DueAt.IsZero() && !now.Before(row.DueAt)) &&
		row.Compare(after) > 0
}

// Compare orders two scopes as lists do.
func (s MemoryScope) Compare(other MemoryScope) int {
	return cmp.Or(strings.Compare(string(s.Kind), string(other.Kind)), strings.Compare(s.Name, other.Name))
}

// MemoryScopePage returns one page of a list. rows has at least one more than the page's size, if there are more.
func MemoryScopePage(q *MemoryScopeQuery, rows []MemoryScopeRow) Page[MemoryScopeRow] {
	size := PageSize(q.Limit)
	if len(rows) <= size {
		return Page[MemoryScopeRow]{Items: rows}
	}
	last := rows[size-1].MemoryScope
	return Page[MemoryScopeRow]{Items: rows[:size], Next: string(last.Kind) + ":" + last.Name}
}
