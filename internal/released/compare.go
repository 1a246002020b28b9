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
	"github.com/cairn-agents/cairn/store/driver"
)

// export returns all that can be read of a store: its session trees as they are exported, [gone] as it will be
// restored, and the records.
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

// parts returns the parts of a tree as JSON.
func parts(t *testing.T, st driver.Store, root string) (list []json.RawMessage) {
	t.Helper()
	for part, err := range store.Export(t.Context(), st.(driver.Importer), root) {
		if err != nil {
			t.Fatal(err)
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
		t.Errorf("the store yields %d parts and records, want %d", len(got), len(expected))
	}
	for i := range min(len(got), len(expected)) {
		want, is := expected[i], got[i]
		if is.Session != want.Session {
			t.Fatalf("part %d is of session %q, want %q", i, is.Session, want.Session)
		}
		for _, pair := range [][2]json.RawMessage{{want.Part, is.Part}, {want.Removed, is.Removed}, {want.Record, is.Record}} {
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
