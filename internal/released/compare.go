package released

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// export returns all that can be read of a store: its session trees as they are exported, [gone] as it will be
// restored, the records, the memories, and the usage.
func export(t *testing.T, st driver.Store) (list []line) {
	t.Helper()
	for _, id := range roots(t, st) {
		for _, part := range parts(t, st, id) {
			l := line{Session: id, Part: part}
			if id == gone {
				l.Part, l.Removed = nil, restored(t, part)
			}
			list = append(list, l)
		}
	}
	for record, err := range driver.All(func(cursor string) (driver.Page[driver.Record], error) {
		return st.(driver.RecordProvider).Records().List(t.Context(), driver.RecordQuery{Namespace: namespace, Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		record.AsOf = time.Time{} // of the reading
		list = append(list, line{Record: encode(t, record)})
	}
	return append(append(append(list, memories(t, st)...), blobs(t, st)...), usages(t, st)...)
}

// blobs returns the owners of blobs with their blobs.
func blobs(t *testing.T, st driver.Store) (list []line) {
	t.Helper()
	kept, ok := st.(driver.BlobProvider)
	if !ok {
		return nil
	}
	for owner, err := range driver.All(func(cursor string) (driver.Page[driver.BlobOwner], error) {
		return kept.Blobs().Owners(t.Context(), driver.BlobQuery{Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		content := map[string][]byte{}
		page, err := kept.Blobs().List(t.Context(), *owner, driver.BlobQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Items {
			bytes, err := kept.Blobs().Get(t.Context(), *owner, row.Key)
			if err != nil {
				t.Fatal(err)
			}
			content[row.Key] = bytes[0]
		}
		list = append(list, line{Blobs: encode(t, struct {
			Owner driver.BlobOwner
			Blobs map[string][]byte
		}{*owner, content})})
	}
	return list
}

// usages returns the usage rows and their sums.
func usages(t *testing.T, st driver.Store) (list []line) {
	t.Helper()
	metered, ok := st.(driver.UsageProvider)
	if !ok {
		return nil
	}
	for row, err := range driver.All(func(cursor string) (driver.Page[cairn.UsageRow], error) {
		return metered.Usages().Rows(t.Context(), driver.PageQuery{Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, line{Usage: encode(t, row)})
	}
	sums := backend.UsageSums{}
	if err := metered.Usages().Sums(t.Context(), driver.DaySpan{}, func() { clear(sums) }, sums.Add); err != nil {
		t.Fatal(err)
	}
	if len(sums) == 0 {
		return list
	}
	return append(list, line{Usage: encode(t, sums)})
}

// memories returns the scopes of memories with their entries.
func memories(t *testing.T, st driver.Store) (list []line) {
	t.Helper()
	kept, ok := st.(driver.MemoryProvider)
	if !ok {
		return nil
	}
	for row, err := range driver.All(func(cursor string) (driver.Page[driver.MemoryScopeRow], error) {
		return kept.Memories().Scopes(t.Context(), driver.MemoryScopeQuery{Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		entries, err := kept.Memories().Read(t.Context(), row.MemoryScope, driver.MemoryRead{From: "\x01", Before: "\U0010ffff"})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, line{Memory: encode(t, struct {
			Scope   driver.MemoryScopeRow
			Entries []driver.MemoryEntry
		}{*row, entries.Found[0]})})
	}
	return list
}

// roots returns the ids of a store's roots, sorted.
func roots(t *testing.T, st driver.Store) (list []string) {
	t.Helper()
	for row, err := range driver.All(func(cursor string) (driver.Page[cairn.Session], error) {
		return st.List(t.Context(), driver.SessionQuery{RootsOnly: true, Cursor: cursor, Limit: 100})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, row.ID)
	}
	slices.Sort(list)
	return list
}

// parts returns the parts of a tree as JSON. Its blobs are compared by themselves.
func parts(t *testing.T, st driver.Store, root string) (list []json.RawMessage) {
	t.Helper()
	for part, err := range store.Export(t.Context(), st.(driver.Importer), root) {
		if err != nil {
			t.Fatal(err)
		}
		if len(part.Blobs)+len(part.Bytes) > 0 {
			continue
		}
		if part.Session != nil {
			part.Session.BlobCount = 0
		}
		list = append(list, encode(t, part))
	}
	return list
}

// restored returns a part of a tree without what a removal and its restoration change.
func restored(t *testing.T, part json.RawMessage) json.RawMessage {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(part, &whole); err != nil {
		t.Fatal(err)
	}
	if session, ok := whole["session"].(map[string]any); ok {
		row := session["row"].(map[string]any)
		delete(row, "version")
		delete(row, "updated_at")
	}
	return encode(t, whole)
}

// compare compares a restored store with what is expected.
func compare(t *testing.T, st driver.Store, expected []line) {
	t.Helper()
	if _, err := driver.Load(t.Context(), st, gone); !driver.IsGone(err) {
		t.Errorf("session %s: %v, want one that was removed", gone, err)
	}
	for _, l := range expected {
		if l.Removed == nil {
			continue
		}
		if _, err := st.(driver.Sweeper).Restore(t.Context(), l.Session); err != nil {
			t.Fatal(err)
		}
		break
	}
	differ(t, expected, export(t, st))
}

// compareImported imports what was exported into an empty store, and compares its export.
func compareImported(t *testing.T, st driver.Store, expected []line) {
	t.Helper()
	var trees []line
	for _, l := range expected {
		if l.Part != nil {
			trees = append(trees, l)
		}
	}
	for i := 0; i < len(trees); {
		root, from := trees[i].Session, i
		for ; i < len(trees) && trees[i].Session == root; i++ {
		}
		if err := st.(driver.Importer).Import(t.Context(), root, decoded(trees[from:i])); err != nil {
			t.Fatalf("import %s: %v", root, err)
		}
	}
	differ(t, trees, export(t, st))
}

// decoded yields the parts of a tree.
func decoded(lines []line) iter.Seq2[*driver.Part, error] {
	return func(yield func(*driver.Part, error) bool) {
		for _, l := range lines {
			part := new(driver.Part)
			if err := json.Unmarshal(l.Part, part); !yield(part, err) {
				return
			}
		}
	}
}

// differ reports what a store lacks of what is expected. Members that later builds have added do not count.
func differ(t *testing.T, expected, got []line) {
	t.Helper()
	if len(got) != len(expected) {
		t.Errorf("the store yields %d parts, records, memories, owners of blobs and rows of usage, want %d", len(got), len(expected))
	}
	for i := range min(len(got), len(expected)) {
		want, is := expected[i], got[i]
		if is.Session != want.Session {
			t.Fatalf("part %d is of session %q, want %q", i, is.Session, want.Session)
		}
		for _, pair := range [][2]json.RawMessage{{want.Part, is.Part}, {want.Removed, is.Removed}, {want.Record, is.Record}, {want.Memory, is.Memory}, {want.Blobs, is.Blobs}} {
			if problem := lacks(value(t, pair[0]), value(t, pair[1]), ""); problem != "" {
				t.Errorf("session %q: %s\n got %s\nwant %s", want.Session, problem, pair[1], pair[0])
			}
		}
	}
}

// value decodes JSON, with numbers as they are written.
func value(t *testing.T, raw json.RawMessage) (v any) {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// lacks names the first place at which a value is not the wanted one; empty if there is none. An object may have
// members that are not wanted.
func lacks(want, got any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			break
		}
		for name, member := range want {
			other, ok := object[name]
			if !ok {
				return fmt.Sprintf("%s.%s is gone", at, name)
			}
			if problem := lacks(member, other, at+"."+name); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			break
		}
		for i := range want {
			if problem := lacks(want[i], list[i], fmt.Sprintf("%s[%d]", at, i)); problem != "" {
				return problem
			}
		}
		return ""
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, want %v", at, got, want)
}
