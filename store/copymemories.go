package store

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// copyPage is how many entries of a scope are read at once.
	copyPage = 1000
	// copyMark is the key of an entry that a scope has while it is being copied.
	copyMark = "~copy"
	// firstKey and pastKeys bound the keys of all entries of a scope.
	firstKey, pastKeys = "\x01", "\U0010FFFF"
)

// errScopeChanged stops a copy of a scope that was written to in the meantime.
var errScopeChanged = cairn.Errorf(cairn.ErrStale, "memories have changed while they were copied")

// repeatedCopies bounds how often a scope that is written to meanwhile is copied.
const repeatedCopies = 5

// CopyMemories copies a scope of memories to another store. copied is false if the other store has an equal one
// already, so an interrupted copy can be repeated: the incomplete scope is replaced. A different scope is left
// unchanged and the error is ErrExists. The error is ErrStale if the scope is written to all the time.
func CopyMemories(ctx context.Context, row *driver.MemoryScopeRow, from, to Memories) (copied bool, err error) {
	for n := 0; ; n++ {
		copied, err = copyMemories(ctx, row, from, to)
		if n == repeatedCopies || !errors.Is(err, errScopeChanged) {
			return copied, err
		}
	}
}

func copyMemories(ctx context.Context, row *driver.MemoryScopeRow, from, to Memories) (copied bool, err error) {
	scope := row.MemoryScope
	switch there, err := CopiedMemories(ctx, scope, from, to); {
	case there || err != nil:
		return false, err
	}
	if _, err := to.Drop(ctx, scope); err != nil { // an incomplete copy
		return false, err
	}
	seen := int64(0)
	w := driver.MemoryWrite{Scope: scope, Puts: []driver.MemoryEntry{{Key: copyMark, Value: []byte{1}}}}
	for page, err := range pagesOf(ctx, scope, from) {
		if err != nil {
			return false, err
		}
		w.Puts, w.Seen, w.DueAt = append(w.Puts, page...), seen, row.DueAt
		if seen, err = to.Write(ctx, w); err != nil {
			return false, err
		}
		w.Puts = nil
	}
	if seen == 0 {
		return false, nil // there is nothing to copy
	}
	_, err = to.Write(ctx, driver.MemoryWrite{Scope: scope, Seen: seen, Deletes: []string{copyMark}, DueAt: row.DueAt})
	return err == nil, err
}

// CopiedMemories reports whether another store has an equal scope of memories. If it has a different one, the error is
// ErrExists. An incomplete scope, of an interrupted copy, counts as none.
func CopiedMemories(ctx context.Context, scope MemoryScope, from, to Memories) (bool, error) {
	there, err := to.Read(ctx, scope, driver.MemoryRead{From: copyMark})
	if err != nil || there.Version == 0 || len(there.Found[0]) > 0 {
		return false, err
	}
	next := firstKey
	for page, err := range pagesOf(ctx, scope, from) {
		if err != nil {
			return false, err
		}
		other, err := to.Read(ctx, scope, driver.MemoryRead{From: next, Before: pastKeys, Limit: len(page)})
		if err != nil {
			return false, err
		}
		if !sameEntries(page, other.Found[0]) {
			return false, differentMemories(scope)
		}
		next = page[len(page)-1].Key + "\x01"
	}
	rest, err := to.Read(ctx, scope, driver.MemoryRead{From: next, Before: pastKeys, Limit: 1, Sizes: true})
	if err == nil && len(rest.Found[0]) > 0 {
		err = differentMemories(scope)
	}
	return err == nil, err
}

func differentMemories(scope MemoryScope) error {
	return cairn.Errorf(cairn.ErrExists, "memories of %s %q already exist and differ", scope.Kind, scope.Name)
}

func sameEntries(a, b []driver.MemoryEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

// pagesOf yields the entries of a scope, all from one version.
func pagesOf(ctx context.Context, scope MemoryScope, from Memories) iter.Seq2[[]driver.MemoryEntry, error] {
	return func(yield func([]driver.MemoryEntry, error) bool) {
		version := int64(-1)
		for next := firstKey; ; {
			found, err := from.Read(ctx, scope, driver.MemoryRead{From: next, Before: pastKeys, Limit: copyPage})
			if err == nil && version >= 0 && found.Version != version {
				err = errScopeChanged
			}
			if err != nil {
				yield(nil, err)
				return
			}
			version = found.Version
			page := found.Found[0]
			if len(page) > 0 && !yield(page, nil) || len(page) < copyPage {
				return
			}
			next = page[len(page)-1].Key + "\x01"
		}
	}
}

// MemoryScopes yields the scopes of a store, page after page.
func MemoryScopes(ctx context.Context, from Memories) iter.Seq2[*driver.MemoryScopeRow, error] {
	return driver.All(func(cursor string) (Page[driver.MemoryScopeRow], error) {
		return from.Scopes(ctx, driver.MemoryScopeQuery{Cursor: cursor})
	})
}
