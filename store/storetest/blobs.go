package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// blobTests are the tests of stores that are BlobProviders.
var blobTests = []storeTest{
	{name: "RoundTrip", run: blobRoundTrip},
	{name: "Repeated", run: blobRepeated},
	{name: "Named", run: blobNamed},
	{name: "Swept", run: blobSwept},
	{name: "OwnersOfTenantShare", run: blobShared},
	{name: "TenantsApart", run: blobTenants},
	{name: "OwnerMustExist", run: blobOwners},
	{name: "EndsWithItsTree", run: blobOfTree, needs: func(o *Options) bool { return o.sweeps }},
	{name: "Lists", run: blobLists},
	{name: "Large", run: blobLarge},
	{name: "Copies", run: blobCopies},
	{name: "Refused", run: blobRefused},
	{name: "PutWhileSwept", run: blobRace},
	{name: "CopiedWithTheirTree", run: blobCopied, needs: func(o *Options) bool { return o.imports }},
	{name: "ExportedWithTheirTree", run: blobExported, needs: func(o *Options) bool { return o.imports }},
	{name: "DamagedExport", run: blobDamaged, needs: func(o *Options) bool { return o.imports }},
	{name: "Cancelled", run: blobCancelled},
	{name: "Closed", run: blobClosed},
	{name: "Reopen", run: blobReopen, needs: needsReopen},
	{name: "TwoHandles", run: blobTwoHandles, needs: needsSecond},
	{name: "Fault", run: blobFault, needs: needsFault},
}

// blobs returns the store's blobs. Only tests of stores that have blobs call it.
func (h *harness) blobs() driver.Blobs { return h.st.(driver.BlobProvider).Blobs() }

// blobOwner creates a session and returns the owner of its blobs.
func (h *harness) blobOwner(id string) driver.BlobOwner {
	h.Helper()
	return driver.OwnerOfBlobs(h.create(id))
}

// put puts blobs and returns their keys.
func (h *harness) putBlobs(owner driver.BlobOwner, texts ...string) []string {
	h.Helper()
	list := make([][]byte, len(texts))
	for i, text := range texts {
		list[i] = []byte(text)
	}
	keys, err := h.blobs().Put(h.Context(), owner, list...)
	h.must(err)
	return keys
}

func keysOf(texts ...string) (keys []string) {
	for _, text := range texts {
		keys = append(keys, driver.BlobKey([]byte(text)))
	}
	return keys
}

// wantBlobs checks which of all blobs an owner names, by Get, Has and List.
func (h *harness) wantBlobs(what string, owner driver.BlobOwner, all []string, want ...string) {
	h.Helper()
	var got [][]byte
	var has []bool
	for keys := range slices.Chunk(keysOf(all...), driver.MaxBlobs) {
		found, err := h.blobs().Get(h.Context(), owner, keys...)
		h.must(err)
		there, err := h.blobs().Has(h.Context(), owner, keys...)
		h.must(err)
		got, has = append(got, found...), append(has, there...)
	}
	if len(got) != len(all) || len(has) != len(all) {
		h.Fatalf("%s: %d blobs and %d answers for %d keys", what, len(got), len(has), len(all))
	}
	for i, text := range all {
		named := slices.Contains(want, text)
		if has[i] != named || named != (got[i] != nil) || named && string(got[i]) != text {
			h.Errorf("%s: of %.20q: has %v, bytes %.20q; want %v", what, text, has[i], got[i], named)
		}
	}
	listed := map[string]int{}
	for row, err := range driver.All(func(cursor string) (driver.Page[driver.BlobRow], error) {
		return h.blobs().List(h.Context(), owner, driver.BlobQuery{Cursor: cursor})
	}) {
		h.must(err)
		listed[row.Key] = row.Size
	}
	sizes := map[string]int{}
	for _, text := range want {
		sizes[driver.BlobKey([]byte(text))] = len(text)
	}
	if !maps.Equal(listed, sizes) {
		h.Errorf("%s: lists %v, want %v", what, listed, sizes)
	}
}

func (h *harness) sweepBlobs(age time.Duration, want driver.SweptBlobs) {
	h.Helper()
	swept, err := h.blobs().Sweep(h.Context(), age)
	h.must(err)
	if h.opts.BlobsOfTrees {
		want = driver.SweptBlobs{}
	}
	if swept != want {
		h.Errorf("a sweep after %s deleted %+v, want %+v", age, swept, want)
	}
}

