package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A copy keeps the record's value, its index and the time to live that it has left. A copy that exists is not written
// again.
func TestCopyRecord(t *testing.T) {
	t.Parallel()
	from, to := memstore.New(nil).Records(), memstore.New(nil).Records()
	r, err := from.Put(t.Context(), driver.RecordWrite{Namespace: "ns", Key: "key", Index: "i", Value: json.RawMessage(`{"a": 1}`), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r.AsOf = r.ExpiresAt.Add(-40 * time.Minute)
	for _, want := range []bool{true, false} {
		if copied, err := store.CopyRecord(t.Context(), r, to); err != nil || copied != want {
			t.Fatalf("copied %t, %v; want %t", copied, err, want)
		}
	}
	got, err := to.Get(t.Context(), "ns", "key")
	if err != nil {
		t.Fatal(err)
	}
	if left := got.ExpiresAt.Sub(got.CreatedAt); got.Index != "i" || string(got.Value) != `{"a": 1}` || left != 40*time.Minute {
		t.Errorf("the copy has index %q, value %s and %s left", got.Index, got.Value, left)
	}
	if there, err := store.CopiedRecord(t.Context(), r, to); err != nil || !there {
		t.Errorf("the copy is there: %t, %v", there, err)
	}
	r.Index = "other"
	if there, err := store.CopiedRecord(t.Context(), r, to); there || !errors.Is(err, cairn.ErrExists) {
		t.Errorf("a different record is there: %t, %v", there, err)
	}
	if copied, err := store.CopyRecord(t.Context(), r, to); copied || !errors.Is(err, cairn.ErrExists) {
		t.Errorf("over a different record: copied %t, %v", copied, err)
	}
	r.Key = "none"
	if there, err := store.CopiedRecord(t.Context(), r, to); there || err != nil {
		t.Errorf("no record is there: %t, %v", there, err)
	}
	r.AsOf = r.ExpiresAt
	if copied, err := store.CopyRecord(t.Context(), r, to); copied || err != nil {
		t.Errorf("a record that has expired: copied %t, %v", copied, err)
	}
}
