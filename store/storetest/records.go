package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// recordTests are the tests of stores that are RecordProviders.
var recordTests = []storeTest{
	{name: "RoundTrip", run: recordRoundTrip},
	{name: "Versions", run: recordVersions},
	{name: "NoVersionTwice", run: recordVersionsAreUnique},
	{name: "OneCreates", run: recordOneCreates},
	{name: "OneReplaces", run: recordOneReplaces},
	{name: "OneDeletes", run: recordOneDeletes},
	{name: "AnyVersionIsWritten", run: recordAnyVersion},
	{name: "CountedByMany", run: recordCounter},
	{name: "Expires", run: recordExpires},
	{name: "ExpiryIsRenewed", run: recordRenewed},
	{name: "ExpiryAndLists", run: recordExpiryInLists},
	{name: "TimesAreTheStores", run: recordTimes},
	{name: "ManyExpire", run: recordManyExpire},
	{name: "ByKey", run: recordsByKey},
	{name: "ByPrefix", run: recordsByPrefix},
	{name: "ByIndex", run: recordsByIndex},
	{name: "LargestPage", run: recordLargestPage},
	{name: "ListWhileWriting", run: recordsWhileWriting},
	{name: "Namespaces", run: recordNamespaces},
	{name: "BadQueries", run: recordBadQueries},
	{name: "Identifiers", run: recordIdentifiers},
	{name: "Values", run: recordValues},
	{name: "Refused", run: recordRefused},
	{name: "ValuesAreCopies", run: recordCopies},
	{name: "Cancelled", run: recordCancelled},
	{name: "Closed", run: recordClosed},
	{name: "Reopen", run: recordReopen, needs: needsReopen},
	{name: "TwoHandles", run: recordTwoHandles, needs: needsSecond},
	{name: "Fault", run: recordFault, needs: needsFault},
}

// records returns the store's records. Only tests of stores that have records call it.
func (h *harness) records() driver.Records { return h.st.(driver.RecordProvider).Records() }

// put writes a record over the version seen, with its own key as the index and 1 as the value.
func (h *harness) put(namespace, key string, seen int64) *driver.Record {
	h.Helper()
	return h.putRecord(driver.RecordWrite{Namespace: namespace, Key: key, Index: key, Value: json.RawMessage(`1`), Seen: seen})
}

func (h *harness) putRecord(w driver.RecordWrite) *driver.Record {
	h.Helper()
	tick()
	r, err := h.records().Put(h.Context(), w)
	if err != nil {
		h.Fatalf("put %q in %q: %v", w.Key, w.Namespace, err)
	}
	return r
}

func (h *harness) get(namespace, key string) *driver.Record {
	h.Helper()
	r, err := h.records().Get(h.Context(), namespace, key)
	if err != nil {
		h.Fatalf("get %q in %q: %v", key, namespace, err)
	}
	return r
}

// wantRecord checks which record is stored under a key; nil means none.
func (h *harness) wantRecord(what, namespace, key string, want *driver.Record) {
	h.Helper()
	got, err := h.records().Get(h.Context(), namespace, key)
	if want == nil {
		h.wantError(err, cairn.ErrNotFound, what)
		return
	}
	h.must(err)
	h.sameRecord(what, got, want)
}

// sameRecord compares two records, except for the time at which each was read.
func (h *harness) sameRecord(what string, got, want *driver.Record) {
	h.Helper()
	g, w := *got, *want
	g.AsOf, w.AsOf = time.Time{}, time.Time{}
	same(h.T, what, g, w)
}

// wantStale checks that err is a conflict with a record, or with none if saw is nil.
func (h *harness) wantStale(err error, saw *driver.Record, what string) {
	h.Helper()
	h.wantError(err, cairn.ErrStale, what)
	var c *driver.RecordConflictError
	if !errors.As(err, &c) {
		h.Fatalf("%s: error %q is not a *store.RecordConflictError", what, err)
	}
	switch seen := driver.SeenRecord(err); {
	case (seen == nil) != (saw == nil):
		h.Fatalf("%s: the conflict saw %+v, want %+v", what, seen, saw)
	case seen != nil:
		h.sameRecord(what+": the record seen", seen, saw)
	}
}

