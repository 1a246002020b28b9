package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// listRecords reads all pages of a query.
func (h *harness) listRecords(q driver.RecordQuery) []driver.Record {
	h.Helper()
	return pages(h.T, "records", func(cursor string) (driver.Page[driver.Record], error) {
		q.Cursor = cursor
		page, err := h.records().List(h.Context(), q)
		if len(page.Items) > q.Size() || page.Next != "" && len(page.Items) == 0 {
			h.Fatalf("a page of %d has %d items, next %q", q.Size(), len(page.Items), page.Next)
		}
		return page, err
	})
}

func keys(list []driver.Record) []string {
	all := []string{}
	for i := range list {
		all = append(all, list[i].Key)
	}
	return all
}

// recordsByKey lists in pages of every size. Keys are compared by their bytes.
func recordsByKey(h *harness) {
	want := []string{"!", "A", "B", "Z", "a", "a b", "a!", "aa", "b", "z", "É", "é", "中", "🜁"}
	shuffled := slices.Clone(want)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	written := map[string]*driver.Record{}
	for _, key := range shuffled {
		written[key] = h.putRecord(driver.RecordWrite{Namespace: "ns", Key: key, Index: "same", Value: json.RawMessage(fmt.Sprintf("%q", key)), TTL: time.Hour})
		h.put("ns2", key, 0)
		h.put("n", key, 0)
	}
	for limit := range len(want) + 2 {
		for what, q := range map[string]driver.RecordQuery{"by key": {}, "by index and key": {Index: &driver.IndexRange{}}} {
			q.Namespace, q.Limit = "ns", limit
			list := h.listRecords(q)
			same(h.T, fmt.Sprintf("%s in pages of %d", what, limit), keys(list), want)
			for i := range list {
				h.sameRecord("a listed record", &list[i], written[list[i].Key])
			}
		}
	}
	if list := h.listRecords(driver.RecordQuery{Namespace: "nothing"}); len(list) > 0 {
		h.Fatalf("a namespace that was never written lists %v", keys(list))
	}
}

func recordsByPrefix(h *harness) {
	all := []string{"a", "a%", "a%b", "a*", "a_", "aa", "ab", "a\ud7ff", "a\ue000", "a\U0010ffff", "a\U0010ffff\U0010ffff", "b", "ba", "\U0010ffff", "\U0010ffffx"}
	for _, key := range all {
		h.put("ns", key, 0)
	}
	slices.Sort(all)
	for _, prefix := range append([]string{"", "a\U0010ffff\U0010ffff\U0010ffff", "c", " ", "A"}, all...) {
		want := []string{}
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		for limit := 1; limit < 5; limit++ {
			same(h.T, fmt.Sprintf("keys with the prefix %q", prefix), keys(h.listRecords(driver.RecordQuery{Namespace: "ns", Prefix: prefix, Limit: limit})), want)
		}
	}
}

// recordsByIndex has several records with the same index and some without one.
func recordsByIndex(h *harness) {
	indexes := []string{"", "a", "a", "a", "a b", "b", "ba", "c", "é", "\U0010ffff", "a", ""}
	type place struct{ index, key string }
	var all []place
	for i, index := range indexes {
		key := fmt.Sprint("key-", (i*5)%len(indexes))
		h.putRecord(driver.RecordWrite{Namespace: "ns", Key: key, Index: index, Value: json.RawMessage(`1`)})
		if index != "" {
			all = append(all, place{index, key})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return strings.Compare(a.index+"\x00"+a.key, b.index+"\x00"+b.key)
	})
	bounds := []string{"", "a", "a ", "a b", "aa", "b", "ba", "c", "d", "é", "\U0010ffff"}
	for _, from := range bounds {
		for _, before := range bounds {
			if strings.TrimSpace(from) != from || strings.TrimSpace(before) != before {
				continue
			}
			want := []string{}
			for _, p := range all {
				if p.index >= from && (before == "" || p.index < before) {
					want = append(want, p.key)
				}
			}
			for limit := 1; limit < 4; limit++ {
				list := h.listRecords(driver.RecordQuery{Namespace: "ns", Index: &driver.IndexRange{From: from, Before: before}, Limit: limit})
				same(h.T, fmt.Sprintf("index from %q before %q", from, before), keys(list), want)
			}
		}
	}
}

