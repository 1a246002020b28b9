package memstore

import (
	"context"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn/store/driver"
)

// Records returns the store's records.
func (s *Store) Records() driver.Records { return (*records)(s) }

var _ driver.RecordProvider = (*Store)(nil)

// records is the store as driver.Records.
type records Store

// namespace holds its records by key. Records are replaced, never modified.
type namespace struct {
	records map[string]*driver.Record
	// sweepAt is the number of records at which expired ones are removed.
	sweepAt int
}

// minSweep is the minimum of sweepAt.
const minSweep = 16

// sweep removes expired records once the namespace has doubled in size, so that the amortised cost of a write is
// constant.
func (n *namespace) sweep(s *Store) {
	if len(n.records) < n.sweepAt {
		return
	}
	now := s.clock()
	for key, r := range n.records {
		if r.Expired(now) {
			delete(n.records, key)
		}
	}
	n.sweepAt = max(2*len(n.records), minSweep)
}

// open locks the store and returns the record of a key, or nil. If there is no error the caller must unlock the store.
func (r *records) open(ctx context.Context, name, key string) (*driver.Record, error) {
	s := (*Store)(r)
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	n := s.namespaces[name]
	if n == nil {
		return nil, nil
	}
	there := n.records[key]
	if there == nil || there.Expired(s.clock()) {
		return nil, nil
	}
	return s.shown(there), nil
}

// shown returns a copy of a record for the caller, as of now.
func (s *Store) shown(r *driver.Record) *driver.Record {
	out := *r
	out.AsOf, out.Value = s.clock(), slices.Clone(r.Value)
	return &out
}

// Get implements driver.Records.
func (r *records) Get(ctx context.Context, namespace, key string) (*driver.Record, error) {
	if err := driver.CheckRecordKey(namespace, key); err != nil {
		return nil, err
	}
	there, err := r.open(ctx, namespace, key)
	if err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	if there == nil {
		return nil, driver.RecordNotFound(namespace, key)
	}
	return there, nil
}

// Put implements driver.Records.
func (r *records) Put(ctx context.Context, w driver.RecordWrite) (*driver.Record, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	there, err := r.open(ctx, w.Namespace, w.Key)
	if err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	s := (*Store)(r)
	next, err := w.Apply(there, s.clock())
	if err != nil {
		return nil, err
	}
	s.recordVersion++
	next.Version = s.recordVersion
	next.Value = slices.Clone(w.Value)
	n := s.namespaces[w.Namespace]
	if n == nil {
		n = &namespace{records: map[string]*driver.Record{}, sweepAt: minSweep}
		if s.namespaces == nil {
			s.namespaces = map[string]*namespace{}
		}
		s.namespaces[w.Namespace] = n
	}
	n.sweep(s)
	n.records[w.Key] = next
	return s.shown(next), nil
}

// Delete implements driver.Records.
func (r *records) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if err := driver.CheckRecordDelete(namespace, key, seen); err != nil {
		return err
	}
	there, err := r.open(ctx, namespace, key)
	if err != nil {
		return err
	}
	defer r.mu.Unlock()
	switch {
	case there == nil:
		return driver.RecordNotFound(namespace, key)
	case seen != driver.AnyVersion && seen != there.Version:
		return driver.RecordConflict(namespace, key, seen, there)
	}
	n := r.namespaces[namespace]
	if delete(n.records, key); len(n.records) == 0 {
		delete(r.namespaces, namespace)
	}
	return nil
}

// List implements driver.Records.
func (r *records) List(ctx context.Context, q driver.RecordQuery) (page driver.Page[driver.Record], err error) {
	selected, err := q.Range()
	if err != nil {
		return page, err
	}
	s := (*Store)(r)
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	n := s.namespaces[q.Namespace]
	if n == nil {
		return page, nil
	}
	now := s.clock()
	var list []*driver.Record
	for _, rec := range n.records {
		if !rec.Expired(now) && selected.Selects(rec) {
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, selected.Compare)
	for _, rec := range list[:min(len(list), q.Size())] {
		page.Items = append(page.Items, *s.shown(rec))
	}
	if len(list) > q.Size() {
		page.Next = driver.RecordCursor(&q, list[q.Size()-1])
	}
	return page, nil
}

// Namespaces implements driver.Records.
func (r *records) Namespaces(ctx context.Context, cursor string) (page driver.Page[string], err error) {
	if err := driver.CheckNamespaceCursor(cursor); err != nil {
		return page, err
	}
	s := (*Store)(r)
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.namespaces))
	after, found := slices.BinarySearch(names, cursor)
	if found {
		after++
	}
	return driver.NamespacePage(names[after:]), nil
}
