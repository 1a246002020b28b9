package dostore

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// ownerOf creates a session and returns the owner of its blobs.
func ownerOf(t *testing.T, s *Store, id string) driver.BlobOwner {
	t.Helper()
	row, err := s.Commit(t.Context(), id, &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{ID: id, Agent: "bot"}})
	if err != nil {
		t.Fatal(err)
	}
	return driver.OwnerOfBlobs(row)
}

// wantNoBlobRows checks that the object of a tree has nothing of blobs.
func wantNoBlobRows(t *testing.T, s *Store, root string) {
	t.Helper()
	a, err := s.tree(root).call(t.Context(), &request{Op: "read", Ask: []ask{
		scan(ofTree, blobsKey, blobsKey+"\x00"), scan(ofBlob, "", behind), scan(ofBlobData, "", behind)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Rows {
		if list, err := a.all(i); err != nil || len(list) > 0 {
			t.Errorf("part %d has %d rows, error %v", i, len(list), err)
		}
	}
	owners, err := s.Blobs().Owners(t.Context(), driver.BlobQuery{})
	if err != nil || len(owners.Items) > 0 {
		t.Errorf("owners %v, error %v", owners.Items, err)
	}
}

// A blob is deleted with its name, and with its tree.
func TestBlobsAreDeleted(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	owner := ownerOf(t, s, "s")
	put := func() {
		t.Helper()
		if _, err := s.Blobs().Put(t.Context(), owner, []byte("a"), []byte("b")); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if err := s.Blobs().Drop(t.Context(), owner, driver.BlobKey([]byte("a")), driver.BlobKey([]byte("b"))); err != nil {
		t.Fatal(err)
	}
	wantNoBlobRows(t, s, "s")
	put()
	removed, err := s.Remove(t.Context(), "s", driver.Deleted)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Purge(t.Context(), removed.Key); err != nil {
		t.Fatal(err)
	}
	wantNoBlobRows(t, s, "s")
}

// A tree that is purged between the check of the owner and the write gets no blobs, which nobody would delete.
func TestPutBesidePurge(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := second(t, s)
	owner := ownerOf(t, s, "s")
	s.mu.Lock()
	s.fails = func() error {
		s.fails = nil
		removed, err := other.Remove(t.Context(), "s", driver.Deleted)
		if err != nil {
			return err
		}
		_, err = other.Purge(t.Context(), removed.Key)
		return err
	}
	s.mu.Unlock()
	if _, err := s.Blobs().Put(t.Context(), owner, []byte("a")); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("error %v, want %s", err, cairn.ErrNotFound)
	}
	wantNoBlobRows(t, s, "s")
}

// Blobs that are too large for one answer are read in parts.
func TestBlobsInParts(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	one, two := ownerOf(t, s, "one"), ownerOf(t, s, "two")
	list := [][]byte{bytes.Repeat([]byte("a"), driver.MaxBlob), []byte("b"), bytes.Repeat([]byte("c"), driver.MaxBlob)}
	keys, err := s.Blobs().Put(t.Context(), one, list...)
	if err != nil {
		t.Fatal(err)
	}
	list, keys = append(list, list[0]), append(keys, keys[0])
	if err := s.Blobs().Name(t.Context(), one, two, keys...); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []driver.BlobOwner{one, two} {
		got, err := s.Blobs().Get(t.Context(), owner, keys...)
		if err != nil || !slices.EqualFunc(got, list, bytes.Equal) {
			t.Errorf("%d blobs of %s, or others than were put, error %v", len(got), owner.Root, err)
		}
	}
}
