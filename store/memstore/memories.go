package memstore

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn/store/driver"
)

// Memories returns the store's memories.
func (s *Store) Memories() driver.Memories { return (*memories)(s) }

var _ driver.MemoryProvider = (*Store)(nil)

// memories is the store as driver.Memories.
type memories Store

// memoryScope is a scope with its entries. keys is sorted. Values are replaced, never modified.
type memoryScope struct {
	row     driver.MemoryScopeRow
	entries map[string][]byte
	keys    []string
}

// between returns the keys of a read.
func (m *memoryScope) between(r driver.MemoryRead) []string {
	first, found := slices.BinarySearch(m.keys, r.From)
	if r.Before == "" {
		if found {
			return m.keys[first : first+1]
		}
		return nil
	}
	last, _ := slices.BinarySearch(m.keys, r.Before)
	keys := m.keys[first:max(first, last)]
	if r.Limit > 0 {
		keys = keys[:min(r.Limit, len(keys))]
	}
	return keys
}

// Read implements driver.Memories.
func (m *memories) Read(ctx context.Context, scope driver.MemoryScope, reads ...driver.MemoryRead) (*driver.MemoryEntries, error) {
	if err := driver.CheckMemoryReads(scope, reads); err != nil {
		return nil, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := &driver.MemoryEntries{Found: make([][]driver.MemoryEntry, len(reads)), AsOf: s.clock()}
	there := s.memories[scope]
	if there == nil {
		return out, nil
	}
	out.Version = there.row.Version
	for i, r := range reads {
		for _, key := range there.between(r) {
			e := driver.MemoryEntry{Key: key, Size: len(there.entries[key])}
			if !r.Sizes {
				e.Value = slices.Clone(there.entries[key])
			}
			out.Found[i] = append(out.Found[i], e)
		}
	}
	return out, nil
}

// Write implements driver.Memories.
func (m *memories) Write(ctx context.Context, w driver.MemoryWrite) (int64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	there := s.memories[w.Scope]
	if there == nil {
		there = &memoryScope{row: driver.MemoryScopeRow{MemoryScope: w.Scope}, entries: map[string][]byte{}}
	}
	if there.row.Version != w.Seen {
		return 0, driver.StaleMemories(w.Scope, w.Seen, there.row.Version)
	}
	if s.memories == nil {
		s.memories = map[driver.MemoryScope]*memoryScope{}
	}
	s.memories[w.Scope] = there
	there.change(w)
	now := s.clock()
	s.memoryVersion = driver.NextMemoryVersion(s.memoryVersion, now)
	there.row.Version, there.row.UpdatedAt, there.row.DueAt = s.memoryVersion, now, w.DueAt
	return there.row.Version, nil
}

// change applies the puts and deletes of a write.
func (m *memoryScope) change(w driver.MemoryWrite) {
	var added []string
	for _, e := range w.Puts {
		if _, found := m.entries[e.Key]; !found {
			added = append(added, e.Key)
		}
		m.entries[e.Key] = append([]byte{}, e.Value...)
	}
	gone := false
	for _, key := range w.Deletes {
		_, found := m.entries[key]
		gone = gone || found
		delete(m.entries, key)
	}
	if gone {
		m.keys = slices.DeleteFunc(m.keys, func(key string) bool {
			_, found := m.entries[key]
			return !found
		})
	}
	if len(added) == 0 {
		return
	}
	slices.Sort(added)
	m.keys = merge(m.keys, added)
}

// merge merges two sorted lists without common elements.
func merge(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Drop implements driver.Memories.
func (m *memories) Drop(ctx context.Context, scope driver.MemoryScope) (bool, error) {
	if err := scope.Check(); err != nil {
		return false, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	_, found := s.memories[scope]
	delete(s.memories, scope)
	return found, nil
}

// Scopes implements driver.Memories.
func (m *memories) Scopes(ctx context.Context, q driver.MemoryScopeQuery) (page driver.Page[driver.MemoryScopeRow], err error) {
	after, err := q.After()
	if err != nil {
		return page, err
	}
	s := (*Store)(m)
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	var rows []driver.MemoryScopeRow
	for _, there := range s.memories {
		if q.Selects(&there.row, after, now) {
			rows = append(rows, there.row)
		}
	}
	slices.SortFunc(rows, func(a, b driver.MemoryScopeRow) int { return a.Compare(b.MemoryScope) })
	return driver.MemoryScopePage(&q, rows), nil
}