func recordRoundTrip(h *harness) {
	h.wantRecord("before", "ns", "key", nil)
	first := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Index: "i", Value: json.RawMessage(`{ "a": [1, 2.50] }`)})
	if first.Namespace != "ns" || first.Key != "key" || first.Index != "i" || string(first.Value) != `{ "a": [1, 2.50] }` || first.Version < 1 ||
		!first.ExpiresAt.IsZero() || first.CreatedAt.IsZero() || !first.UpdatedAt.Equal(first.CreatedAt) {
		h.Fatalf("new record: %+v", first)
	}
	h.wantRecord("the new record", "ns", "key", first)
	second := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`null`), Seen: first.Version, TTL: time.Hour})
	if second.Index != "" || string(second.Value) != `null` || second.Version == first.Version || !second.CreatedAt.Equal(first.CreatedAt) ||
		!second.UpdatedAt.After(first.UpdatedAt) || !second.ExpiresAt.Equal(second.UpdatedAt.Add(time.Hour)) {
		h.Fatalf("record %+v was replaced by %+v", first, second)
	}
	h.wantRecord("the replaced record", "ns", "key", second)
	h.wantRecord("the key in another namespace", "other", "key", nil)
	h.must(h.records().Delete(h.Context(), "ns", "key", second.Version))
	h.wantRecord("the deleted record", "ns", "key", nil)
	third := h.put("ns", "key", 0)
	if !third.CreatedAt.After(second.UpdatedAt) {
		h.Fatalf("a record that was deleted and written again was created at %v, the one before updated at %v", third.CreatedAt, second.UpdatedAt)
	}
}

// recordVersions writes and deletes with every kind of version, where a record exists and where none does.
func recordVersions(h *harness) {
	old := h.put("ns", "there", 0)
	there := h.put("ns", "there", old.Version)
	for what, seen := range map[string]int64{"none": 0, "an old version": old.Version, "a version to come": there.Version + 1000} {
		_, err := h.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: "there", Value: json.RawMessage(`2`), Seen: seen})
		h.wantStale(err, there, "put on "+what)
		if seen != 0 {
			h.wantStale(h.records().Delete(h.Context(), "ns", "there", seen), there, "delete of "+what)
		}
		h.wantRecord("the record after that", "ns", "there", there)
	}
	for what, seen := range map[string]int64{"an old version": old.Version, "version 1": 1} {
		_, err := h.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: "missing", Value: json.RawMessage(`2`), Seen: seen})
		h.wantStale(err, nil, "put on "+what+" of none")
		h.wantError(h.records().Delete(h.Context(), "ns", "missing", seen), cairn.ErrNotFound, "delete of "+what+" of none")
	}
	h.wantRecord("the one that was never written", "ns", "missing", nil)
	h.wantError(h.records().Delete(h.Context(), "ns", "missing", driver.AnyVersion), cairn.ErrNotFound, "delete of any version of none")
	h.must(h.records().Delete(h.Context(), "ns", "there", driver.AnyVersion))
	h.wantRecord("the deleted record", "ns", "there", nil)
}

// recordVersionsAreUnique creates and removes a record in every way: a writer with an old version never mistakes a new
// record for the old one.
func recordVersionsAreUnique(h *harness) {
	versions := map[int64]string{}
	add := func(what string, r *driver.Record) *driver.Record {
		h.Helper()
		if before, ok := versions[r.Version]; ok {
			h.Fatalf("version %d was given to %s and to %s", r.Version, before, what)
		}
		versions[r.Version] = what
		return r
	}
	for i := range 5 {
		r := add(fmt.Sprint("record ", i), h.put("ns", "key", 0))
		r = add(fmt.Sprint("update ", i), h.put("ns", "key", r.Version))
		h.must(h.records().Delete(h.Context(), "ns", "key", r.Version))
		add(fmt.Sprint("expiring ", i), h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`1`), TTL: brief}))
		h.awaitNoRecord("ns", "key")
	}
}