func blobRoundTrip(h *harness) {
	owner := h.blobOwner("session")
	binary := make([]byte, 300)
	for i := range binary {
		binary[i] = byte(i)
	}
	texts := []string{"", "a", "ü\x00\xff", string(binary), strings.Repeat("x", 70_000)}
	keys := h.putBlobs(owner, texts...)
	if !slices.Equal(keys, keysOf(texts...)) {
		h.Fatalf("keys %v", keys)
	}
	h.wantBlobs("put", owner, append(texts, "other"), texts...)
	got, err := h.blobs().Get(h.Context(), owner, keys[1], keys[2], keys[1])
	h.must(err)
	if len(got) != 3 || string(got[0]) != "a" || string(got[2]) != "a" {
		h.Errorf("a key that is asked for twice: %q", got)
	}
	none, err := h.blobs().Get(h.Context(), owner)
	h.must(err)
	if len(none) > 0 {
		h.Errorf("no keys: %q", none)
	}
	h.putBlobs(owner)
	h.must(h.blobs().Drop(h.Context(), owner))
}

// Puts, names and drops can be repeated, also within one call.
func blobRepeated(h *harness) {
	owner, other := h.blobOwner("session"), h.blobOwner("other")
	for range 3 {
		h.putBlobs(owner, "a", "b", "a")
		h.must(h.blobs().Name(h.Context(), owner, other, keysOf("a", "a")...))
	}
	all := []string{"a", "b"}
	h.wantBlobs("put", owner, all, "a", "b")
	h.wantBlobs("named", other, all, "a")
	for range 3 {
		h.must(h.blobs().Drop(h.Context(), owner, keysOf("a", "b", "a", "never put")...))
	}
	h.wantBlobs("dropped", owner, all)
	h.wantBlobs("of the other owner", other, all, "a")
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: 1, Bytes: 1})
	h.wantBlobs("of the other owner, swept", other, all, "a")
}

// A name is only added for blobs that the other owner names, all or none.
func blobNamed(h *harness) {
	from, to := h.blobOwner("from"), h.blobOwner("to")
	all := []string{"a", "b", "c"}
	h.putBlobs(from, "a", "b")
	h.putBlobs(to, "c")
	h.wantError(h.blobs().Name(h.Context(), from, to, keysOf("a", "c")...), cairn.ErrNotFound, "a blob of the target only")
	h.wantError(h.blobs().Name(h.Context(), from, to, keysOf("a", "none")...), cairn.ErrNotFound, "no blob")
	h.wantError(h.blobs().Name(h.Context(), driver.BlobOwner{Root: "nothing"}, to, keysOf("a")...), cairn.ErrNotFound, "no owner")
	h.wantBlobs("refused names", to, all, "c")
	h.must(h.blobs().Name(h.Context(), from, to, keysOf("a", "b")...))
	h.must(h.blobs().Name(h.Context(), from, to))
	h.must(h.blobs().Drop(h.Context(), from, keysOf("a")...))
	h.sweepBlobs(0, driver.SweptBlobs{})
	h.wantBlobs("from", from, all, "b")
	h.wantBlobs("to", to, all, "a", "b", "c")
}

// A blob is kept for a while after its last name, and then deleted once.
func blobSwept(h *harness) {
	owner := h.blobOwner("session")
	h.putBlobs(owner, "a", "bb", "ccc")
	h.must(h.blobs().Drop(h.Context(), owner, keysOf("a", "bb")...))
	h.sweepBlobs(time.Hour, driver.SweptBlobs{})
	h.putBlobs(owner, "a") // as if it was new
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: 1, Bytes: 2})
	h.sweepBlobs(0, driver.SweptBlobs{})
	all := []string{"a", "bb", "ccc"}
	h.wantBlobs("swept", owner, all, "a", "ccc")
	h.putBlobs(owner, "bb")
	h.wantBlobs("put again", owner, all, all...)
}

// The owners of a tenant share blobs, but each has only its own names.
func blobShared(h *harness) {
	one, two := h.blobOwner("acme::one"), h.blobOwner("acme::two")
	h.putBlobs(one, "a", "b")
	all := []string{"a", "b"}
	h.wantBlobs("of another owner", two, all)
	h.putBlobs(two, "a")
	h.must(h.blobs().Drop(h.Context(), one, keysOf(all...)...))
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: 1, Bytes: 1})
	h.wantBlobs("shared", two, all, "a")
}

