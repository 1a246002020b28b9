package driver_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// A write is compared with the existing record, which counts until it expires.
func TestRecordWriteApplies(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	before := now.Add(-time.Hour)
	for _, test := range []struct {
		name    string
		seen    int64
		expires time.Duration // after now; 0 if there is no record
		stale   bool
		created time.Time
	}{
		{name: "none, where there is none", created: now},
		{name: "none, where there is one", expires: time.Hour, stale: true},
		{name: "none, where one expires now", expires: -time.Nanosecond, created: now},
		{name: "its version", seen: 3, expires: time.Microsecond, created: before},
		{name: "its version, once it has expired", seen: 3, expires: -time.Hour, stale: true},
		{name: "another version", seen: 2, expires: time.Hour, stale: true},
		{name: "a version, where there is none", seen: 3, stale: true},
		{name: "any, where there is none", seen: driver.AnyVersion, created: now},
		{name: "any, where there is one", seen: driver.AnyVersion, expires: time.Hour, created: before},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var there *driver.Record
			if test.expires != 0 {
				there = &driver.Record{Namespace: "ns", Key: "key", Version: 3, CreatedAt: before, ExpiresAt: now.Add(test.expires)}
			}
			w := driver.RecordWrite{Namespace: "ns", Key: "key", Index: "i", Value: json.RawMessage(`1`), Seen: test.seen, TTL: time.Minute + 1}
			r, err := w.Apply(there, now)
			if errors.Is(err, cairn.ErrStale) != test.stale || (err != nil) != test.stale {
				t.Fatalf("error %v, want a conflict: %v", err, test.stale)
			}
			if err != nil {
				return
			}
			want := driver.Record{Namespace: "ns", Key: "key", Index: "i", Value: json.RawMessage(`1`), CreatedAt: test.created, UpdatedAt: now,
				ExpiresAt: now.Add(time.Minute + time.Microsecond), AsOf: now}
			if got, _ := json.Marshal(r); string(got) != string(mustMarshal(t, want)) {
				t.Errorf("record %s, want %+v", got, want)
			}
		})
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A range contains the keys with a prefix and no others, whatever characters follow in Unicode.
func FuzzRecordPrefix(f *testing.F) {
	for _, seed := range [][2]string{{"", "a"}, {"a", "a"}, {"a", "b"}, {"a\ud7ff", "a\ue000"}, {"\U0010ffff", "\U0010ffffx"}, {"é", "e\u0301"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, prefix, key string) {
		q := driver.RecordQuery{Namespace: "ns", Prefix: prefix}
		r, err := q.Range()
		if err != nil || driver.CheckRecordKey("ns", key) != nil {
			return
		}
		if got, want := r.Selects(&driver.Record{Key: key}), strings.HasPrefix(key, prefix); got != want {
			t.Errorf("prefix %q selects key %q: %v, want %v", prefix, key, got, want)
		}
	})
}

// Every accepted cursor is the cursor of the place that it names.
func FuzzRecordCursor(f *testing.F) {
	for _, seed := range []string{"", "k", "kkey", "i1.ikey", "i01.ikey", "i3.i", "i-1.ikey", "i1ikey", "k\x00"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, cursor string, byIndex bool) {
		q := driver.RecordQuery{Namespace: "ns", Cursor: cursor}
		if byIndex {
			q.Index = &driver.IndexRange{}
		}
		r, err := q.Range()
		if err != nil {
			if !errors.Is(err, cairn.ErrInvalid) {
				t.Fatalf("cursor %q: %v", cursor, err)
			}
			return
		}
		if cursor == "" {
			return
		}
		last := &driver.Record{Key: r.AfterKey, Index: r.AfterIndex}
		if again := driver.RecordCursor(&q, last); again != cursor || r.Selects(last) {
			t.Errorf("cursor %q is that of %+v, whose cursor is %q", cursor, last, again)
		}
	})
}

// A page ends at its limit, which has a bound.
func TestRecordPageSize(t *testing.T) {
	t.Parallel()
	var got []int
	for _, limit := range []int{-1, 0, 1, 99, 100, 101} {
		q := driver.RecordQuery{Limit: limit}
		got = append(got, q.Size())
	}
	if want := []int{100, 100, 1, 99, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
}
