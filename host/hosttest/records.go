package hosttest

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
)

// withRecords returns a process's store with the records of the store, if it keeps any.
func (s *tap) withRecords(line driver.Store) driver.Store {
	if p, ok := driver.As[driver.RecordProvider](s.Store); ok {
		return recordStore{line, recordLine{p.Records(), s}}
	}
	return line
}

// recordStore is a store with records, as a process sees it.
type recordStore struct {
	driver.Store
	records recordLine
}

func (r recordStore) Unwrap() driver.Store    { return r.Store }
func (r recordStore) Records() driver.Records { return r.records }

// recordLine are the records as a process sees them.
type recordLine struct {
	driver.Records
	s *tap
}

func (l recordLine) Get(ctx context.Context, namespace, key string) (*driver.Record, error) {
	return through(l.s, operation{name: "GetRecord"}, func() (*driver.Record, error) { return l.Records.Get(ctx, namespace, key) })
}

func (l recordLine) Put(ctx context.Context, w driver.RecordWrite) (*driver.Record, error) {
	return through(l.s, operation{name: "PutRecord"}, func() (*driver.Record, error) { return l.Records.Put(ctx, w) })
}

func (l recordLine) Delete(ctx context.Context, namespace, key string, seen int64) error {
	_, err := through(l.s, operation{name: "DeleteRecord"}, func() (struct{}, error) { return only(l.Records.Delete(ctx, namespace, key, seen)) })
	return err
}

func (l recordLine) List(ctx context.Context, q driver.RecordQuery) (driver.Page[driver.Record], error) {
	return through(l.s, operation{name: "ListRecords"}, func() (driver.Page[driver.Record], error) { return l.Records.List(ctx, q) })
}
