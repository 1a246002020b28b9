package workspace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/workspace"
)

// A session that is exported to a file and imported elsewhere has its files, snapshots and artifacts, and continues.
func TestExportHasTheFiles(t *testing.T) {
	t.Parallel()
	st, elsewhere := newStore(), newStore()
	h := newHouse(t, st, workspace.Memory(), nil)
	large := strings.Repeat("0123456789abcdef", 300<<10) // in two parts
	h.do("s", write("a/b.txt", "first"), write("empty", ""), write("large", large), call("publish", map[string]any{"path": "a/b.txt"}))
	h.do("s", write("a/b.txt", "second"), call("publish", map[string]any{"path": "large"}))

	var file bytes.Buffer
	for part, err := range store.Export(t.Context(), st, "s") {
		if err == nil {
			err = json.NewEncoder(&file).Encode(part)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Import(t.Context(), elsewhere, "s", decoded(file.Bytes())); err != nil {
		t.Fatal(err)
	}

	original, imported := newOnlooker(t, st), newOnlooker(t, elsewhere)
	snapshots, err := original.eng.WorkspaceSnapshots(t.Context(), "s", store.PageQuery{})
	if err != nil || len(snapshots.Items) < 4 {
		t.Fatalf("%d snapshots, %v", len(snapshots.Items), err)
	}
	for _, snapshot := range snapshots.Items {
		paths := original.list("s", snapshot.ID, "")
		if got := imported.list("s", snapshot.ID, ""); got != paths {
			t.Errorf("snapshot %s has the files %q, want %q", snapshot.ID, got, paths)
		}
	}
	for snapshot, want := range map[string]string{snapshots.Items[0].ID: "first", "": "second"} {
		_, content, err := imported.open("s", snapshot, "a/b.txt")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(content); string(got) != want || err != nil {
			t.Errorf("the file of snapshot %q has %q, want %q; %v", snapshot, got, want, err)
		}
	}
	artifacts, err := imported.eng.Artifacts(t.Context(), "s", store.PageQuery{})
	if err != nil || len(artifacts.Items) != 2 {
		t.Fatalf("artifacts %+v, %v", artifacts.Items, err)
	}
	for i, want := range []string{"first", large} {
		_, content, err := imported.eng.OpenArtifact(t.Context(), "s", artifacts.Items[i].Message, artifacts.Items[i].File)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(content); string(got) != want || err != nil {
			t.Errorf("artifact %d has %d bytes, want %d; %v", i, len(got), len(want), err)
		}
	}
	if got := newHouse(t, elsewhere, workspace.Memory(), nil).do("s", read("a/b.txt"), write("a/b.txt", "third"), read("a/b.txt")); got[0] != "second" || got[2] != "third" {
		t.Errorf("the imported session continues with %q", got)
	}
}

// decoded yields the parts of a file.
func decoded(file []byte) iter.Seq2[*driver.Part, error] {
	return func(yield func(*driver.Part, error) bool) {
		for d := json.NewDecoder(bytes.NewReader(file)); ; {
			part := new(driver.Part)
			err := d.Decode(part)
			if errors.Is(err, io.EOF) || !yield(part, err) || err != nil {
				return
			}
		}
	}
}