// Blobs of two tenants have nothing in common, also if their bytes and the names of their sessions are equal.
func blobTenants(h *harness) {
	var owners []driver.BlobOwner
	for _, tenant := range tenants {
		owners = append(owners, h.blobOwner(cairn.InTenant(tenant, "session")))
		h.putBlobs(owners[len(owners)-1], "a")
	}
	h.wantError(h.blobs().Name(h.Context(), owners[0], owners[1], keysOf("a")...), cairn.ErrInvalid, "a name for another tenant")
	h.wantError(h.blobs().Name(h.Context(), owners[2], owners[1], keysOf("a")...), cairn.ErrInvalid, "a name for a tenant")
	for i, owner := range owners {
		h.must(h.blobs().Drop(h.Context(), owner, keysOf("a")...))
		h.sweepBlobs(0, driver.SweptBlobs{Blobs: 1, Bytes: 1})
		for j, other := range owners {
			h.wantBlobs("of "+other.Root, other, []string{"a"}, []string{"a"}[:min(max(j-i, 0), 1)]...)
		}
	}
}

// Nothing is named for sessions that do not exist: nobody would drop it.
func blobOwners(h *harness) {
	there := h.blobOwner("there")
	h.putBlobs(there, "a")
	child := h.tree("child", "there")
	_, err := h.blobs().Put(h.Context(), driver.BlobOwner{Root: child.ID, Incarnation: child.Incarnation}, []byte("a"))
	h.wantError(err, cairn.ErrNotFound, "a session that is not a root")
	for what, owner := range map[string]driver.BlobOwner{"no session": {Root: "nothing"}, "another incarnation": {Root: "there", Incarnation: "other"}} {
		_, err := h.blobs().Put(h.Context(), owner, []byte("a"))
		h.wantError(err, cairn.ErrNotFound, "put for "+what)
		h.wantError(h.blobs().Name(h.Context(), there, owner, keysOf("a")...), cairn.ErrNotFound, "name for "+what)
		h.wantBlobs(what, owner, []string{"a"})
		h.must(h.blobs().Drop(h.Context(), owner, keysOf("a")...))
	}
	if h.opts.sweeps {
		_, err := h.sweeper().Remove(h.Context(), "there", driver.Deleted)
		h.must(err)
		_, err = h.blobs().Put(h.Context(), there, []byte("b"))
		h.wantError(err, cairn.ErrDeleted, "put for a removed session")
	}
}

// The names of a tree survive its removal and end with its purge.
func blobOfTree(h *harness) {
	first, other := h.blobOwner("session"), h.blobOwner("session2")
	h.tree("child", "session")
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprint("blob ", 10+i))
	}
	h.putBlobs(first, all...)
	h.putBlobs(other, all[:5]...)
	remove := func() *driver.Removed {
		removed, err := h.sweeper().Remove(h.Context(), "session", driver.Deleted)
		h.must(err)
		return removed
	}
	remove()
	h.sweepBlobs(0, driver.SweptBlobs{})
	_, err := h.sweeper().Restore(h.Context(), "session")
	h.must(err)
	h.wantBlobs("restored", first, all, all...)
	_, err = h.sweeper().Purge(h.Context(), remove().Key)
	h.must(err)
	h.wantBlobs("purged", first, all)
	h.sweepBlobs(time.Hour, driver.SweptBlobs{})
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: 35, Bytes: 35 * 7})
	h.wantBlobs("of another tree", other, all, all[:5]...)
	h.wantBlobs("of a later session with the id", h.blobOwner("session"), all)
}

