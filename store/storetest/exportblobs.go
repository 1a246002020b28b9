package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// An export in JSON has the blobs of its tree in parts of bounded size, and an import adds all of them.
func blobExported(h *harness) {
	const root = "session"
	owner := h.blobOwner(root)
	h.tree("child", root)
	h.putBlobs(h.blobOwner("other"), "of another tree")
	all := []string{"", strings.Repeat("a", driver.MaxBlob)}
	for i := range 2100 {
		all = append(all, fmt.Sprint("blob ", i))
	}
	for i := range 4 {
		all = append(all, strings.Repeat(fmt.Sprint(i), driver.MaxBlob))
	}
	for some := range slices.Chunk(all, 700) {
		half := len(some) - min(len(some), 4) // the large ones are too large for one call
		h.putBlobs(owner, some[:half]...)
		h.putBlobs(owner, some[half:half+2]...)
		h.putBlobs(owner, some[half+2:]...)
	}
	list := h.parts(root) // as JSON
	for i, part := range list {
		size := 0
		for _, b := range part.Bytes {
			size += len(b)
		}
		if len(part.Blobs) > driver.MaxBlobs || len(part.Bytes) > driver.MaxBlobs || size > driver.MaxBlobsBytes {
			h.Errorf("part %d lists %d blobs, and has %d blobs with %d bytes", i, len(part.Blobs), len(part.Bytes), size)
		}
	}
	to := h.other()
	to.wantError(to.importer().Import(h.Context(), root, given(list)), cairn.ErrInvalid, "an import that would lose the blobs")
	to.must(store.Import(h.Context(), to.importer(), root, given(list)))
	to.wantBlobs("imported", owner, append([]string{"of another tree"}, all...), all...)
	same(h.T, "the export of the import", withoutBlobs(to.parts(root)), withoutBlobs(list))

	// As after an import whose process died.
	to.must(to.blobs().Drop(h.Context(), owner, keysOf(all[100:200]...)...))
	to.must(store.Import(h.Context(), to.importer(), root, given(list)))
	to.wantBlobs("imported again", owner, all, all...)
	to.commit(root, &driver.Commit{Messages: says("more")})
	to.wantError(store.Import(h.Context(), to.importer(), root, given(list)), cairn.ErrExists, "an import over a tree that has changed")

	h.importWithoutBlobs(list, owner, all[2])
}

// An import of parts that lack a blob or have others names the blob that is missing, and adds nothing.
func blobDamaged(h *harness) {
	h.tree("child", "session")
	h.putBlobs(h.blobOwner("session"), "", "a", "blob 1", "blob 2")
	list, to := h.parts("session"), h.other()
	at := slices.IndexFunc(list, func(p *driver.Part) bool { return len(p.Bytes) > 1 })
	first := partWith(list, func(p *driver.Part) bool { return len(p.Blobs) > 0 }).Blobs[0].Key
	replaced := func(bytes [][]byte) []*driver.Part {
		own := slices.Clone(list)
		own[at] = &driver.Part{Bytes: bytes}
		return own
	}
	bytes := list[at].Bytes
	changed := append([]byte("x"), bytes[0][min(1, len(bytes[0])):]...)
	for what, damaged := range map[string][]*driver.Part{
		"without a blob":         replaced(bytes[1:]),
		"with a changed blob":    replaced(append([][]byte{changed}, bytes[1:]...)),
		"without a part":         slices.Delete(slices.Clone(list), at, at+1),
		"without bytes":          slices.DeleteFunc(slices.Clone(list), func(p *driver.Part) bool { return p.Bytes != nil }),
		"that ends too early":    slices.DeleteFunc(slices.Clone(list), func(p *driver.Part) bool { return p.Bytes != nil || p.Blobs != nil }),
		"with a blob not listed": append(slices.Clone(list), &driver.Part{Bytes: [][]byte{[]byte("new")}}),
	} {
		err := store.Import(h.Context(), to.importer(), "session", given(damaged))
		to.wantError(err, cairn.ErrCorrupt, "parts "+what)
		if named := strings.Contains(cairn.AsError(err).Message, first); named == (what == "that ends too early" || what == "with a blob not listed") {
			h.Errorf("parts %s: %v, want the blob %s", what, err, first)
		}
	}
	failed := errors.New("the file cannot be read")
	err := store.Import(h.Context(), to.importer(), "session", func(yield func(*driver.Part, error) bool) {
		_ = yield(list[0], nil) && yield(nil, failed)
	})
	if !errors.Is(err, failed) {
		h.Errorf("a file that cannot be read: %v", err)
	}
	to.absent("session", []string{"session", "child"}, "after refused imports")
}

// importWithoutBlobs imports the parts of a version that had no blobs.
func (h *harness) importWithoutBlobs(list []*driver.Part, owner driver.BlobOwner, blob string) {
	h.Helper()
	to, root := h.other(), owner.Root
	old := slices.DeleteFunc(h.own(list), func(p *driver.Part) bool { return p.Bytes != nil || p.Blobs != nil })
	rootOf(old).BlobCount = 0
	to.must(store.Import(h.Context(), to.importer(), root, given(old)))
	to.wantBlobs("of an export without blobs", owner, []string{blob})
	to.must(store.Import(h.Context(), to.importer(), root, given(old)))
}

// withoutBlobs returns parts without blobs, which each store lists in an order of its own, and without the times of reads.
func withoutBlobs(list []*driver.Part) (out []*driver.Part) {
	for _, p := range list {
		if p.Bytes != nil || p.Blobs != nil {
			continue
		}
		own := *p
		if p.Session != nil {
			head := *p.Session
			head.Row.AsOf = time.Time{}
			own.Session = &head
		}
		out = append(out, &own)
	}
	return out
}
