package redisstore

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// aboutRecords returns a script whose first argument is a namespace.
func aboutRecords(name, doing string, e effect) *script {
	return load(name, doing, e, source("common")+source("record")+source(name))
}

var (
	scriptRecordGet    = aboutRecords("recordget", "read a record", reads)
	scriptRecordPut    = aboutRecords("recordput", "write a record", grows)
	scriptRecordDelete = aboutRecords("recorddelete", "delete a record", frees)
	scriptRecordList   = aboutRecords("recordlist", "list records", frees)
	scriptNamespaces   = keyed("namespaces", "list namespaces", reads)
)

var _ driver.RecordProvider = (*Store)(nil)

// Records returns the store's records. Each call runs one script; only a page with many entries of expired records
// takes several. On a cluster a namespace is in one slot, so that its lists are exact and a record changes together
// with its index entries; its records share one node. The server removes an expired record by itself. Later writes and
// lists remove its index entries, each write the entries of up to ten records. A write whose answer was lost is sent
// again and recognized.
func (s *Store) Records() driver.Records { return (*records)(s) }

// records is the store as driver.Records.
type records Store

// runRecords runs a script on the bucket of a namespace.
func (s *Store) runRecords(ctx context.Context, sc *script, namespace string, args ...any) (reply, error) {
	return s.run(ctx, sc, s.bucketOf(namespace), append([]any{namespace}, args...)...)
}

// decodeRecord decodes the fields that record.lua returns, which were read at the time asOf.
func decodeRecord(namespace, key, asOf string, fields reply) (*driver.Record, error) {
	r := &driver.Record{Namespace: namespace, Key: key, Index: fields.text(0), Value: json.RawMessage(fields.text(5))}
	var err error
	number := func(text string) int64 {
		n, failed := strconv.ParseInt(text, 10, 64)
		if failed != nil && err == nil {
			err = cairn.Errorf(cairn.ErrCorrupt, "record %q in %q: invalid stored number %q", key, namespace, text)
		}
		return n
	}
	r.Version = number(fields.text(1))
	for i, at := range []*time.Time{&r.CreatedAt, &r.UpdatedAt, &r.ExpiresAt} {
		*at = fromMicros(number(fields.text(2 + i)))
	}
	r.AsOf = fromMicros(number(asOf))
	if err == nil && len(fields) > 5 && !json.Valid(r.Value) {
		err = cairn.Errorf(cairn.ErrCorrupt, "record %q in %q: the stored value is not valid JSON", key, namespace)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// staleRecord returns the conflict that an answer reports.
func staleRecord(namespace, key string, seen int64, r reply) error {
	fields := reply(r.list(2))
	if len(fields) == 0 {
		return driver.RecordConflict(namespace, key, seen, nil)
	}
	there, err := decodeRecord(namespace, key, r.text(1), fields)
	if err != nil {
		return err
	}
	return driver.RecordConflict(namespace, key, seen, there)
}

// Get implements driver.Records.
func (r *records) Get(ctx context.Context, namespace, key string) (*driver.Record, error) {
	if err := driver.CheckRecordKey(namespace, key); err != nil {
		return nil, err
	}
	answer, err := (*Store)(r).runRecords(ctx, scriptRecordGet, namespace, key)
	switch {
	case err != nil:
		return nil, err
	case answer.word() == "none":
		return nil, driver.RecordNotFound(namespace, key)
	}
	return decodeRecord(namespace, key, answer.text(1), answer.list(2))
}

// Put implements driver.Records.
func (r *records) Put(ctx context.Context, w driver.RecordWrite) (*driver.Record, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	answer, err := (*Store)(r).runRecords(ctx, scriptRecordPut, w.Namespace, w.Key, w.Index, string(w.Value), w.Seen, w.Micros(), ids.New("put"))
	switch {
	case err != nil:
		return nil, err
	case answer.word() == "stale":
		return nil, staleRecord(w.Namespace, w.Key, w.Seen, answer)
	}
	next, err := decodeRecord(w.Namespace, w.Key, answer.text(1), answer.list(2))
	if err != nil {
		return nil, err
	}
	next.Value = slices.Clone(w.Value)
	return next, nil
}

// Delete implements driver.Records.
func (r *records) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if err := driver.CheckRecordDelete(namespace, key, seen); err != nil {
		return err
	}
	answer, err := (*Store)(r).runRecords(ctx, scriptRecordDelete, namespace, key, seen, ids.New("delete"))
	switch {
	case err != nil:
		return err
	case answer.word() == "none":
		return driver.RecordNotFound(namespace, key)
	case answer.word() == "stale":
		return staleRecord(namespace, key, seen, answer)
	}
	return nil
}

// List implements driver.Records.
func (r *records) List(ctx context.Context, q driver.RecordQuery) (page driver.Page[driver.Record], err error) {
	selected, err := q.Range()
	if err != nil {
		return page, err
	}
	lists, from, size := "vk", "["+selected.From, q.Size()
	switch {
	case selected.ByIndex:
		lists, from = "vi", "("+selected.AfterIndex+"\x00"+selected.AfterKey
	case selected.AfterKey >= selected.From && selected.AfterKey != "":
		from = "(" + selected.AfterKey
	}
	var list []driver.Record
	for len(list) <= size {
		answer, err := (*Store)(r).runRecords(ctx, scriptRecordList, q.Namespace, lists, from, "("+selected.Before, size+1)
		if err != nil {
			return page, err
		}
		items := answer.list(2)
		for i := 0; i+1 < len(items); i += 2 {
			fields, _ := items[i+1].([]any)
			rec, err := decodeRecord(q.Namespace, plain(items[i]), answer.text(1), fields)
			if err != nil {
				return page, err
			}
			list = append(list, *rec)
		}
		last := answer.text(3)
		if last == "" {
			break
		}
		from = "(" + last
	}
	if len(list) > size {
		list = list[:size]
		page.Next = driver.RecordCursor(&q, &list[size-1])
	}
	page.Items = list
	return page, nil
}

// Namespaces implements driver.Records. On a cluster it asks every bucket.
func (r *records) Namespaces(ctx context.Context, cursor string) (driver.Page[string], error) {
	if err := driver.CheckNamespaceCursor(cursor); err != nil {
		return driver.Page[string]{}, err
	}
	replies, err := (*Store)(r).runAll(ctx, scriptNamespaces, "("+cursor, driver.MaxRecordPage+1)
	if err != nil {
		return driver.Page[string]{}, err
	}
	var names []string
	for _, answer := range replies {
		for _, name := range answer.list(1) {
			names = append(names, plain(name))
		}
	}
	slices.Sort(names)
	return driver.NamespacePage(names), nil
}