func blobLists(h *harness) {
	var want []driver.BlobOwner
	for _, id := range []string{"b", "a/1", "acme::b", "B", "a"} {
		owner := h.blobOwner(id)
		h.putBlobs(owner, "x", "y"+id, "z")
		want = append(want, owner)
	}
	h.blobOwner("empty")
	slices.SortFunc(want, func(a, b driver.BlobOwner) int { return strings.Compare(a.Text(), b.Text()) })
	for limit := range 4 {
		var owners []driver.BlobOwner
		for owner, err := range driver.All(func(cursor string) (driver.Page[driver.BlobOwner], error) {
			return h.blobs().Owners(h.Context(), driver.BlobQuery{Cursor: cursor, Limit: limit})
		}) {
			h.must(err)
			owners = append(owners, *owner)
		}
		if !slices.Equal(owners, want) {
			h.Errorf("limit %d: owners %v, want %v", limit, owners, want)
		}
		keys := map[string]bool{}
		pages := 0
		for cursor := ""; ; pages++ {
			page, err := h.blobs().List(h.Context(), want[0], driver.BlobQuery{Cursor: cursor, Limit: limit})
			h.must(err)
			for _, row := range page.Items {
				keys[row.Key] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if wantPages := map[int]int{0: 0, 1: 2, 2: 1, 3: 0}[limit]; len(keys) != 3 || pages != wantPages {
			h.Errorf("limit %d: %d keys on %d further pages, want %d", limit, len(keys), pages, wantPages)
		}
	}
	h.must(h.blobs().Drop(h.Context(), want[0], keysOf("x", "y"+want[0].Root, "z")...))
	page, err := h.blobs().Owners(h.Context(), driver.BlobQuery{})
	h.must(err)
	if !slices.Equal(page.Items, want[1:]) {
		h.Errorf("owners %v once one has dropped its blobs, want %v", page.Items, want[1:])
	}
}

func blobLarge(h *harness) {
	owner := h.blobOwner("session")
	random := rand.New(rand.NewPCG(1, 2))
	list := make([][]byte, 4)
	for i := range list {
		list[i] = make([]byte, driver.MaxBlob)
		for j := range list[i] {
			list[i][j] = byte(random.Uint32())
		}
	}
	keys, err := h.blobs().Put(h.Context(), owner, list...)
	h.must(err)
	got, err := h.blobs().Get(h.Context(), owner, keys...)
	h.must(err)
	for i := range list {
		if !bytes.Equal(got[i], list[i]) {
			h.Errorf("blob %d has %d bytes, and others than were put", i, len(got[i]))
		}
	}
	var many []string
	for i := range driver.MaxBlobs {
		many = append(many, fmt.Sprint(i))
	}
	h.putBlobs(owner, many...)
	h.wantBlobs("many", owner, many[:10], append(many, string(list[0]), string(list[1]), string(list[2]), string(list[3]))...)
	h.must(h.blobs().Drop(h.Context(), owner, keysOf(many...)...))
	h.must(h.blobs().Drop(h.Context(), owner, keys...))
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: driver.MaxBlobs + 4, Bytes: 2890 + 4*driver.MaxBlob})
}

// The bytes belong to the caller, before and after.
func blobCopies(h *harness) {
	owner := h.blobOwner("session")
	blob := []byte("abc")
	keys, err := h.blobs().Put(h.Context(), owner, blob)
	h.must(err)
	blob[0] = 'x'
	got, err := h.blobs().Get(h.Context(), owner, keys[0], keys[0])
	h.must(err)
	got[0][1] = 'x'
	if string(got[1]) != "abc" {
		h.Errorf("the second copy is %q", got[1])
	}
	h.wantBlobs("changed by the caller", owner, []string{"abc"}, "abc")
}

func blobRefused(h *harness) {
	owner := h.blobOwner("session")
	refused := func(what string, want cairn.Code, field string, err error) {
		h.Helper()
		h.wantError(err, want, what)
		if e := cairn.AsError(err); e.Field != field {
			h.Errorf("%s: the error %q names the field %q, want %q", what, err, e.Field, field)
		}
	}
	put := func(owner driver.BlobOwner, list ...[]byte) error {
		_, err := h.blobs().Put(h.Context(), owner, list...)
		return err
	}
	refused("no owner", cairn.ErrInvalid, "owner.root", put(driver.BlobOwner{}))
	refused("an owner with a bad incarnation", cairn.ErrInvalid, "owner.incarnation", put(driver.BlobOwner{Root: "session", Incarnation: "a\n"}))
	refused("a blob that is too large", cairn.ErrTooLarge, "blobs", put(owner, make([]byte, driver.MaxBlob+1)))
	large := make([]byte, driver.MaxBlob)
	refused("blobs that are too large", cairn.ErrTooLarge, "blobs", put(owner, large, large, large, large, []byte("x")))
	refused("too many blobs", cairn.ErrTooLarge, "keys", put(owner, make([][]byte, driver.MaxBlobs+1)...))
	_, err := h.blobs().Get(h.Context(), owner, make([]string, driver.MaxBlobs+1)...)
	refused("too many keys", cairn.ErrTooLarge, "keys", err)
	for _, key := range []string{"", "a", strings.Repeat("g", 64), strings.Repeat("A", 64), strings.Repeat("0", 65), "../" + strings.Repeat("0", 61)} {
		_, err := h.blobs().Get(h.Context(), owner, key)
		refused("get "+key, cairn.ErrInvalid, "keys", err)
		_, err = h.blobs().Has(h.Context(), owner, key)
		refused("has "+key, cairn.ErrInvalid, "keys", err)
		refused("drop "+key, cairn.ErrInvalid, "keys", h.blobs().Drop(h.Context(), owner, key))
		refused("name "+key, cairn.ErrInvalid, "keys", h.blobs().Name(h.Context(), owner, owner, key))
	}
	_, err = h.blobs().List(h.Context(), owner, driver.BlobQuery{Cursor: "nothing"})
	refused("a bad cursor", cairn.ErrInvalid, "cursor", err)
	_, err = h.blobs().Owners(h.Context(), driver.BlobQuery{Cursor: "a\x00"})
	refused("a bad cursor of owners", cairn.ErrInvalid, "cursor", err)
	_, err = h.blobs().Sweep(h.Context(), -1)
	refused("a negative age", cairn.ErrInvalid, "age", err)
	h.wantBlobs("after refused calls", owner, []string{"x"})
}