// awaitNoRecord waits until a record has expired by the store's clock.
func (h *harness) awaitNoRecord(namespace, key string) {
	h.Helper()
	testclock.Await(h.T, "the record to expire", func() bool {
		r, err := h.records().Get(h.Context(), namespace, key)
		if err == nil && r.Expired(r.AsOf) {
			h.Fatalf("a record that expires at %v is there at %v", r.ExpiresAt, r.AsOf)
		}
		return errors.Is(err, cairn.ErrNotFound)
	})
}

const recordWriters = 8

// oneRecordWins checks that exactly one writer succeeded.
func (h *harness) oneRecordWins(errs []error, lost cairn.Code) (winner int) {
	h.Helper()
	winner = -1
	for i, err := range errs {
		switch {
		case err != nil:
			h.wantError(err, lost, fmt.Sprintf("writer %d of %d", i, len(errs)))
		case winner >= 0:
			h.Fatalf("writers %d and %d both won", winner, i)
		default:
			winner = i
		}
	}
	if winner < 0 {
		h.Fatalf("none of %d writers won", len(errs))
	}
	return winner
}

// putBy returns a function that writes a record with the number of its writer as the value.
func (h *harness) putBy(key string, seen int64) func(i int) error {
	return func(i int) error {
		_, err := h.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: key, Value: json.RawMessage(strconv.Itoa(i)), Seen: seen})
		return err
	}
}

func recordOneCreates(h *harness) {
	for i := range h.rounds(20) {
		key := fmt.Sprint("key-", i)
		errs := race(recordWriters, h.putBy(key, 0))
		winner := h.oneRecordWins(errs, cairn.ErrStale)
		if got := string(h.get("ns", key).Value); got != strconv.Itoa(winner) {
			h.Fatalf("writer %d won, the record has %s", winner, got)
		}
	}
}

func recordOneReplaces(h *harness) {
	seen := h.put("ns", "key", 0)
	for range h.rounds(20) {
		errs := race(recordWriters, h.putBy("key", seen.Version))
		winner := h.oneRecordWins(errs, cairn.ErrStale)
		now := h.get("ns", "key")
		if got := string(now.Value); got != strconv.Itoa(winner) {
			h.Fatalf("writer %d won, the record has %s", winner, got)
		}
		seen = now
	}
}

func recordOneDeletes(h *harness) {
	for range h.rounds(20) {
		for _, any := range []bool{false, true} {
			seen := h.put("ns", "key", 0).Version
			if any {
				seen = driver.AnyVersion
			}
			h.oneRecordWins(race(recordWriters, func(int) error {
				return h.records().Delete(h.Context(), "ns", "key", seen)
			}), cairn.ErrNotFound)
			h.wantRecord("the deleted record", "ns", "key", nil)
		}
	}
}

func recordAnyVersion(h *harness) {
	for range h.rounds(20) {
		for _, err := range race(recordWriters, h.putBy("key", driver.AnyVersion)) {
			h.must(err)
		}
		h.must(h.records().Delete(h.Context(), "ns", "key", driver.AnyVersion))
	}
}

// recordCounter has several writers add to one number: no addition is lost.
func recordCounter(h *harness) {
	each := h.rounds(20)
	errs := race(4, func(int) error {
		for added := 0; added < each; {
			w := driver.RecordWrite{Namespace: "ns", Key: "counter", Value: json.RawMessage(`1`)}
			r, err := h.records().Get(h.Context(), "ns", "counter")
			switch {
			case err == nil:
				n, err := strconv.Atoi(string(r.Value))
				if err != nil {
					return err
				}
				w.Value, w.Seen = json.RawMessage(strconv.Itoa(n+1)), r.Version
			case !errors.Is(err, cairn.ErrNotFound):
				return err
			}
			switch _, err := h.records().Put(h.Context(), w); {
			case err == nil:
				added++
			case !errors.Is(err, cairn.ErrStale):
				return err
			}
		}
		return nil
	})
	h.must(errors.Join(errs...))
	if got := string(h.get("ns", "counter").Value); got != strconv.Itoa(4*each) {
		h.Fatalf("the counter is %s after %d additions", got, 4*each)
	}
}

