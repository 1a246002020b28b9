package driver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Records keeps small rows that belong to no session, by namespace and key: workers, settings, schedules. A namespace
// is one list of records. Its first record creates it, and nothing of it remains after its last one.
//
// All methods are safe for concurrent use by any number of processes. Each write is atomic, and the writes of one
// record are serialised. Every call that begins after a write sees it, in any process; a write is as durable as a
// commit. No call writes two records.
//
// Times are by the store's clock. A record with a time to live expires when the store's clock reaches ExpiresAt. From
// then on it does not exist for any method in any process, regardless of the clocks of the processes. Stores delete
// expired records later, a few with each Put.
//
// Errors are *cairn.Error values: ErrInvalid and ErrTooLarge, which name the field, for values that cannot be kept;
// ErrUnavailable where storage fails, ErrClosed after Close. A write that fails with ErrUnavailable may have been
// applied; one whose context is cancelled is applied in full or not at all.
type Records interface {
	// Get returns a record. The error is ErrNotFound if it does not exist.
	Get(ctx context.Context, namespace, key string) (*Record, error)
	// Put writes a record and returns it as written. If w.Seen does not hold, nothing is written and the error is a
	// RecordConflictError with ErrStale.
	Put(ctx context.Context, w RecordWrite) (*Record, error)
	// Delete removes a record at the version seen, or at any version for AnyVersion. If the record has another version
	// the error is a RecordConflictError with ErrStale, and ErrNotFound if the record does not exist: of concurrent
	// deletions of one record exactly one succeeds.
	Delete(ctx context.Context, namespace, key string, seen int64) error
	// List pages through the records of a namespace, ordered by key or by index. Records that are added, deleted or
	// changed between two pages do not move the cursor: a record that exists the whole time, under the same index, is
	// listed exactly once.
	List(ctx context.Context, q RecordQuery) (Page[Record], error)
	// Namespaces pages through the namespaces that have records, ordered by bytes, MaxRecordPage in each page. A
	// namespace whose records have all expired may be listed. The cursor is the Next of the previous page; empty for
	// the first page.
	Namespaces(ctx context.Context, cursor string) (Page[string], error)
}

// RecordProvider is a Store that keeps records as well.
type RecordProvider interface {
	Records() Records
}

// AnyVersion matches any version of a record and, in a write, also a record that does not exist.
const AnyVersion = -1

const (
	// MaxRecordBytes is the maximum size of a record's value.
	MaxRecordBytes = limits.RecordBytes
	// MaxRecordTTL is the longest time to live of a record: a hundred years.
	MaxRecordTTL = 100 * 365 * 24 * time.Hour
	// MaxRecordPage is the maximum number of records, or of namespaces, in a page.
	MaxRecordPage = 100
)

// UserRecords is the namespace of data kept for users outside their sessions, such as accounts that they have connected
// and answers to their requests. Its records are indexed by UserIndex, and Engine.EraseUser removes them. A key begins
// with the name of the component that wrote it.
const UserRecords = "users"

// WorkerRecords is the namespace of the workers registered with a store. The keys are the names of their owners.
const WorkerRecords = "cairn.workers"

// SweepRecords is the namespace of the time of the last sweep.
const SweepRecords = "cairn.sweeps"

// StopRecords is the namespace of outstanding stops of remote work for runs that were stopped, see [cairn.Stopper].
const StopRecords = "cairn.stops"

// LearnRecords is the namespace of ended turns that a memory is to learn from, see [cairn.Memory].
const LearnRecords = "cairn.learn"

// MemoryCostRecords is the namespace of the daily cost of extraction, see package memory.
const MemoryCostRecords = "cairn.memory.cost"

// BudgetRecords is the namespace of the usage of budgets of periods, see [cairn.BudgetRule].
const BudgetRecords = "cairn.budgets"

// ScoreRecords is the namespace of the scores of sessions, see [cairn.Score].
const ScoreRecords = "cairn.scores"

// BranchRecords is the namespace of branches whose files are not named yet, see [Blobs].
const BranchRecords = "cairn.branches"

// TraceRecords is the namespace of how far the spans of session trees were exported, see package traces. The key of a
// tree is its [TraceKey].
const TraceRecords = "cairn.traces"

