package memory

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// doc is a memory as it is stored.
type doc struct {
	Entry
	Number uint32 `json:"n"`
	// Terms are those that the index has of the memory: its own and, for one that was said, those of its facts.
	Terms    map[string]int `json:"terms,omitempty"`
	Analyzer string         `json:"analyzer,omitempty"`
	Facts    []uint32       `json:"facts,omitempty"`  // taken from it
	Merged   bool           `json:"merged,omitempty"` // from the facts that it supersedes
}

// tx reads a scope, and collects changes of it. It reads what is asked for as it is asked for; prefetching makes that
// one read. All that it reads is from one version of the scope.
type tx struct {
	ctx     context.Context
	m       *Memory
	scope   Scope
	version int64 // -1 until the first read
	drift   bool  // reads may be from different versions
	now     time.Time

	head    head
	entries map[string][]byte // as read or changed; nil for none
	dirty   map[string]bool
	chunks  map[uint32]*chunk
	edited  map[uint32]bool // chunks
	docs    map[uint32]*doc // nil for none
	saved   map[uint32]bool // docs
}

// errDrift is the error of a read that finds another version than the one before.
var errDrift = cairn.Errorf(cairn.ErrStale, "memory: the scope has changed")

func (m *Memory) begin(ctx context.Context, scope Scope) *tx {
	return &tx{ctx: ctx, m: m, scope: scope, version: -1, entries: map[string][]byte{}, dirty: map[string]bool{},
		chunks: map[uint32]*chunk{}, edited: map[uint32]bool{}, docs: map[uint32]*doc{}, saved: map[uint32]bool{}}
}

// attempts is how often a write is tried while other writers change the scope.
const attempts = 100

// view calls fn with a transaction that changes nothing. If the scope changes while fn reads, it is called again.
func (m *Memory) view(ctx context.Context, scope Scope, fn func(*tx) error) error {
	if err := scope.Check(); err != nil {
		return err
	}
	const tries = 4
	for n := 1; ; n++ {
		t := m.begin(ctx, scope)
		t.drift = n == tries
		if err := t.open(fn); err == nil || n == tries || !errors.Is(err, errDrift) {
			return err
		}
	}
}

// update calls fn with a transaction and writes its changes. It starts over if another writer was faster.
func (m *Memory) update(ctx context.Context, scope Scope, fn func(*tx) error) error {
	if err := scope.Check(); err != nil {
		return err
	}
	lock := m.locks[maphash.Comparable(m.seed, scope)%uint64(len(m.locks))]
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return cairn.ContextError(ctx, "memory")
	}
	defer func() { <-lock }()
	for n := 1; ; n++ {
		t := m.begin(ctx, scope)
		err := t.open(fn)
		if err == nil {
			err = t.commit()
		}
		if !errors.Is(err, cairn.ErrStale) || n == attempts {
			return err
		}
		if err := pause(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<min(n, 6)))); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return cairn.ContextError(ctx, "memory")
	}
}

// open reads the head and calls fn.
func (t *tx) open(fn func(*tx) error) error {
	raw, err := t.get(keyHead)
	if err != nil {
		return err
	}
	t.head = head{Next: 1}
	if raw != nil {
		if err := json.Unmarshal(raw, &t.head); err != nil {
			return cairn.Errorf(cairn.ErrCorrupt, "memory: the head of a scope: %w", err)
		}
	}
	return fn(t)
}

// read reads entries of the scope.
func (t *tx) read(reads ...driver.MemoryRead) ([][]driver.MemoryEntry, error) {
	if len(reads) == 0 {
		return nil, nil
	}
	found, err := t.m.rows.Read(t.ctx, t.scope, reads...)
	if err != nil {
		return nil, err
	}
	if t.version >= 0 && t.version != found.Version && !t.drift {
		return nil, errDrift
	}
	t.version, t.now = found.Version, found.AsOf
	return found.Found, nil
}

// fetch reads the entries of those keys that were not read yet. No key is named twice.
func (t *tx) fetch(keys ...string) error {
	var reads []driver.MemoryRead
	var want []string
	for _, key := range keys {
		if _, known := t.entries[key]; !known {
			reads, want = append(reads, driver.MemoryRead{From: key}), append(want, key)
		}
	}
	found, err := t.read(reads...)
	if err != nil {
		return err
	}
	for i, key := range want {
		if t.entries[key] = nil; len(found[i]) > 0 {
			t.entries[key] = found[i][0].Value
		}
	}
	return nil
}

// get returns the value of a key; nil for none.
func (t *tx) get(key string) ([]byte, error) {
	if value, known := t.entries[key]; known {
		return value, nil
	}
	err := t.fetch(key)
	return t.entries[key], err
}

// put changes the value of a key; nil deletes it.
func (t *tx) put(key string, value []byte) {
	t.entries[key], t.dirty[key] = value, true
}

func (t *tx) putJSON(key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "memory: %w", err)
	}
	t.put(key, raw)
	return nil
}

// fetchRecords reads the records of several memories at once.
func (t *tx) fetchRecords(numbers ...uint32) error {
	var keys []string
	for _, n := range numbers {
		if t.chunks[n/perChunk] == nil {
			keys = append(keys, recordKey(n/perChunk))
		}
	}
	slices.Sort(keys)
	return t.fetch(slices.Compact(keys)...)
}