// recordExpires does everything with an expired record: the store behaves as if there were none.
func recordExpires(h *harness) {
	expired := func() *driver.Record {
		h.Helper()
		r := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Index: "i", Value: json.RawMessage(`1`), Seen: driver.AnyVersion, TTL: brief})
		h.awaitNoRecord("ns", "key")
		return r
	}
	r := expired()
	_, err := h.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`2`), Seen: r.Version})
	h.wantStale(err, nil, "put on the version of an expired record")
	h.wantError(h.records().Delete(h.Context(), "ns", "key", r.Version), cairn.ErrNotFound, "delete of an expired record")
	h.wantError(h.records().Delete(h.Context(), "ns", "key", driver.AnyVersion), cairn.ErrNotFound, "delete of any version of an expired record")
	for _, seen := range []int64{0, driver.AnyVersion} {
		r = expired()
		next := h.put("ns", "key", seen)
		if next.CreatedAt.Before(r.ExpiresAt) || next.Version == r.Version {
			h.Fatalf("the record after %+v is %+v", r, next)
		}
		h.wantRecord("the record after an expired one", "ns", "key", next)
	}
	r = expired()
	if winner := h.oneRecordWins(race(recordWriters, h.putBy("key", 0)), cairn.ErrStale); string(h.get("ns", "key").Value) != strconv.Itoa(winner) {
		h.Fatalf("writer %d won after %+v", winner, r)
	}
}

// recordRenewed is a heartbeat: each write sets a new time to live, and a write without one removes it.
func recordRenewed(h *harness) {
	r := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`1`), TTL: time.Minute})
	next := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`1`), TTL: 2 * time.Minute, Seen: r.Version})
	if !next.ExpiresAt.Equal(next.UpdatedAt.Add(2*time.Minute)) || !next.CreatedAt.Equal(r.CreatedAt) {
		h.Fatalf("record %+v was renewed to %+v", r, next)
	}
	short := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "short", Value: json.RawMessage(`1`), TTL: 20 * brief})
	kept := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "short", Value: json.RawMessage(`2`), Seen: driver.AnyVersion})
	testclock.Await(h.T, "the time to live to be over", func() bool { return !h.get("ns", "key").AsOf.Before(short.ExpiresAt.Add(brief)) })
	h.wantRecord("the record that was to expire", "ns", "short", kept)
	list := h.listRecords(driver.RecordQuery{Namespace: "ns"})
	if len(list) != 2 || list[1].Key != "short" {
		h.Fatalf("records: %+v", list)
	}
}

func recordExpiryInLists(h *harness) {
	for i := range 6 {
		w := driver.RecordWrite{Namespace: "ns", Key: fmt.Sprint("key-", i), Index: fmt.Sprint("i-", 9-i), Value: json.RawMessage(`1`)}
		if i%2 == 0 {
			w.TTL = brief
		}
		h.putRecord(w)
	}
	h.awaitNoRecord("ns", "key-4")
	for limit := range 4 {
		same(h.T, "keys", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Limit: limit})), []string{"key-1", "key-3", "key-5"})
		same(h.T, "keys by index", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{}, Limit: limit})), []string{"key-5", "key-3", "key-1"})
	}
	// A record that returns under another index leaves no entry under the old one.
	h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key-4", Index: "j", Value: json.RawMessage(`1`)})
	same(h.T, "keys by the old index", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{From: "i", Before: "j"}})), []string{"key-5", "key-3", "key-1"})
	same(h.T, "keys by the new index", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{From: "j"}})), []string{"key-4"})
}