// AdvanceRecords is the namespace of the steps that calls of Engine.Advance drive.
const AdvanceRecords = "cairn.advances"

// TraceKey is the key of the record of a tree with an event log.
func TraceKey(log string) string { return ids.Derive("tree", log) }

// UserIndex returns the index of a user's records. It is a digest, because a user's id may not be valid as an index.
func UserIndex(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:16])
}

// RecordsOf yields the records of a user, page by page. Deleting records during the iteration does not disturb it.
func RecordsOf(ctx context.Context, records Records, user string) iter.Seq2[*Record, error] {
	index := UserIndex(user)
	return All(func(cursor string) (Page[Record], error) {
		return records.List(ctx, RecordQuery{Namespace: UserRecords, Index: &IndexRange{From: index, Before: index + "!"}, Cursor: cursor})
	})
}

// Record is a row of a namespace.
type Record struct {
	Namespace string
	Key       string
	// Index is the key that RecordQuery.Index selects by. A query by index does not find a record with an empty one.
	Index string
	// Value is JSON, byte for byte as it was written.
	Value json.RawMessage
	// Version is positive and changes with each write. No version of a key is ever used again, even after the record
	// was deleted or has expired.
	Version int64
	// CreatedAt is the time of the write that created the record, and UpdatedAt the time of the last write.
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpiresAt is the time at which the record expires; zero for never.
	ExpiresAt time.Time
	// AsOf is the store's time when it returned this record.
	AsOf time.Time
}

