package pgstore

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// countRecords returns how many rows there are, those that have expired included.
func (s *Store) countRecords(t *testing.T) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), s.texts.of("SELECT count(*) FROM {schema}.records")).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// age takes some seconds from the times at which all records expire.
func (s *Store) age(t *testing.T, d time.Duration) {
	t.Helper()
	text := s.texts.of(fmt.Sprintf("UPDATE {schema}.records SET expires_at = expires_at - interval '%d seconds'", int(d.Seconds())))
	if err := execAt(t, testenv.FastPostgres(t), text); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) putRecord(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	w := driver.RecordWrite{Namespace: "ns", Key: key, Value: json.RawMessage(`1`), Seen: driver.AnyVersion, TTL: ttl}
	if _, err := s.Records().Put(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// Records that have expired are removed by later writes, a few with each.
func TestExpiredRecordsAreRemoved(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for i := range 25 {
		s.putRecord(t, fmt.Sprint("key-", i), time.Minute)
	}
	s.putRecord(t, "kept", time.Hour)
	s.age(t, time.Minute)
	for _, want := range []int{16, 6, 1, 1} {
		s.putRecord(t, "kept", time.Hour)
		if got := s.countRecords(t); got != want {
			t.Fatalf("%d rows are left, want %d", got, want)
		}
	}
}

// Writers of records that have expired remove each other's and write their own at once: none deadlocks.
func TestExpiredRecordsAndManyWriters(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	const n = 30
	for range 5 {
		for i := range n {
			s.putRecord(t, fmt.Sprint("key-", i), time.Minute)
		}
		s.age(t, time.Minute)
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() {
				w := driver.RecordWrite{Namespace: "ns", Key: fmt.Sprint("key-", i), Value: json.RawMessage(`1`)}
				if _, err := s.Records().Put(t.Context(), w); err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		group.Wait()
		if got := s.countRecords(t); got != n {
			t.Fatalf("%d rows are left, want %d", got, n)
		}
	}
}