// A blob that is put or named while others drop and sweep it is there: no sweep deletes one with a name.
func blobRace(h *harness) {
	owners := make([]driver.BlobOwner, 4)
	for i := range owners {
		owners[i] = h.blobOwner(fmt.Sprint("session-", i))
	}
	texts := []string{"a", "b", "c"}
	for range h.rounds(20) {
		h.putBlobs(owners[0], texts...)
		errs := race(len(owners)+1, func(i int) error {
			switch i {
			case 0:
				return h.blobs().Drop(h.Context(), owners[0], keysOf("c", "a", "b")...)
			case 1:
				_, err := h.blobs().Put(h.Context(), owners[1], []byte("b"), []byte("a"), []byte("c"))
				return err
			case 2:
				err := h.blobs().Name(h.Context(), owners[0], owners[2], keysOf(texts...)...)
				if errors.Is(err, cairn.ErrNotFound) {
					_, err = h.blobs().Put(h.Context(), owners[2], []byte("c"), []byte("b"), []byte("a"))
				}
				return err
			case 3:
				_, err := h.blobs().Put(h.Context(), owners[3], []byte("c"), []byte("a"))
				if err == nil {
					err = h.blobs().Drop(h.Context(), owners[3], keysOf("a", "c")...)
				}
				return err
			}
			_, err := h.blobs().Sweep(h.Context(), 0)
			return err
		})
		h.must(errors.Join(errs...))
		h.wantBlobs("put", owners[1], texts, texts...)
		h.wantBlobs("named", owners[2], texts, texts...)
		h.must(h.blobs().Drop(h.Context(), owners[1], keysOf(texts...)...))
		h.must(h.blobs().Drop(h.Context(), owners[2], keysOf(texts...)...))
		h.sweepBlobs(0, driver.SweptBlobs{Blobs: 3, Bytes: 3})
	}
}

// A copied tree has its blobs, also if only they were missing.
func blobCopied(h *harness) {
	owner := h.blobOwner("session")
	h.tree("child", "session")
	var all []string
	for i := range 1500 {
		all = append(all, fmt.Sprint("blob ", i))
	}
	h.putBlobs(owner, all[:1000]...)
	h.putBlobs(owner, all[1000:]...)
	h.blobOwner("none")
	to := h.other()
	for i, want := range []store.TreeCopy{{Copied: true, Blobs: 1500}, {Blobs: 1500}} {
		for j, t := range h.copies(h.importer(), to.importer(), "session", "none") {
			if t.Err != nil || t.Copied != want.Copied || t.Blobs != want.Blobs*(1-j) {
				h.Fatalf("copy %d: %+v", i, t)
			}
		}
		to.wantBlobs("copied", owner, all, all...)
		h.must(to.blobs().Drop(h.Context(), owner, keysOf(all[900:1100]...)...))
	}
	copied, err := store.Copy(h.Context(), h.importer(), to.importer(), "session")
	h.must(err)
	if copied {
		h.Error("an equal tree counts as copied")
	}
	to.wantBlobs("copied again", owner, all, all...)
}

