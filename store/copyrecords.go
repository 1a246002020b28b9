package store

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// CopyRecord writes a record of one store to another one, with its value, its index and the time to live that it had
// left when it was read. Version and times are those of the other store. copied is false if a record of the same value
// and index is there already, so an interrupted copy can be repeated; a different one is left as it is, and the error
// is ErrExists.
func CopyRecord(ctx context.Context, r *Record, to Records) (copied bool, err error) {
	w := RecordWrite{Namespace: r.Namespace, Key: r.Key, Index: r.Index, Value: r.Value}
	if !r.ExpiresAt.IsZero() {
		if w.TTL = r.ExpiresAt.Sub(r.AsOf); w.TTL <= 0 {
			return false, nil
		}
	}
	_, err = to.Put(ctx, w)
	var conflict *RecordConflictError
	if !errors.As(err, &conflict) || conflict.Record == nil {
		return err == nil, err
	}
	there := conflict.Record
	if there.Index == r.Index && string(there.Value) == string(r.Value) {
		return false, nil
	}
	return false, cairn.Errorf(cairn.CodeExists, "record %q in %q is there already, and differs", r.Key, r.Namespace)
}