// record returns the record of a memory, to read. One that does not exist is not live.
func (t *tx) record(n uint32) (*record, error) {
	at := n / perChunk
	c := t.chunks[at]
	if c == nil {
		raw, err := t.get(recordKey(at))
		if err != nil {
			return nil, err
		}
		if c, err = decodeChunk(raw); err != nil {
			return nil, err
		}
		t.chunks[at] = c
	}
	return &c[n%perChunk], nil
}

// edit returns the record of a memory, to change.
func (t *tx) edit(n uint32) (*record, error) {
	r, err := t.record(n)
	t.edited[n/perChunk] = true
	return r, err
}

// fetchDocs reads several memories at once.
func (t *tx) fetchDocs(numbers ...uint32) error {
	var keys []string
	for _, n := range numbers {
		if _, known := t.docs[n]; !known {
			keys = append(keys, docKey(n))
		}
	}
	return t.fetch(keys...)
}

// doc returns a memory; nil if it does not exist.
func (t *tx) doc(n uint32) (*doc, error) {
	if d, known := t.docs[n]; known {
		return d, nil
	}
	raw, err := t.get(docKey(n))
	if err != nil {
		return nil, err
	}
	if raw == nil {
		t.docs[n] = nil
		return nil, nil
	}
	d := &doc{}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "memory %d: %w", n, err)
	}
	t.docs[n] = d
	return d, nil
}

// save stores a memory, which may be changed further before the commit.
func (t *tx) save(d *doc) { t.docs[d.Number], t.saved[d.Number] = d, true }

// number returns the number of an id; 0 if it does not exist.
func (t *tx) number(id string) (uint32, error) {
	raw, err := t.get(idKey(id))
	if err != nil || raw == nil {
		return 0, err
	}
	list, err := decodeNumbers(raw)
	if err != nil || len(list) != 1 {
		return 0, cairn.Errorf(cairn.ErrCorrupt, "memory %q: invalid number", id)
	}
	return list[0], nil
}

// find returns the memory of an id. The error is ErrNotFound if it does not exist.
func (t *tx) find(field, id string) (*doc, error) {
	n, err := t.number(id)
	if err != nil {
		return nil, err
	}
	var d *doc
	if n > 0 {
		if d, err = t.doc(n); err != nil {
			return nil, err
		}
	}
	if d == nil {
		return nil, &cairn.Error{Code: cairn.ErrNotFound, Field: field, Message: "memory \"" + id + "\" not found"}
	}
	return d, nil
}

// numbers returns the list of numbers at a key.
func (t *tx) numbers(key string) ([]uint32, error) {
	raw, err := t.get(key)
	if err != nil {
		return nil, err
	}
	return decodeNumbers(raw)
}

func (t *tx) putNumbers(key string, list []uint32) {
	if len(list) == 0 {
		t.put(key, nil)
		return
	}
	t.put(key, encodeNumbers(list))
}

// commit writes the changes, if there are any.
func (t *tx) commit() error {
	for n := range t.saved {
		if t.docs[n] == nil {
			continue
		}
		d := *t.docs[n]
		d.SupersededBy = ""
		if err := t.putJSON(docKey(n), &d); err != nil {
			return err
		}
	}
	for at := range t.edited {
		t.put(recordKey(at), t.chunks[at].encode())
	}
	if t.nothing() {
		return nil
	}
	if err := t.putJSON(keyHead, &t.head); err != nil {
		return err
	}
	w := driver.MemoryWrite{Scope: t.scope, Seen: max(0, t.version)}
	if t.head.Due > 0 {
		w.DueAt = time.UnixMicro(t.head.Due).UTC()
	}
	for _, key := range sortedKeys(t.dirty) {
		if value := t.entries[key]; value != nil {
			w.Puts = append(w.Puts, driver.MemoryEntry{Key: key, Value: value})
		} else {
			w.Deletes = append(w.Deletes, key)
		}
	}
	version, err := t.m.rows.Write(t.ctx, w)
	if err == nil {
		t.version = version
	}
	return err
}

// nothing reports whether there is nothing to write: no change, or only deletions from a scope that does not exist, which
// may have been dropped since the caller read it.
func (t *tx) nothing() bool {
	if t.version <= 0 {
		for key := range t.dirty {
			if t.entries[key] != nil {
				return false
			}
		}
		return true
	}
	return len(t.dirty) == 0
}

// live returns the numbers of up to limit memories, from a number on; 0 means all.
func (t *tx) live(from uint32, limit int) ([]uint32, error) {
	var list []uint32
	for at := from / perChunk; at*perChunk < t.head.Next; at++ {
		if at%64 == (from/perChunk)%64 || at == from/perChunk { // read ahead
			ahead := make([]uint32, 0, 64)
			for c := at; c < at+64 && c*perChunk < t.head.Next; c++ {
				ahead = append(ahead, c*perChunk)
			}
			if err := t.fetchRecords(ahead...); err != nil {
				return nil, err
			}
		}
		for n := max(at*perChunk, from); n < min((at+1)*perChunk, t.head.Next); n++ {
			r, err := t.record(n)
			if err != nil {
				return nil, err
			}
			if r.live() {
				if list = append(list, n); limit > 0 && len(list) == limit {
					return list, nil
				}
			}
		}
	}
	return list, nil
}