// Expired reports whether the record has expired at the store's time now.
func (r *Record) Expired(now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

// RecordWrite is a write of Records.Put. It replaces the whole record.
type RecordWrite struct {
	// Namespace and Key are identifiers of at most 200 bytes, without control characters and without surrounding white
	// space.
	Namespace string
	Key       string
	// Index is empty or an identifier of the same kind. Indexes are compared by bytes.
	Index string
	// Value is JSON of at most MaxRecordBytes. It is required.
	Value json.RawMessage
	// Seen is the version that the record must have: 0 for none, or AnyVersion.
	Seen int64
	// TTL is the time from this write until the record expires, at most MaxRecordTTL; 0 means never. Stores keep whole
	// microseconds, rounded up.
	TTL time.Duration
}

// RecordQuery selects records of a namespace.
type RecordQuery struct {
	Namespace string
	// Prefix selects the records whose keys begin with it, ordered by key, by bytes. It must be empty if Index is set.
	Prefix string
	// Index, if not nil, selects by index instead; the order is then by Index and Key.
	Index *IndexRange
	// Cursor is the Next of the previous page; empty for the first page. A cursor of another kind of list is
	// ErrInvalid.
	Cursor string
	// Limit is the page's size; 0 or more than MaxRecordPage means MaxRecordPage.
	Limit int
}

// IndexRange is a range of indexes, compared by bytes. It contains no records without an index.
type IndexRange struct {
	// From is the first index; empty means no lower bound.
	From string
	// Before is the first index after the range; empty means no upper bound.
	Before string
}

// Size returns the effective page size.
func (q *RecordQuery) Size() int {
	if q.Limit <= 0 || q.Limit > MaxRecordPage {
		return MaxRecordPage
	}
	return q.Limit
}

// Validate reports why a write cannot be kept. Stores call it before anything else.
func (w *RecordWrite) Validate() error {
	if err := cmp.Or(CheckRecordKey(w.Namespace, w.Key), checkIndex("index", w.Index), checkSeen(w.Seen)); err != nil {
		return err
	}
	switch {
	case len(w.Value) == 0:
		return cairn.Invalid("value", "is required")
	case len(w.Value) > MaxRecordBytes:
		e := cairn.Invalid("value", "is too large: %d bytes (max %d)", len(w.Value), MaxRecordBytes)
		e.Code = cairn.ErrTooLarge
		return e
	case w.TTL < 0:
		return cairn.Invalid("ttl", "%s is negative", w.TTL)
	case w.TTL > MaxRecordTTL:
		return cairn.Invalid("ttl", "%s is more than the maximum of %s", w.TTL, MaxRecordTTL)
	}
	return cairn.CheckJSON("value", w.Value)
}

// CheckRecordKey returns an error for an invalid name of a record. The error is ErrInvalid and names the field.
func CheckRecordKey(namespace, key string) error {
	if problem := ids.Check(namespace); problem != "" {
		return cairn.Invalid("namespace", "%s", problem)
	}
	if problem := ids.Check(key); problem != "" {
		return cairn.Invalid("key", "%s", problem)
	}
	return nil
}

// CheckRecordDelete returns an error for invalid arguments of Records.Delete.
func CheckRecordDelete(namespace, key string, seen int64) error {
	if err := cmp.Or(CheckRecordKey(namespace, key), checkSeen(seen)); err != nil {
		return err
	}
	if seen == 0 {
		return cairn.Invalid("seen", "must not be 0")
	}
	return nil
}

func checkSeen(seen int64) error {
	if seen < AnyVersion || seen > limits.Count {
		return cairn.Invalid("seen", "invalid version %d", seen)
	}
	return nil
}

// checkIndex checks an index that may be empty.
func checkIndex(field, index string) error {
	if index == "" {
		return nil
	}
	if problem := ids.Check(index); problem != "" {
		return cairn.Invalid(field, "%s", problem)
	}
	return nil
}

// Micros returns the time to live in microseconds, rounded up.
func (w *RecordWrite) Micros() int64 { return int64((w.TTL + time.Microsecond - 1) / time.Microsecond) }

// Apply returns the record that results from a write at the time now over the existing record there; nil or an expired
// record means that none exists. The store sets the version. The error is the conflict with Seen.
func (w *RecordWrite) Apply(there *Record, now time.Time) (*Record, error) {
	if there != nil && there.Expired(now) {
		there = nil
	}
	if err := w.Check(there); err != nil {
		return nil, err
	}
	r := &Record{Namespace: w.Namespace, Key: w.Key, Index: w.Index, Value: w.Value, CreatedAt: now, UpdatedAt: now, AsOf: now}
	if there != nil {
		r.CreatedAt = there.CreatedAt
	}
	if n := w.Micros(); n > 0 {
		r.ExpiresAt = now.Add(time.Duration(n) * time.Microsecond)
	}
	return r, nil
}

// Check compares the version that the writer saw with the existing record, which is nil if none exists.
func (w *RecordWrite) Check(there *Record) error {
	if w.Seen == AnyVersion || there == nil && w.Seen == 0 || there != nil && there.Version == w.Seen {
		return nil
	}
	return RecordConflict(w.Namespace, w.Key, w.Seen, there)
}

// RecordConflictError reports that a record does not have the version that a writer saw. It matches cairn.ErrStale with
// errors.Is.
type RecordConflictError struct {
	Err *cairn.Error
	// Record is the record that the store saw; nil if there was none.
	Record *Record
}

// Error returns the message.
func (e *RecordConflictError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error, for errors.Is and errors.As.
func (e *RecordConflictError) Unwrap() error { return e.Err }

// SeenRecord returns the record in a conflict, or nil.
func SeenRecord(err error) *Record {
	var c *RecordConflictError
	if err != nil && errors.As(err, &c) {
		return c.Record
	}
	return nil
}

// RecordConflict returns the error for a record that does not have the version seen. there is the record that the store
// saw, or nil. It is for implementers.
func RecordConflict(namespace, key string, seen int64, there *Record) error {
	var what string
	switch {
	case there == nil:
		what = fmt.Sprintf("no longer exists: expected version %d", seen)
	case seen == 0:
		what = "already exists"
	default:
		what = fmt.Sprintf("has changed: expected version %d, now %d", seen, there.Version)
	}
	return &RecordConflictError{Err: cairn.Errorf(cairn.ErrStale, "record %q in %q %s", key, namespace, what), Record: there}
}

// RecordNotFound returns the error for a record that does not exist.
func RecordNotFound(namespace, key string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "key", Message: fmt.Sprintf("record %q in %q not found", key, namespace)}
}

// NamespacePage returns one page of the namespaces in names. A store that has more must pass at least MaxRecordPage+1
// names. It is for implementers.
func NamespacePage(names []string) Page[string] {
	if len(names) <= MaxRecordPage {
		return Page[string]{Items: names}
	}
	return Page[string]{Items: names[:MaxRecordPage], Next: names[MaxRecordPage-1]}
}

// CheckNamespaceCursor returns an error for an invalid cursor of Records.Namespaces. The error is ErrInvalid.
func CheckNamespaceCursor(cursor string) error {
	if cursor != "" && ids.Check(cursor) != "" {
		return cairn.Invalid("cursor", "%q does not belong to this list", cursor)
	}
	return nil
}

// RecordRange is the range that a query selects: a part of a namespace, ordered by key or by index and key, by bytes.
// It is for implementers.
type RecordRange struct {
	ByIndex bool
	// From is the least key, or index, of the range, and Before the first one after it. Before is never empty: without
	// an upper bound it is longer than any identifier.
	From, Before string
	// AfterIndex and AfterKey are the place of the last listed record, after which the page begins. At the beginning
	// AfterKey is empty. By index, AfterIndex is never less than From.
	AfterIndex, AfterKey string
}

// pastAll is greater than every identifier, since identifiers have at most ids.MaxLength bytes and no character is
// greater than its own.
var pastAll = strings.Repeat(string(utf8.MaxRune), ids.MaxLength/utf8.UTFMax+1)

// Range validates a query and returns the range that it selects. The error is ErrInvalid and names the field.
func (q *RecordQuery) Range() (RecordRange, error) {
	var r RecordRange
	if problem := ids.Check(q.Namespace); problem != "" {
		return r, cairn.Invalid("namespace", "%s", problem)
	}
	if err := cairn.CheckText("prefix", q.Prefix); err != nil {
		return r, err
	}
	r.From, r.Before = q.Prefix, afterPrefix(q.Prefix)
	if q.Index != nil {
		if q.Prefix != "" {
			return r, cairn.Invalid("prefix", "cannot be combined with an index")
		}
		if err := cmp.Or(checkIndex("index.from", q.Index.From), checkIndex("index.before", q.Index.Before)); err != nil {
			return r, err
		}
		r.ByIndex, r.From, r.Before = true, q.Index.From, cmp.Or(q.Index.Before, pastAll)
	}
	var err error
	r.AfterIndex, r.AfterKey, err = parseRecordCursor(q.Cursor, r.ByIndex)
	if r.ByIndex && r.AfterIndex < r.From {
		r.AfterIndex, r.AfterKey = r.From, ""
	}
	return r, err
}

// Selects reports whether a record is in the range and comes after the last listed one.
func (r *RecordRange) Selects(rec *Record) bool {
	index, at := "", rec.Key
	if r.ByIndex {
		index, at = rec.Index, rec.Index
	}
	return at != "" && at >= r.From && at < r.Before &&
		cmp.Or(strings.Compare(index, r.AfterIndex), strings.Compare(rec.Key, r.AfterKey)) > 0
}

// Compare orders two records as the range lists them.
func (r *RecordRange) Compare(a, b *Record) int {
	if byIndex := strings.Compare(a.Index, b.Index); r.ByIndex && byIndex != 0 {
		return byIndex
	}
	return strings.Compare(a.Key, b.Key)
}

// afterPrefix returns the least string that is greater than every string with the prefix.
func afterPrefix(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch last {
		case utf8.MaxRune:
			continue
		case 0xD7FF: // surrogates follow
			last = 0xDFFF
		}
		return prefix + string(last+1)
	}
	return pastAll
}

// RecordCursor returns the cursor after a record, for Page.Next.
func RecordCursor(q *RecordQuery, last *Record) string {
	if q.Index == nil {
		return "k" + last.Key
	}
	return "i" + strconv.Itoa(len(last.Index)) + "." + last.Index + last.Key
}

// parseRecordCursor reads a cursor that RecordCursor made and returns the place of the last listed record. An empty
// cursor is the beginning, which has no key.
func parseRecordCursor(text string, byIndex bool) (index, key string, err error) {
	if text == "" {
		return "", "", nil
	}
	switch kind, rest := text[0], text[1:]; {
	case !byIndex && kind == 'k':
		key = rest
	case byIndex && kind == 'i':
		size, both, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(size); err == nil && n > 0 && n < len(both) && strconv.Itoa(n) == size {
			index, key = both[:n], both[n:]
		}
	}
	if ids.Check(key) != "" || checkIndex("cursor", index) != nil {
		return "", "", cairn.Invalid("cursor", "%q does not belong to this list", text)
	}
	return index, key, nil
}
