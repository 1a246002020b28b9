package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A thread is its latest session: of those that exist, else of those that were removed.
func TestThread(t *testing.T) {
	t.Parallel()
	now := time.Now()
	st := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	defer st.Close()
	eng := open(t, st, &cairn.Agent{Name: "bot", Model: scripted.New(), TTL: time.Hour})
	want := func(what, id, removal string) {
		t.Helper()
		row, err := eng.Thread(t.Context(), "first")
		if id == "" {
			if !errors.Is(err, cairn.ErrNotFound) {
				t.Errorf("%s: %+v, %v", what, row, err)
			}
		} else if err != nil || row.ID != id || row.Removal != removal || row.ThreadID != "first" {
			t.Errorf("%s: %+v, %v", what, row, err)
		}
	}
	create := func(id string, opts ...engine.RunOption) {
		t.Helper()
		if _, err := eng.Create(t.Context(), id, "bot", opts...); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	want("before any session", "", "")
	create("first")
	want("with one session", "first", "")
	create("second", engine.WithThread("first"))
	create("other")
	want("with two sessions", "second", "")
	if err := eng.Delete(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	want("after a deletion", "first", "")
	now = now.Add(2 * time.Hour)
	want("after the expiry of the other", "second", "deleted")
	if err := eng.Erase(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	want("after an erasure", "first", "expired")
	if _, err := eng.Restore(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	want("after a restore", "first", "")
	for _, id := range []string{" x", "\n"} {
		if _, err := eng.Create(t.Context(), "third", "bot", engine.WithThread(id)); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("thread %q: %v", id, err)
		}
	}
}