// recordLargestPage asks for more than a page holds.
func recordLargestPage(h *harness) {
	for i := range driver.MaxRecordPage + 1 {
		h.put("ns", fmt.Sprintf("key-%03d", i), 0)
	}
	for _, limit := range []int{0, -1, driver.MaxRecordPage, 100_000} {
		page, err := h.records().List(h.Context(), driver.RecordQuery{Namespace: "ns", Limit: limit})
		h.must(err)
		if len(page.Items) != driver.MaxRecordPage || page.Next == "" {
			h.Fatalf("limit %d: a page of %d, next %q", limit, len(page.Items), page.Next)
		}
	}
}

// recordsWhileWriting changes a namespace between pages. Records that stay are listed exactly once.
func recordsWhileWriting(h *harness) {
	for what, q := range map[string]driver.RecordQuery{"by key": {Limit: 3}, "by index": {Limit: 3, Index: &driver.IndexRange{}}} {
		q.Namespace = what
		var stay []string
		for i := range 20 {
			key := fmt.Sprintf("key-%02d", i)
			h.putRecord(driver.RecordWrite{Namespace: what, Key: key, Index: key, Value: json.RawMessage(`1`)})
			if i%2 == 0 {
				stay = append(stay, key)
			}
		}
		var got []string
		for n := 0; ; n++ {
			page, err := h.records().List(h.Context(), q)
			h.must(err)
			for _, key := range keys(page.Items) {
				if slices.Contains(stay, key) {
					got = append(got, key)
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			// The last record of the page is deleted, one before and one after the cursor are added, and all that stay
			// are rewritten.
			last := page.Items[len(page.Items)-1]
			if !slices.Contains(stay, last.Key) {
				h.must(h.records().Delete(h.Context(), what, last.Key, driver.AnyVersion))
			}
			for _, key := range []string{fmt.Sprintf("key-00-%02d", n), last.Key + "-new"} {
				h.put(what, key, 0)
			}
			for _, key := range stay {
				h.put(what, key, driver.AnyVersion)
			}
		}
		same(h.T, what+": those that were there all the time", got, stay)
	}
}

// recordNamespaces has more namespaces than a page holds, with names of any kind. A namespace is listed as long as it
// has a record.
func recordNamespaces(h *harness) {
	list := func() []string {
		return pages(h.T, "namespaces", func(cursor string) (driver.Page[string], error) {
			page, err := h.records().Namespaces(h.Context(), cursor)
			if len(page.Items) > driver.MaxRecordPage || page.Next != "" && len(page.Items) == 0 {
				h.Fatalf("a page of %d, next %q", len(page.Items), page.Next)
			}
			return page, err
		})
	}
	if names := list(); len(names) > 0 {
		h.Fatalf("a new store has the namespaces %q", names)
	}
	want := slices.Clone(oddTexts)
	for i := range driver.MaxRecordPage {
		want = append(want, fmt.Sprintf("ns-%03d", i))
	}
	for _, name := range want {
		h.put(name, "a", 0)
	}
	gone := want[len(want)/2]
	h.put(gone, "b", 0)
	h.put(gone, "b", driver.AnyVersion)
	slices.Sort(want)
	same(h.T, "namespaces", list(), want)
	h.must(h.records().Delete(h.Context(), gone, "a", driver.AnyVersion))
	same(h.T, "namespaces with one record less", list(), want)
	h.must(h.records().Delete(h.Context(), gone, "b", driver.AnyVersion))
	same(h.T, "namespaces without one", list(), slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name == gone }))
	h.put(gone, "c", 0)
	same(h.T, "namespaces with one that came back", list(), want)
	for _, cursor := range []string{"\x00", "\xff", strings.Repeat("x", 201)} {
		_, err := h.records().Namespaces(h.Context(), cursor)
		h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("cursor %q", cursor))
	}
}

