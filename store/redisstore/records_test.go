package redisstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
)

func TestClusterRecordConformance(t *testing.T) {
	storetest.RunRecords(t, func(tb testing.TB) driver.Store { return openCluster(tb) }, &storetest.Options{
		Reopen: func(tb testing.TB, st driver.Store) driver.Store { return reopen(tb, st.(*Store)) },
		Second: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
	})
}

func put(t *testing.T, s *Store, w driver.RecordWrite) *driver.Record {
	t.Helper()
	w.Namespace, w.Value = "ns", json.RawMessage(`1`)
	r, err := s.Records().Put(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// recordKeys returns the names of the keys of records, without those of attempts.
func recordKeys(t *testing.T, s *Store) []string {
	t.Helper()
	all, err := s.client.Keys(t.Context(), s.opts.Prefix+":{*}:v*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range all {
		all[i] = strings.TrimPrefix(key, s.buckets[0])
	}
	slices.Sort(all)
	return all
}

// The server removes expired records by itself, and writes remove their index entries, even if a record came back under
// another index.
func TestExpiredRecordsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for i := range 25 {
		put(t, s, driver.RecordWrite{Key: fmt.Sprint("key-", i), Index: "early", TTL: time.Millisecond})
	}
	testclock.Await(t, "the values to go", func() bool {
		return !slices.ContainsFunc(recordKeys(t, s), func(key string) bool { return strings.HasPrefix(key, "v:") })
	})
	for i := range 2 {
		put(t, s, driver.RecordWrite{Key: fmt.Sprint("key-", 24-i), Index: "late"})
	}
	put(t, s, driver.RecordWrite{Key: "key-24", Seen: driver.AnyVersion})
	places, err := s.client.ZRange(t.Context(), s.buckets[0]+"vi:ns", 0, -1).Result()
	if err != nil || !slices.Equal(places, []string{"late\x00key-23"}) {
		t.Errorf("places by index: %q, %v", places, err)
	}
	for i := range 2 {
		if err := s.Records().Delete(t.Context(), "ns", fmt.Sprint("key-", 24-i), driver.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	if got := recordKeys(t, s); !slices.Equal(got, []string{"vn"}) {
		t.Errorf("keys: %q", got)
	}
}

// A list continues if all index entries that it reads first belong to expired records, and takes none of them for the
// entry of a record that came back.
func TestListPastExpiredRecords(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	last := put(t, s, driver.RecordWrite{Key: "z", Index: "z"})
	for i := range 450 {
		put(t, s, driver.RecordWrite{Key: fmt.Sprintf("key-%03d", 449-i), Index: "i", TTL: 500 * time.Millisecond})
	}
	testclock.Await(t, "the records to expire", func() bool {
		r, err := s.Records().Get(t.Context(), "ns", "key-000")
		return r == nil && err != nil
	})
	back := put(t, s, driver.RecordWrite{Key: "key-000", Index: "j"})
	for _, q := range []driver.RecordQuery{{Index: &driver.IndexRange{}}, {}} {
		q.Namespace, q.Limit = "ns", 2
		page, err := s.Records().List(t.Context(), q)
		if err != nil || len(page.Items) != 2 || page.Items[0].Version != back.Version || page.Items[1].Version != last.Version || page.Next != "" {
			t.Errorf("page %+v, %v", page, err)
		}
	}
}

// A write whose answer was lost is sent again and not applied twice, even if another write came in between.
func TestLostAnswerOfARecordsWrite(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cutting{"request": cutRequest, "answer": cutAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := throughProxy(t)
			p.setCut(everyOther(how, "cut-me"))
			seen := int64(0)
			for n := range 20 {
				r, err := s.Records().Put(t.Context(), driver.RecordWrite{Namespace: "ns", Key: "cut-me", Value: json.RawMessage(strconv.Itoa(n)), Seen: seen})
				if err != nil {
					t.Fatalf("put %d: %v", n, err)
				}
				seen = r.Version
				if n%5 == 4 {
					if err := s.Records().Delete(t.Context(), "ns", "cut-me", seen); err != nil {
						t.Fatalf("delete %d: %v", n, err)
					}
					seen = 0
				}
			}
		})
	}
}

// FuzzDecodeRecord decodes records that the store did not write: the result is an error or a record, and no panic.
func FuzzDecodeRecord(f *testing.F) {
	f.Add("i", "1", "2", "3", "0", "{}", "4")
	f.Add("", "x", "", "-1", "99999999999999999999", "{", "")
	f.Fuzz(func(t *testing.T, index, version, created, updated, expires, value, asOf string) {
		r, err := decodeRecord("ns", "key", asOf, reply{index, version, created, updated, expires, value})
		switch {
		case (r == nil) == (err == nil):
			t.Fatalf("record %+v, error %v", r, err)
		case r != nil && !json.Valid(r.Value):
			t.Fatalf("the value is %q", r.Value)
		}
	})
}
