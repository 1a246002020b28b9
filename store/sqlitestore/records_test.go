package sqlitestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// countRows returns how many rows a table has.
func (s *Store) countRows(t *testing.T, table string) (n int) {
	t.Helper()
	err := s.readers.read(t.Context(), func(c *conn) error {
		_, err := c.row("SELECT count(*) FROM "+table, func(cols *columns) { n = cols.int() })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Later writes remove expired records, a few each.
func TestExpiredRecordsAreRemoved(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	now := time.Now()
	s.opts.Now = func() time.Time { return now }
	put := func(key string, ttl time.Duration) {
		t.Helper()
		w := driver.RecordWrite{Namespace: "ns", Key: key, Value: json.RawMessage(`1`), Seen: driver.AnyVersion, TTL: ttl}
		if _, err := s.Records().Put(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 25 {
		put(fmt.Sprint("key-", i), time.Minute)
	}
	put("kept", time.Hour)
	now = now.Add(time.Minute)
	for _, want := range []int{16, 6, 1, 1} {
		put("kept", time.Hour)
		if got := s.countRows(t, "records"); got != want {
			t.Fatalf("%d rows are left, want %d", got, want)
		}
	}
}

// Versions do not go back when the clock is set back.
func TestRecordVersionsAndAClockSetBack(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	now := time.Now()
	s.opts.Now = func() time.Time { return now }
	versions := map[int64]bool{}
	for range 3 {
		r, err := s.Records().Put(t.Context(), driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`1`)})
		if err != nil || versions[r.Version] {
			t.Fatalf("record %+v, %v, after the versions %v", r, err, versions)
		}
		versions[r.Version] = true
		if err := s.Records().Delete(t.Context(), "ns", "key", r.Version); err != nil {
			t.Fatal(err)
		}
		now = now.Add(-time.Hour)
	}
}

// A stored record that cannot be read causes an error of its own, and can be replaced.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	err := s.writer.write(t.Context(), true, func(c *conn) error {
		_, err := c.exec(`INSERT INTO records (namespace, key, position, created_at, updated_at, expires_at, value) VALUES ('ns', 'key', '', 0, 0, 0, '{')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Records().Get(t.Context(), "ns", "key"); !errors.Is(err, cairn.ErrCorrupt) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Records().List(t.Context(), driver.RecordQuery{Namespace: "ns"}); !errors.Is(err, cairn.ErrCorrupt) {
		t.Errorf("list: %v", err)
	}
}
