package dostore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// A read that has more than one answer may have comes in parts, in the order of the reads, with their limits.
func TestMemoriesInParts(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	m, scope := s.Memories(), driver.UserMemories("ann")
	w := driver.MemoryWrite{Scope: scope}
	for i := range 40 {
		value := bytes.Repeat([]byte{byte(i)}, driver.MaxMemoryValue-i)
		w.Puts = append(w.Puts, driver.MemoryEntry{Key: fmt.Sprintf("k%02d", i), Value: value})
	}
	version, err := m.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	all := driver.MemoryRead{From: "k", Before: "l"}
	limited, sizes := all, all
	limited.Limit, sizes.Sizes = 30, true
	found, err := m.Read(t.Context(), scope, all, driver.MemoryRead{From: "k05"}, limited, driver.MemoryRead{From: "none"}, sizes)
	if err != nil || found.Version != version {
		t.Fatalf("version %d, want %d, error %v", found.Version, version, err)
	}
	for i, want := range []int{40, 1, 30, 0, 40} {
		if n := len(found.Found[i]); n != want {
			t.Errorf("read %d has %d entries, want %d", i, n, want)
		}
	}
	for i, e := range found.Found[0] {
		if e.Key != w.Puts[i].Key || !bytes.Equal(e.Value, w.Puts[i].Value) {
			t.Errorf("entry %d is %q with %d bytes", i, e.Key, len(e.Value))
		}
	}
	for i, e := range found.Found[4] {
		if e.Value != nil || e.Size != len(w.Puts[i].Value) {
			t.Errorf("the size of entry %d is %d, want %d", i, e.Size, len(w.Puts[i].Value))
		}
	}
}

// The memories of a session end with its purge also if the process dies before it has dropped them: the next sweep does.
func TestMemoriesOfAnInterruptedPurge(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	m := s.Memories()
	scope := driver.SessionMemories("s", "life")
	if _, err := m.Write(t.Context(), driver.MemoryWrite{Scope: scope, Puts: []driver.MemoryEntry{{Key: "k", Value: []byte("v")}}}); err != nil {
		t.Fatal(err)
	}
	r := &rows{}
	sharePurged(r, &cairn.Session{ID: "s", Incarnation: "life"})
	if refused, _, err := s.tree("s").write(t.Context(), fixed(&r.request)); err != nil || refused != nil {
		t.Fatal(refused, err)
	}
	for range 2 {
		if _, err := s.Removed(t.Context(), 0, driver.PageQuery{}); err != nil {
			t.Fatal(err)
		}
		found, err := m.Read(t.Context(), scope)
		if err != nil || found.Version != 0 {
			t.Fatalf("after a sweep the scope has version %d, error %v", found.Version, err)
		}
	}
	err := s.each(t.Context(), purgedScopes, "", behind, false, func(*row, time.Time) (bool, error) {
		t.Error("the scope is still to be dropped")
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
