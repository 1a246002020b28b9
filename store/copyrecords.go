package store

import (
	"bytes"
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// CopyRecord writes a record to another store with its value, its index and the time to live that it had left when it
// was read. The other store sets the version and the times. copied is false for a record that has expired, and if an
// equal one already exists, so an interrupted copy can be repeated. A different record is left unchanged and the error
// is ErrExists.
func CopyRecord(ctx context.Context, r *Record, to Records) (copied bool, err error) {
	w := RecordWrite{Namespace: r.Namespace, Key: r.Key, Index: r.Index, Value: r.Value}
	if !r.ExpiresAt.IsZero() {
		if w.TTL = r.ExpiresAt.Sub(r.AsOf); w.TTL <= 0 {
			return false, nil
		}
	}
	_, err = to.Put(ctx, w)
	if there := driver.SeenRecord(err); there != nil {
		return false, sameRecord(r, there)
	}
	return err == nil, err
}

// CopiedRecord reports whether an equal record exists in another store. If a different one exists there, the error is
// ErrExists.
func CopiedRecord(ctx context.Context, r *Record, to Records) (bool, error) {
	there, err := to.Get(ctx, r.Namespace, r.Key)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return false, nil
	case err == nil:
		err = sameRecord(r, there)
	}
	return err == nil, err
}

// sameRecord compares the value and the index of a record with those of its copy.
func sameRecord(r, there *Record) error {
	if r.Index == there.Index && bytes.Equal(r.Value, there.Value) {
		return nil
	}
	return cairn.Errorf(cairn.ErrExists, "record %q in %q already exists and differs", r.Key, r.Namespace)
}