// recordTimes checks, without a clock, that the times of records and sessions come from the same clock, the store's.
func recordTimes(h *harness) {
	last := h.create("session").AsOf
	check := func(what string, at time.Time) {
		h.Helper()
		if at.Before(last) || at.Location() != time.UTC || at.Nanosecond()%1000 != 0 {
			h.Fatalf("%s: %v, the time before was %v", what, at, last)
		}
		last = at
	}
	r := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Index: "i", Value: json.RawMessage(`1`), TTL: time.Hour})
	check("created", r.CreatedAt)
	check("updated", r.UpdatedAt)
	check("written as of", r.AsOf)
	check("read as of", h.get("ns", "key").AsOf)
	check("listed as of", h.listRecords(driver.RecordQuery{Namespace: "ns"})[0].AsOf)
	check("listed by index as of", h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{}})[0].AsOf)
	_, err := h.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`1`)})
	h.wantStale(err, r, "a second record")
	check("seen as of", driver.SeenRecord(err).AsOf)
	check("a session afterwards", h.load("session").AsOf)
	odd := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "odd", Value: json.RawMessage(`1`), TTL: time.Hour + 1})
	if want := odd.UpdatedAt.Add(time.Hour + time.Microsecond); !odd.ExpiresAt.Equal(want) {
		h.Fatalf("with a part of a microsecond the record expires at %v, want %v", odd.ExpiresAt, want)
	}
	long := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "long", Value: json.RawMessage(`1`), TTL: driver.MaxRecordTTL})
	if want := long.UpdatedAt.Add(driver.MaxRecordTTL); !long.ExpiresAt.Equal(want) {
		h.Fatalf("the longest time to live ends at %v, want %v", long.ExpiresAt, want)
	}
	h.wantRecord("the record with the longest time to live", "ns", "long", long)
}

// recordManyExpire lets more records expire than a store removes at once, with writes in between.
func recordManyExpire(h *harness) {
	const n = 60
	for i := range n {
		h.putRecord(driver.RecordWrite{Namespace: "ns", Key: fmt.Sprintf("key-%02d", i), Index: fmt.Sprint(i % 3), Value: json.RawMessage(`1`), TTL: brief})
	}
	h.awaitNoRecord("ns", fmt.Sprintf("key-%02d", n-1))
	if list := h.listRecords(driver.RecordQuery{Namespace: "ns", Limit: 2}); len(list) != 0 {
		h.Fatalf("%d expired records are listed: %v", len(list), keys(list))
	}
	var want []string
	for i := range n / 4 {
		key := fmt.Sprintf("key-%02d", 4*i)
		h.put("ns", key, 0)
		want = append(want, key)
		same(h.T, "keys", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Limit: 3})), want)
		same(h.T, "keys by index", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{}, Limit: 3})), want)
	}
}

func recordCopies(h *harness) {
	value := json.RawMessage(`"value"`)
	r := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Value: value})
	copy(value, `"other"`)
	copy(r.Value, `"again"`)
	got := h.get("ns", "key")
	if string(got.Value) != `"value"` {
		h.Fatalf("the value became %s", got.Value)
	}
	copy(got.Value, `"third"`)
	if now := h.listRecords(driver.RecordQuery{Namespace: "ns"})[0]; string(now.Value) != `"value"` {
		h.Fatalf("the value became %s", now.Value)
	}
}

// recordCalls does each operation once.
func recordCalls(ctx context.Context, r driver.Records) map[string]error {
	_, get := r.Get(ctx, "ns", "key")
	_, put := r.Put(ctx, driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`2`), Seen: driver.AnyVersion})
	_, list := r.List(ctx, driver.RecordQuery{Namespace: "ns"})
	_, namespaces := r.Namespaces(ctx, "")
	return map[string]error{"get": get, "put": put, "list": list, "namespaces": namespaces, "delete": r.Delete(ctx, "ns", "key", driver.AnyVersion)}
}

func recordCancelled(h *harness) {
	r := h.put("ns", "key", 0)
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	for what, err := range recordCalls(ctx, h.records()) {
		if !errors.Is(err, context.Canceled) {
			h.Fatalf("%s with a cancelled context: %v", what, err)
		}
	}
	h.wantRecord("the record", "ns", "key", r)
}

func recordClosed(h *harness) {
	h.put("ns", "key", 0)
	records := h.records()
	h.must(h.st.Close())
	for what, err := range recordCalls(h.Context(), records) {
		h.wantError(err, cairn.ErrClosed, what+" of a closed store")
	}
}

