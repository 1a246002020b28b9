package dostore

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Records returns the store's records. They are rows of the directory:
//
//	owner record/NAMESPACE, key KEY            the record
//	owner index/NAMESPACE,  key INDEX NUL KEY  for each record with an index
//	owner expiry/NAMESPACE, key TIME/KEY       for each record that expires
//	owner namespaces,       key NAMESPACE      changes with each new record
func (s *Store) Records() driver.Records { return (*records)(s) }

var _ driver.RecordProvider = (*Store)(nil)

// records is the store as driver.Records.
type records Store

// storedRecord is a record as it is stored: its value is kept byte for byte. Its version is the time of its row.
type storedRecord struct {
	Index     string    `json:"index,omitempty"`
	Value     string    `json:"value"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

const namespaces = "namespaces"

// swept is how many expired records a Put deletes at most.
const swept = 4

func decodeRecord(namespace string, r *row, now time.Time) (*driver.Record, error) {
	var stored storedRecord
	if err := backend.DecodeJSON("record", r.value, &stored); err != nil {
		return nil, err
	}
	return &driver.Record{Namespace: namespace, Key: r.key, Index: stored.Index, Value: json.RawMessage(stored.Value), Version: r.version,
		CreatedAt: stored.CreatedAt, UpdatedAt: stored.UpdatedAt, ExpiresAt: stored.ExpiresAt, AsOf: now}, nil
}

func (r *records) directory() *link { return (*Store)(r).directory() }

// look reads a record, which may have expired, and more: the answer's parts for more begin at 1.
func (r *records) look(ctx context.Context, namespace, key string, more ...ask) (*driver.Record, *answer, error) {
	a, err := r.directory().call(ctx, &request{Op: "read", Ask: append([]ask{get("record/"+namespace, key)}, more...)})
	if err != nil {
		return nil, nil, err
	}
	found, err := a.one(0)
	if err != nil || found == nil {
		return nil, a, err
	}
	rec, err := decodeRecord(namespace, found, a.asOf())
	return rec, a, err
}

// Get implements driver.Records.
func (r *records) Get(ctx context.Context, namespace, key string) (*driver.Record, error) {
	if err := driver.CheckRecordKey(namespace, key); err != nil {
		return nil, err
	}
	rec, _, err := r.look(ctx, namespace, key)
	if err == nil && (rec == nil || rec.Expired(rec.AsOf)) {
		return nil, driver.RecordNotFound(namespace, key)
	}
	return rec, err
}

// drop adds the removal of a record with its places to a write.
func drop(w *rows, rec *driver.Record) {
	w.Clear = append(w.Clear, only("record/"+rec.Namespace, rec.Key))
	if rec.Index != "" {
		w.Clear = append(w.Clear, only("index/"+rec.Namespace, rec.Index+"\x00"+rec.Key))
	}
	if !rec.ExpiresAt.IsZero() {
		w.Clear = append(w.Clear, only("expiry/"+rec.Namespace, timed(rec.ExpiresAt, rec.Key)))
	}
}

// Put implements driver.Records.
func (r *records) Put(ctx context.Context, w driver.RecordWrite) (*driver.Record, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	owner := "record/" + w.Namespace
	due := scan("expiry/"+w.Namespace, "", behind)
	due.Limit = swept
	for {
		there, a, err := r.look(ctx, w.Namespace, w.Key, due)
		if err != nil {
			return nil, err
		}
		over, err := r.overdue(ctx, w.Namespace, w.Key, a)
		if err != nil {
			return nil, err
		}
		var next *driver.Record
		refused, version, err := r.directory().write(ctx, func(at time.Time) (*request, error) {
			q := &rows{owner: owner, at: at}
			if next, err = w.Apply(there, at); err != nil {
				return nil, err
			}
			var version int64
			if there != nil {
				version = there.Version
				drop(q, there)
			}
			q.expect(owner, w.Key, version)
			for _, old := range over {
				q.expect(owner, old.Key, old.Version)
				drop(q, old)
			}
			q.put(owner, w.Key, "record", storedRecord{next.Index, string(next.Value), next.CreatedAt, next.UpdatedAt, next.ExpiresAt})
			if next.Index != "" {
				q.text("index/"+w.Namespace, next.Index+"\x00"+w.Key, "")
			}
			if !next.ExpiresAt.IsZero() {
				q.text("expiry/"+w.Namespace, timed(next.ExpiresAt, w.Key), "")
			}
			if there == nil {
				q.text(namespaces, w.Namespace, "")
			}
			return &q.request, q.err
		})
		if err != nil || refused == nil {
			if err != nil {
				return nil, err
			}
			next.Version = version
			return next, nil
		}
	}
}

// overdue returns the records other than key, among those that expire first, that have expired.
func (r *records) overdue(ctx context.Context, namespace, key string, a *answer) (over []*driver.Record, err error) {
	list, err := a.all(1)
	if err != nil {
		return nil, err
	}
	var asks []ask
	for i := range list {
		at, name, _ := strings.Cut(list[i].key, "/")
		if at <= strings.TrimSuffix(timed(a.asOf(), ""), "/") && name != key {
			asks = append(asks, get("record/"+namespace, name))
		}
	}
	if len(asks) == 0 {
		return nil, nil
	}
	if a, err = r.directory().call(ctx, &request{Op: "read", Ask: asks}); err != nil {
		return nil, err
	}
	for i := range asks {
		found, err := a.one(i)
		if err != nil || found == nil {
			return nil, err
		}
		rec, err := decodeRecord(namespace, found, a.asOf())
		if err != nil {
			return nil, err
		}
		if rec.Expired(rec.AsOf) {
			over = append(over, rec)
		}
	}
	return over, nil
}

// Delete implements driver.Records.
func (r *records) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if err := driver.CheckRecordDelete(namespace, key, seen); err != nil {
		return err
	}
	two := scan("record/"+namespace, "", behind)
	two.Limit = 2
	for {
		there, a, err := r.look(ctx, namespace, key, two, get(namespaces, namespace))
		switch {
		case err != nil:
			return err
		case there == nil || there.Expired(there.AsOf):
			return driver.RecordNotFound(namespace, key)
		case seen != driver.AnyVersion && seen != there.Version:
			return driver.RecordConflict(namespace, key, seen, there)
		}
		q := &rows{}
		q.expect("record/"+namespace, key, there.Version)
		drop(q, there)
		list, err := a.all(1)
		if err != nil {
			return err
		}
		name, err := a.one(2)
		if err != nil {
			return err
		}
		if len(list) == 1 && name != nil { // the last one
			q.expect(namespaces, namespace, name.version)
			q.Clear = append(q.Clear, only(namespaces, namespace))
		}
		if refused, _, err := r.directory().write(ctx, fixed(&q.request)); err != nil || refused == nil {
			return err
		}
	}
}

// List implements driver.Records.
func (r *records) List(ctx context.Context, q driver.RecordQuery) (page driver.Page[driver.Record], err error) {
	selected, err := q.Range()
	if err != nil {
		return page, err
	}
	a := scan("record/"+q.Namespace, max(selected.From, selected.AfterKey), selected.Before)
	if selected.ByIndex {
		a = scan("index/"+q.Namespace, max(selected.From, selected.AfterIndex), selected.Before)
	}
	for a.Limit = q.Size() + 1; ; {
		found, err := r.scan(ctx, q.Namespace, a, selected.ByIndex)
		if err != nil {
			return page, err
		}
		for _, rec := range found.list {
			if rec.Expired(rec.AsOf) || !selected.Selects(rec) {
				continue
			}
			if n := len(page.Items); n == q.Size() {
				page.Next = driver.RecordCursor(&q, &page.Items[n-1])
				return page, nil
			}
			page.Items = append(page.Items, *rec)
		}
		if found.rows < a.Limit {
			return page, nil
		}
		a.Of[1] = found.last + "\x00"
	}
}

// scanned is a part of a list of records: how many rows it has, the key of the last one, and the records.
type scanned struct {
	rows int
	last string
	list []*driver.Record
}

// scan reads records, or the records of rows of an index.
func (r *records) scan(ctx context.Context, namespace string, part ask, byIndex bool) (s scanned, err error) {
	a, err := r.directory().call(ctx, &request{Op: "read", Ask: []ask{part}})
	if err != nil {
		return s, err
	}
	list, err := a.all(0)
	if err != nil || len(list) == 0 {
		return s, err
	}
	s.rows, s.last = len(list), list[len(list)-1].key
	if !byIndex {
		for i := range list {
			rec, err := decodeRecord(namespace, &list[i], a.asOf())
			if err != nil {
				return s, err
			}
			s.list = append(s.list, rec)
		}
		return s, nil
	}
	asks := make([]ask, len(list))
	for i := range list {
		_, key, _ := strings.Cut(list[i].key, "\x00")
		asks[i] = get("record/"+namespace, key)
	}
	if a, err = r.directory().call(ctx, &request{Op: "read", Ask: asks}); err != nil {
		return s, err
	}
	for i := range asks {
		found, err := a.one(i)
		if err != nil {
			return s, err
		}
		if found != nil { // not deleted since
			rec, err := decodeRecord(namespace, found, a.asOf())
			if err != nil {
				return s, err
			}
			s.list = append(s.list, rec)
		}
	}
	return s, nil
}

// Namespaces implements driver.Records.
func (r *records) Namespaces(ctx context.Context, cursor string) (page driver.Page[string], err error) {
	if err := driver.CheckNamespaceCursor(cursor); err != nil {
		return page, err
	}
	from := ""
	if cursor != "" {
		from = cursor + "\x00"
	}
	part := scan(namespaces, from, behind)
	part.Limit = driver.MaxRecordPage + 1
	a, err := r.directory().call(ctx, &request{Op: "read", Ask: []ask{part}})
	if err != nil {
		return page, err
	}
	list, err := a.all(0)
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].key
	}
	return driver.NamespacePage(names), err
}