func blobCancelled(h *harness) {
	owner := h.blobOwner("session")
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	_, err := h.blobs().Put(ctx, owner, []byte("a"))
	_, err2 := h.blobs().Get(ctx, owner, keysOf("a")...)
	err3 := h.blobs().Drop(ctx, owner, keysOf("a")...)
	_, err4 := h.blobs().Owners(ctx, driver.BlobQuery{})
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) {
			h.Errorf("call %d: error %v, want a cancelled context", i, err)
		}
	}
	h.wantBlobs("after a cancelled put", owner, []string{"a"})
}

func blobClosed(h *harness) {
	owner, b := h.blobOwner("session"), h.blobs()
	h.must(h.st.Close())
	_, err := b.Put(h.Context(), owner, []byte("a"))
	h.wantError(err, cairn.ErrClosed, "put")
	_, err = b.Has(h.Context(), owner, keysOf("a")...)
	h.wantError(err, cairn.ErrClosed, "has")
	_, err = b.List(h.Context(), owner, driver.BlobQuery{})
	h.wantError(err, cairn.ErrClosed, "list")
	_, err = b.Sweep(h.Context(), 0)
	h.wantError(err, cairn.ErrClosed, "sweep")
}

func blobReopen(h *harness) {
	owner := h.blobOwner("session")
	h.putBlobs(owner, "a", "b")
	h.must(h.blobs().Drop(h.Context(), owner, keysOf("b")...))
	h.st = h.opts.Reopen(h.T, h.st)
	h.wantBlobs("reopened", owner, []string{"a", "b"}, "a")
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: 1, Bytes: 1})
}

// Two processes put the same blobs at the same time.
func blobTwoHandles(h *harness) {
	handles := [2]*harness{h, h.on(h.opts.Second(h.T, h.st))}
	owners := [2]driver.BlobOwner{h.blobOwner("one"), h.blobOwner("two")}
	for round := range h.rounds(20) {
		texts := make([]string, 20)
		for i := range texts {
			texts[i] = fmt.Sprint(round, " ", i)
		}
		h.must(errors.Join(race(4, func(i int) error {
			list := make([][]byte, len(texts))
			for j, text := range texts {
				if i%2 == 1 {
					j = len(texts) - 1 - j
				}
				list[j] = []byte(text)
			}
			_, err := handles[i%2].blobs().Put(h.Context(), owners[i/2], list...)
			return err
		})...))
		h.must(handles[1].blobs().Drop(h.Context(), owners[0], keysOf(texts...)...))
		handles[0].wantBlobs("dropped through the other handle", owners[0], texts)
		handles[0].wantBlobs("of the other owner", owners[1], texts, texts...)
		h.must(handles[0].blobs().Drop(h.Context(), owners[1], keysOf(texts...)...))
	}
	h.must(h.st.Close())
	if _, err := handles[1].blobs().Owners(h.Context(), driver.BlobQuery{}); err != nil {
		h.Errorf("after the other handle was closed: %v", err)
	}
}

// blobFault fails each internal write of a call in turn: a call that fails changes nothing and can be repeated.
func blobFault(h *harness) {
	one, two := h.blobOwner("one"), h.blobOwner("two")
	h.putBlobs(one, "a", "b")
	all := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		what string
		call func() error
		// before and after are the blobs of the owner two.
		before, after []string
	}{
		{"put", func() error { _, err := h.blobs().Put(h.Context(), two, []byte("c"), []byte("d")); return err }, nil, []string{"c", "d"}},
		{"name", func() error { return h.blobs().Name(h.Context(), one, two, keysOf("a", "b")...) }, []string{"c", "d"}, all},
		{"drop", func() error { return h.blobs().Drop(h.Context(), two, keysOf("d", "a")...) }, all, []string{"b", "c"}},
	} {
		for n := 1; ; n++ {
			disarm := h.opts.Fault(h.T, h.st, n)
			err := c.call()
			failed := disarm()
			if err != nil {
				h.wantError(err, cairn.ErrUnavailable, c.what)
				h.wantBlobs("after a failed "+c.what, two, all, c.before...)
			}
			if !failed {
				h.must(err)
				if n == 1 {
					h.Fatalf("%s: no internal write was made to fail", c.what)
				}
				break
			}
			if err == nil { // it was repeated
				break
			}
			if n == mostWrites {
				h.Fatalf("%s: still failing at internal write %d", c.what, n)
			}
		}
		h.wantBlobs(c.what, two, all, c.after...)
	}
	h.sweepBlobs(0, driver.SweptBlobs{Blobs: 1, Bytes: 1})
}