func recordReopen(h *harness) {
	first := h.put("ns", "key", 0)
	gone := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "gone", Index: "g", Value: json.RawMessage(`1`), TTL: brief})
	timed := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: "timed", Index: "t", Value: json.RawMessage(`{"a":1}`), TTL: time.Hour})
	h.awaitNoRecord("ns", "gone")
	h = h.on(h.opts.Reopen(h.T, h.st))
	h.wantRecord("the record after reopening", "ns", "key", first)
	h.wantRecord("the record with a time to live after reopening", "ns", "timed", timed)
	same(h.T, "keys after reopening", keys(h.listRecords(driver.RecordQuery{Namespace: "ns"})), []string{"key", "timed"})
	same(h.T, "keys by index after reopening", keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{}})), []string{"key", "timed"})
	if next := h.put("ns", "gone", 0); next.Version == gone.Version || next.Version == timed.Version {
		h.Fatalf("version %d was given before the store was reopened", next.Version)
	}
	h.put("ns", "key", first.Version)
}

// recordTwoHandles writes through one handle and reads through the other, concurrently.
func recordTwoHandles(h *harness) {
	other := h.on(h.opts.Second(h.T, h.st))
	handles := [2]*harness{h, other}
	r := h.put("ns", "key", 0)
	for i := range 10 {
		writer, reader := handles[i%2], handles[1-i%2]
		reader.wantRecord("the record through the other handle", "ns", "key", r)
		next := writer.putRecord(driver.RecordWrite{Namespace: "ns", Key: "key", Index: fmt.Sprint(i), Value: json.RawMessage(strconv.Itoa(i)), Seen: r.Version})
		_, err := reader.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`0`), Seen: r.Version})
		reader.wantStale(err, next, "put through the other handle")
		list := reader.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{}})
		if len(list) != 1 || list[0].Index != fmt.Sprint(i) {
			h.Fatalf("the other handle lists %+v", list)
		}
		r = next
	}
	for range h.rounds(10) {
		winner := h.oneRecordWins(race(recordWriters, func(i int) error { return handles[i%2].putBy("key", r.Version)(i) }), cairn.ErrStale)
		r = handles[1-winner%2].get("ns", "key")
		if string(r.Value) != strconv.Itoa(winner) {
			h.Fatalf("writer %d won, the record has %s", winner, r.Value)
		}
	}
	h.must(other.records().Delete(h.Context(), "ns", "key", r.Version))
	h.wantRecord("the record that was deleted through the other handle", "ns", "key", nil)
}

// recordFault fails each internal write of a call in turn: a call that fails changes nothing and can be repeated.
func recordFault(h *harness) {
	each := func(what string, prepare func(key string), call func(key string) error) {
		h.Helper()
		for n := 1; n <= mostWrites; n++ {
			key := h.newID("key")
			prepare(key)
			before, _ := h.records().Get(h.Context(), "ns", key)
			disarm := h.opts.Fault(h.T, h.st, n)
			err := call(key)
			failed := disarm()
			if err != nil {
				h.wantError(err, cairn.ErrUnavailable, what)
				h.wantRecord(what+" that failed", "ns", key, before)
				h.must(call(key))
			}
			if !failed && n > 1 {
				return
			}
			if !failed {
				h.Fatalf("%s: no internal write was made to fail", what)
			}
		}
		h.Fatalf("%s: still failing at internal write %d", what, mostWrites)
	}
	create := func(key string) { h.put("ns", key, 0) }
	put := func(key string) error {
		_, err := h.records().Put(h.Context(), driver.RecordWrite{Namespace: "ns", Key: key, Index: "i", Value: json.RawMessage(`2`), Seen: driver.AnyVersion})
		return err
	}
	each("create", func(string) {}, put)
	each("put", create, put)
	each("delete", create, func(key string) error { return h.records().Delete(h.Context(), "ns", key, driver.AnyVersion) })
	if list := h.listRecords(driver.RecordQuery{Namespace: "ns", Prefix: strings.Repeat("k", 3)}); len(list) != 0 {
		h.Fatalf("records: %v", keys(list))
	}
}