func recordBadQueries(h *harness) {
	for range 2 {
		h.put("ns", h.newID("key"), 0)
	}
	index := &driver.IndexRange{}
	byKey, err := h.records().List(h.Context(), driver.RecordQuery{Namespace: "ns", Limit: 1})
	h.must(err)
	byIndex, err := h.records().List(h.Context(), driver.RecordQuery{Namespace: "ns", Limit: 1, Index: index})
	h.must(err)
	list := map[string]driver.RecordQuery{
		"no namespace":                 {},
		"a namespace with a NUL":       {Namespace: "a\x00b"},
		"a prefix that is not UTF-8":   {Namespace: "ns", Prefix: "\xff"},
		"a prefix and an index":        {Namespace: "ns", Prefix: "a", Index: index},
		"an index with a NUL":          {Namespace: "ns", Index: &driver.IndexRange{From: "\x00"}},
		"an end that is not UTF-8":     {Namespace: "ns", Index: &driver.IndexRange{Before: "\xff"}},
		"the cursor of a list by key":  {Namespace: "ns", Cursor: byKey.Next, Index: index},
		"that of a list by an index":   {Namespace: "ns", Cursor: byIndex.Next},
		"a cursor without a key":       {Namespace: "ns", Cursor: "k"},
		"a cursor with a NUL":          {Namespace: "ns", Cursor: "k\x00"},
		"a cursor with too long a key": {Namespace: "ns", Cursor: "k" + strings.Repeat("x", 201)},
		"a cursor without an index":    {Namespace: "ns", Cursor: "i0.key", Index: index},
		"one whose index is too long":  {Namespace: "ns", Cursor: "i9.key", Index: index},
	}
	for _, cursor := range badCursors {
		list[fmt.Sprintf("cursor %q", cursor)] = driver.RecordQuery{Namespace: "ns", Cursor: cursor}
		list[fmt.Sprintf("cursor %q by index", cursor)] = driver.RecordQuery{Namespace: "ns", Cursor: cursor, Index: index}
	}
	for what, q := range list {
		_, err := h.records().List(h.Context(), q)
		h.wantError(err, cairn.ErrInvalid, what)
	}
}

// recordIdentifiers uses each text for everything that has a name.
func recordIdentifiers(h *harness) {
	written := map[string]*driver.Record{}
	for i, odd := range oddTexts {
		for j, name := range []string{"ns", odd} {
			written[name+"\x00"+odd] = h.putRecord(driver.RecordWrite{Namespace: name, Key: odd, Index: odd, Value: json.RawMessage(fmt.Sprint(2*i + j))})
		}
	}
	sorted := slices.Clone(oddTexts)
	slices.Sort(sorted)
	for _, q := range []driver.RecordQuery{{Limit: 7}, {Limit: 7, Index: &driver.IndexRange{}}} {
		q.Namespace = "ns"
		same(h.T, "records", keys(h.listRecords(q)), sorted)
	}
	for i, odd := range oddTexts {
		h.wantRecord("record "+odd, "ns", odd, written["ns\x00"+odd])
		h.wantRecord("record of its own namespace "+odd, odd, odd, written[odd+"\x00"+odd])
		same(h.T, "records of "+odd, keys(h.listRecords(driver.RecordQuery{Namespace: odd, Index: &driver.IndexRange{From: odd}})), []string{odd})
		h.must(h.records().Delete(h.Context(), odd, odd, written[odd+"\x00"+odd].Version))
		if left := len(h.listRecords(driver.RecordQuery{Namespace: "ns"})); left != len(oddTexts) {
			h.Fatalf("after the deletion of %q, number %d, %d records are left of %d", odd, i, left, len(oddTexts))
		}
	}
	// Names that would be ambiguous if they were concatenated.
	for _, name := range [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"1:a", "b"}, {"1", "a:b"}, {"a{1}", "b"}, {"a", "{1}b"}} {
		h.putRecord(driver.RecordWrite{Namespace: name[0], Key: name[1], Value: encode(name[0] + " and " + name[1])})
	}
	for _, name := range [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"1:a", "b"}, {"1", "a:b"}, {"a{1}", "b"}, {"a", "{1}b"}} {
		same(h.T, "value", h.get(name[0], name[1]).Value, name[0]+" and "+name[1])
	}
}

