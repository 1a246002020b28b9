package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A copy has all entries of the scope and its due time. An equal scope is not copied again, and a different one stays.
func TestCopyMemories(t *testing.T) {
	t.Parallel()
	from, to := memstore.New(nil).Memories(), memstore.New(nil).Memories()
	due := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	w := driver.MemoryWrite{Scope: driver.UserMemories("ann"), DueAt: due}
	for i := range 2500 {
		w.Puts = append(w.Puts, driver.MemoryEntry{Key: fmt.Sprintf("k%04d", i), Value: []byte{byte(i), 0}})
	}
	version, err := from.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	// What an interrupted copy left.
	if _, err := to.Write(t.Context(), driver.MemoryWrite{Scope: w.Scope, Puts: []driver.MemoryEntry{{Key: "~copy", Value: []byte{1}}, {Key: "k9", Value: nil}}}); err != nil {
		t.Fatal(err)
	}
	row := &driver.MemoryScopeRow{MemoryScope: w.Scope, DueAt: due}
	for _, want := range []bool{true, false} {
		if copied, err := store.CopyMemories(t.Context(), row, from, to); err != nil || copied != want {
			t.Fatalf("copied %t, %v; want %t", copied, err, want)
		}
	}
	found, err := to.Read(t.Context(), w.Scope, driver.MemoryRead{From: "\x01", Before: "\U0010FFFF"})
	if err != nil || len(found.Found[0]) != len(w.Puts) || found.Found[0][2499].Value[0] != w.Puts[2499].Value[0] {
		t.Fatalf("%d entries copied, %v", len(found.Found[0]), err)
	}
	for there, err := range store.MemoryScopes(t.Context(), to) {
		if err != nil || there.MemoryScope != w.Scope || !there.DueAt.Equal(due) {
			t.Fatalf("scope %+v, %v", there, err)
		}
	}
	for _, change := range []driver.MemoryWrite{
		{Scope: w.Scope, Seen: version, Puts: []driver.MemoryEntry{{Key: "k0000", Value: []byte("other")}}},
		{Scope: w.Scope, Puts: []driver.MemoryEntry{{Key: "k0000", Value: w.Puts[0].Value}}, Deletes: []string{"k2499"}},
	} {
		if change.Seen == 0 {
			change.Seen = version
		}
		if version, err = from.Write(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if copied, err := store.CopyMemories(t.Context(), row, from, to); copied || !errors.Is(err, cairn.ErrExists) {
			t.Fatalf("copied %t over another scope, %v", copied, err)
		}
	}
}