func recordValues(h *harness) {
	texts := append([]string{"", " ", "\n\t\r", "<script>&amp;</script>", "\u2028\u2029", "\ufeffbom", "\x01\x1f\x7f", "a\U0010ffff", strings.Repeat("\\\"", 100)}, oddTexts...)
	values := []json.RawMessage{json.RawMessage(`null`), json.RawMessage(`0`), json.RawMessage(` { "b" : 1 , "a":[ ] , "b2": 1.0e2 } `), json.RawMessage(`[]`),
		json.RawMessage(`"\u00e9\ud83d\ude00"`), json.RawMessage(`12345678901234567890123`), deep(cairn.MaxJSONDepth), json.RawMessage(`"` + strings.Repeat("x", driver.MaxRecordBytes-2) + `"`)}
	for _, text := range texts {
		values = append(values, encode(text))
	}
	for i, value := range values {
		key := fmt.Sprintf("key-%03d", i)
		r := h.putRecord(driver.RecordWrite{Namespace: "ns", Key: key, Value: value})
		if got := h.get("ns", key); string(got.Value) != string(value) || string(r.Value) != string(value) {
			h.Fatalf("value %.60q came back as %.60q, then as %.60q", value, r.Value, got.Value)
		}
	}
	for i, r := range h.listRecords(driver.RecordQuery{Namespace: "ns"}) {
		if string(r.Value) != string(values[i]) {
			h.Fatalf("value %.60q is listed as %.60q", values[i], r.Value)
		}
	}
}

// recordRefused has writes that no store may accept.
func recordRefused(h *harness) {
	r := h.put("ns", "key", 0)
	change := func(fn func(w *driver.RecordWrite)) driver.RecordWrite {
		w := driver.RecordWrite{Namespace: "ns", Key: "key", Value: json.RawMessage(`2`), Seen: driver.AnyVersion}
		fn(&w)
		return w
	}
	value := func(v string) driver.RecordWrite {
		return change(func(w *driver.RecordWrite) { w.Value = json.RawMessage(v) })
	}
	for what, w := range map[string]driver.RecordWrite{
		"no namespace":            change(func(w *driver.RecordWrite) { w.Namespace = "" }),
		"a namespace with a NUL":  change(func(w *driver.RecordWrite) { w.Namespace = "a\x00" }),
		"no key":                  change(func(w *driver.RecordWrite) { w.Key = "" }),
		"a key with a line break": change(func(w *driver.RecordWrite) { w.Key = "a\nb" }),
		"a key of 201 bytes":      change(func(w *driver.RecordWrite) { w.Key = strings.Repeat("x", 201) }),
		"a key with a space":      change(func(w *driver.RecordWrite) { w.Key = "a " }),
		"an index not UTF-8":      change(func(w *driver.RecordWrite) { w.Index = "\xff" }),
		"an index of 201 bytes":   change(func(w *driver.RecordWrite) { w.Index = strings.Repeat("x", 201) }),
		"a negative version":      change(func(w *driver.RecordWrite) { w.Seen = -2 }),
		"an endless version":      change(func(w *driver.RecordWrite) { w.Seen = 1 << 60 }),
		"a negative time to live": change(func(w *driver.RecordWrite) { w.TTL = -1 }),
		"an endless time to live": change(func(w *driver.RecordWrite) { w.TTL = 1<<63 - 1 }),
		"no value":                value(``),
		"a value of two values":   value(`1 2`),
		"a value with a NUL":      value(`"\u0000"`),
		"half a pair":             value(`"\ud800"`),
		"an infinite number":      value(`1e999`),
		"a value too deep":        value(string(deep(cairn.MaxJSONDepth + 1))),
		"a value too large":       value(`"` + strings.Repeat("x", driver.MaxRecordBytes-1) + `"`),
	} {
		_, err := h.records().Put(h.Context(), w)
		h.wantRefused(err, what)
	}
	for _, name := range [][2]string{{"", "key"}, {"ns", ""}, {"ns\x00", "key"}, {"ns", "\xff"}} {
		_, err := h.records().Get(h.Context(), name[0], name[1])
		h.wantRefused(err, fmt.Sprintf("get %q", name))
		h.wantRefused(h.records().Delete(h.Context(), name[0], name[1], 1), fmt.Sprintf("delete %q", name))
	}
	for _, seen := range []int64{0, -2, 1 << 60} {
		h.wantRefused(h.records().Delete(h.Context(), "ns", "key", seen), fmt.Sprint("delete of version ", seen))
	}
	h.wantRecord("the record", "ns", "key", r)
}
