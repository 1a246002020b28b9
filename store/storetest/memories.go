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
	"github.com/cairn-agents/cairn/store/driver"
)

// memoryTests are the tests of stores that are MemoryProviders.
var memoryTests = []storeTest{
	{name: "RoundTrip", run: memoryRoundTrip},
	{name: "Ranges", run: memoryRanges},
	{name: "OneWriterWins", run: memoryOneWriterWins},
	{name: "NoVersionTwice", run: memoryVersions},
	{name: "OnePointInTime", run: memorySnapshot},
	{name: "RandomWrites", run: memoryModel},
	{name: "Hostile", run: memoryHostile},
	{name: "Refused", run: memoryRefused},
	{name: "Scopes", run: memoryScopes},
	{name: "ScopesDue", run: memoryScopesDue},
	{name: "ScopesAreApart", run: memoryApart},
	{name: "LargeScope", run: memoryLarge},
	{name: "ValuesAreCopies", run: memoryCopies},
	{name: "EndsWithItsSession", run: memoryOfSession},
	{name: "Cancelled", run: memoryCancelled},
	{name: "Closed", run: memoryClosed},
	{name: "Reopen", run: memoryReopen, needs: needsReopen},
	{name: "TwoHandles", run: memoryTwoHandles, needs: needsSecond},
	{name: "Fault", run: memoryFault, needs: needsFault},
}

// memories returns the store's memories. Only tests of stores that have memories call it.
func (h *harness) memories() driver.Memories { return h.st.(driver.MemoryProvider).Memories() }

func userScope(name string) driver.MemoryScope { return driver.UserMemories(name) }

// memoryPuts returns entries from keys and values.
func memoryPuts(pairs ...string) []driver.MemoryEntry {
	var list []driver.MemoryEntry
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, driver.MemoryEntry{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return list
}

// write writes entries of a scope and returns its version.
func (h *harness) writeMemories(scope driver.MemoryScope, seen int64, pairs ...string) int64 {
	h.Helper()
	version, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: scope, Seen: seen, Puts: memoryPuts(pairs...)})
	h.must(err)
	if version <= seen {
		h.Fatalf("version %d after %d", version, seen)
	}
	return version
}

// readMemories reads all entries of a scope.
func (h *harness) readMemories(scope driver.MemoryScope) (version int64, all map[string]string) {
	h.Helper()
	found, err := h.memories().Read(h.Context(), scope, driver.MemoryRead{From: "!", Before: "\U0010FFFF"})
	h.must(err)
	all = map[string]string{}
	for _, e := range found.Found[0] {
		if e.Size != len(e.Value) {
			h.Fatalf("entry %q has the size %d and a value of %d bytes", e.Key, e.Size, len(e.Value))
		}
		all[e.Key] = string(e.Value)
	}
	return found.Version, all
}

func (h *harness) wantMemories(what string, scope driver.MemoryScope, version int64, pairs ...string) {
	h.Helper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	got, all := h.readMemories(scope)
	if got != version || !maps.Equal(all, want) {
		h.Fatalf("%s: version %d with %v, want %d with %v", what, got, all, version, want)
	}
}

func memoryRoundTrip(h *harness) {
	ann := userScope("ann")
	h.wantMemories("a scope that does not exist", ann, 0)
	version := h.writeMemories(ann, 0, "a", "1", "b", "")
	h.wantMemories("written", ann, version, "a", "1", "b", "")
	_, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: ann, Seen: 0, Puts: memoryPuts("a", "other")})
	h.wantError(err, cairn.ErrStale, "a write to a scope that exists")
	next, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: ann, Seen: version, Puts: memoryPuts("a", "2", "c", "3"), Deletes: []string{"b", "none"}})
	h.must(err)
	_, err = h.memories().Write(h.Context(), driver.MemoryWrite{Scope: ann, Seen: version, Deletes: []string{"a"}})
	h.wantError(err, cairn.ErrStale, "a write of an old version")
	h.wantMemories("changed", ann, next, "a", "2", "c", "3")
	found, err := h.memories().Drop(h.Context(), ann)
	h.must(err)
	again, err := h.memories().Drop(h.Context(), ann)
	h.must(err)
	if !found || again {
		h.Fatalf("dropped: %v, then %v", found, again)
	}
	h.wantMemories("dropped", ann, 0)
}

func memoryRanges(h *harness) {
	ann := userScope("ann")
	h.writeMemories(ann, 0, "a", "1", "aa", "22", "ab", "333", "b", "4444", "é", "5")
	found, err := h.memories().Read(h.Context(), ann,
		driver.MemoryRead{From: "aa"}, driver.MemoryRead{From: "none"}, driver.MemoryRead{From: "a", Before: "b"},
		driver.MemoryRead{From: "a", Before: "z", Limit: 2}, driver.MemoryRead{From: "a", Before: "b", Sizes: true},
		driver.MemoryRead{From: "b", Before: "a"}, driver.MemoryRead{From: "c", Before: "\U0010FFFF"},
		driver.MemoryRead{From: "aa", Sizes: true}, driver.MemoryRead{From: "aa"})
	h.must(err)
	want := [][]string{{"aa=22"}, nil, {"a=1", "aa=22", "ab=333"}, {"a=1", "aa=22"}, {"a:1", "aa:2", "ab:3"}, nil, {"é=5"}, {"aa:2"}, {"aa=22"}}
	for i, list := range found.Found {
		var got []string
		for _, e := range list {
			if e.Value != nil {
				got = append(got, e.Key+"="+string(e.Value))
			} else {
				got = append(got, fmt.Sprint(e.Key, ":", e.Size))
			}
		}
		if !slices.Equal(got, want[i]) {
			h.Errorf("read %d: %q, want %q", i, got, want[i])
		}
	}
	if found.AsOf.IsZero() {
		h.Error("the read has no time")
	}
}

func memoryOneWriterWins(h *harness) {
	ann := userScope("ann")
	version := int64(0)
	for range h.rounds(10) {
		errs := race(recordWriters, func(i int) error {
			_, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: ann, Seen: version, Puts: memoryPuts("winner", fmt.Sprint(i), fmt.Sprint(i), "x")})
			return err
		})
		winner := h.oneRecordWins(errs, cairn.ErrStale)
		now, all := h.readMemories(ann)
		if now <= version || all["winner"] != fmt.Sprint(winner) || all[fmt.Sprint(winner)] != "x" {
			h.Fatalf("writer %d won, the scope has %v", winner, all)
		}
		version = now
	}
}

func memoryVersions(h *harness) {
	ann := userScope("ann")
	seen := map[int64]bool{}
	for range 20 {
		version := h.writeMemories(ann, 0, "a", "1")
		next := h.writeMemories(ann, version, "a", "2")
		if seen[version] || seen[next] {
			h.Fatalf("version %d or %d was used before", version, next)
		}
		seen[version], seen[next] = true, true
		_, err := h.memories().Drop(h.Context(), ann)
		h.must(err)
		tick()
	}
}

// memorySnapshot reads several ranges while a writer changes them together.
func memorySnapshot(h *harness) {
	ann := userScope("ann")
	version := h.writeMemories(ann, 0, "a", "0", "z", "0")
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 1; i <= 50 && err == nil; i++ {
			version, err = h.memories().Write(context.Background(), driver.MemoryWrite{Scope: ann, Seen: version, Puts: memoryPuts("a", fmt.Sprint(i), "z", fmt.Sprint(i))})
		}
		done <- err
	}()
	for running := true; running; {
		select {
		case err := <-done:
			h.must(err)
			running = false
		default:
		}
		found, err := h.memories().Read(h.Context(), ann, driver.MemoryRead{From: "a", Before: "b"}, driver.MemoryRead{From: "z"})
		h.must(err)
		if a, z := found.Found[0][0].Value, found.Found[1][0].Value; !bytes.Equal(a, z) {
			h.Fatalf("one read has %s and %s", a, z)
		}
	}
}

// memoryModel compares random writes with a map.
func memoryModel(h *harness) {
	rnd := rand.New(rand.NewPCG(1, 2))
	scopes := []driver.MemoryScope{userScope("a"), userScope("b"), {Kind: driver.MemoryOfGroup, Name: "a"}}
	versions, want := make([]int64, len(scopes)), make([]map[string]string, len(scopes))
	for i := range want {
		want[i] = map[string]string{}
	}
	for range h.rounds(100) {
		i := rnd.IntN(len(scopes))
		if rnd.IntN(15) == 0 {
			_, err := h.memories().Drop(h.Context(), scopes[i])
			h.must(err)
			versions[i], want[i] = 0, map[string]string{}
			continue
		}
		w := driver.MemoryWrite{Scope: scopes[i], Seen: versions[i]}
		for _, k := range rnd.Perm(12)[:rnd.IntN(8)] {
			key := fmt.Sprintf("k%02d", k)
			if rnd.IntN(3) == 0 {
				w.Deletes = append(w.Deletes, key)
				delete(want[i], key)
				continue
			}
			value := strings.Repeat(fmt.Sprint(rnd.Int()), rnd.IntN(300))
			w.Puts = append(w.Puts, driver.MemoryEntry{Key: key, Value: []byte(value)})
			want[i][key] = value
		}
		var err error
		versions[i], err = h.memories().Write(h.Context(), w)
		h.must(err)
		for j, scope := range scopes {
			if version, all := h.readMemories(scope); version != versions[j] || !maps.Equal(all, want[j]) {
				h.Fatalf("scope %v has %v, want %v", scope, all, want[j])
			}
		}
	}
}

func memoryHostile(h *harness) {
	raw := make([]byte, 256)
	for i := range raw {
		raw[i] = byte(i)
	}
	for _, name := range append([]string{strings.Repeat("x", driver.MaxMemoryName)}, oddTexts...) {
		scope := driver.MemoryScope{Kind: driver.MemoryOfGroup, Name: strings.TrimSpace(name)}
		if scope.Check() != nil {
			continue
		}
		key := scope.Name[:min(len(scope.Name), 100)]
		if cairn.CheckText("key", key) != nil {
			continue
		}
		puts := []driver.MemoryEntry{{Key: "k" + key, Value: raw}, {Key: "k\x01\x7f' OR \"", Value: []byte{}}}
		version, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: scope, Puts: puts})
		h.must(err)
		h.wantMemories(name, scope, version, puts[0].Key, string(raw), puts[1].Key, "")
	}
	big := bytes.Repeat([]byte{0xff, 0}, driver.MaxMemoryValue/2)
	scope := userScope("big")
	_, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: scope, Puts: []driver.MemoryEntry{{Key: strings.Repeat("k", driver.MaxMemoryKey), Value: big}}})
	h.must(err)
	if _, all := h.readMemories(scope); len(all) != 1 {
		h.Fatal("the largest entry is gone")
	}
}

func memoryRefused(h *harness) {
	ann := userScope("ann")
	big := make([]byte, driver.MaxMemoryValue+1)
	for name, w := range map[string]driver.MemoryWrite{
		"scope.kind": {Scope: driver.MemoryScope{Kind: "all", Name: "x"}}, "scope.name": {Scope: userScope("")}, "seen": {Scope: ann, Seen: -1},
		"puts": {Scope: ann, Puts: memoryPuts("", "x")}, "deletes": {Scope: ann, Puts: memoryPuts("a", "x"), Deletes: []string{"a"}},
	} {
		_, err := h.memories().Write(h.Context(), w)
		h.wantError(err, cairn.ErrInvalid, name)
		if e := cairn.AsError(err); e.Field != name {
			h.Errorf("the error %q names the field %q, want %q", err, e.Field, name)
		}
	}
	_, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: ann, Puts: []driver.MemoryEntry{{Key: "a", Value: big}}})
	h.wantError(err, cairn.ErrTooLarge, "a large value")
	for _, read := range []driver.MemoryRead{{}, {From: "a\x00"}, {From: "a", Before: "b\xff"}, {From: "a", Before: "b", Limit: -1}} {
		_, err := h.memories().Read(h.Context(), ann, read)
		h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("%+v", read))
	}
	_, err = h.memories().Read(h.Context(), userScope(" x"))
	h.wantError(err, cairn.ErrInvalid, "a read of a bad scope")
	_, err = h.memories().Drop(h.Context(), userScope("x\n"))
	h.wantError(err, cairn.ErrInvalid, "a drop of a bad scope")
	_, err = h.memories().Scopes(h.Context(), driver.MemoryScopeQuery{Cursor: "nothing"})
	h.wantError(err, cairn.ErrInvalid, "a bad cursor")
	h.wantMemories("after refused writes", ann, 0)
}

// listScopes reads all pages of a list.
func (h *harness) listScopes(q driver.MemoryScopeQuery) (names []string) {
	h.Helper()
	for row, err := range driver.All(func(cursor string) (driver.Page[driver.MemoryScopeRow], error) {
		q.Cursor = cursor
		return h.memories().Scopes(h.Context(), q)
	}) {
		h.must(err)
		if row.Version == 0 || row.UpdatedAt.IsZero() {
			h.Fatalf("row %+v", row)
		}
		names = append(names, string(row.Kind)+" "+row.Name)
	}
	return names
}

func memoryScopes(h *harness) {
	var want []string
	for _, kind := range []driver.MemoryKind{driver.MemoryOfGroup, driver.MemoryOfSession, driver.MemoryOfUser} {
		for _, name := range []string{"A", "a", "a::b", "é"} {
			h.writeMemories(driver.MemoryScope{Kind: kind, Name: name}, 0, "k", "v")
			want = append(want, string(kind)+" "+name)
		}
	}
	for limit := range 5 {
		if got := h.listScopes(driver.MemoryScopeQuery{Limit: limit}); !slices.Equal(got, want) {
			h.Fatalf("pages of %d: %q, want %q", limit, got, want)
		}
		if got := h.listScopes(driver.MemoryScopeQuery{Kind: driver.MemoryOfSession, Limit: limit}); !slices.Equal(got, want[4:8]) {
			h.Fatalf("sessions in pages of %d: %q", limit, got)
		}
	}
	_, err := h.memories().Drop(h.Context(), userScope("a"))
	h.must(err)
	if got := h.listScopes(driver.MemoryScopeQuery{Kind: driver.MemoryOfUser, Limit: 2}); len(got) != 3 {
		h.Fatalf("after a drop: %q", got)
	}
}

func memoryScopesDue(h *harness) {
	due := func(name string, seen int64, at time.Time) int64 {
		version, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: userScope(name), Seen: seen, DueAt: at})
		h.must(err)
		return version
	}
	past := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	due("never", 0, time.Time{})
	due("later", 0, time.Date(2900, 1, 1, 0, 0, 0, 0, time.UTC))
	due("now", 0, past)
	version := due("over", 0, past)
	due("over", version, time.Time{})
	due("past", 0, past)
	for limit := range 3 {
		if got := h.listScopes(driver.MemoryScopeQuery{Due: true, Limit: limit}); !slices.Equal(got, []string{"user now", "user past"}) {
			h.Fatalf("due: %q", got)
		}
	}
}

func memoryApart(h *harness) {
	names := []string{"a", "a:", "a::b", "aa", "A", "%", "_", "a*"}
	versions := map[driver.MemoryScope]int64{}
	for _, name := range names {
		for _, kind := range []driver.MemoryKind{driver.MemoryOfGroup, driver.MemoryOfSession, driver.MemoryOfUser} {
			scope := driver.MemoryScope{Kind: kind, Name: name}
			versions[scope] = h.writeMemories(scope, 0, "key", string(kind)+name)
		}
	}
	dropped := userScope("a")
	_, err := h.memories().Drop(h.Context(), dropped)
	h.must(err)
	for scope, version := range versions {
		if scope == dropped {
			h.wantMemories("the dropped scope", scope, 0)
			continue
		}
		h.wantMemories("another scope", scope, version, "key", string(scope.Kind)+scope.Name)
	}
}

// memoryLarge writes more entries than a store handles at once, and drops them.
func memoryLarge(h *harness) {
	const n = 3000
	scope := userScope("ann")
	w := driver.MemoryWrite{Scope: scope}
	var reads []driver.MemoryRead
	for i := range n {
		w.Puts = append(w.Puts, driver.MemoryEntry{Key: fmt.Sprintf("k%05d", i), Value: []byte(fmt.Sprint(i))})
		reads = append(reads, driver.MemoryRead{From: fmt.Sprintf("k%05d", n-1-i)})
	}
	version, err := h.memories().Write(h.Context(), w)
	h.must(err)
	found, err := h.memories().Read(h.Context(), scope, reads...)
	h.must(err)
	for i, list := range found.Found {
		if len(list) != 1 || string(list[0].Value) != fmt.Sprint(n-1-i) {
			h.Fatalf("read %d: %v", i, list)
		}
	}
	w = driver.MemoryWrite{Scope: scope, Seen: version}
	for i := range n - 1 {
		w.Deletes = append(w.Deletes, fmt.Sprintf("k%05d", i))
	}
	version, err = h.memories().Write(h.Context(), w)
	h.must(err)
	h.wantMemories("after deletes", scope, version, fmt.Sprintf("k%05d", n-1), fmt.Sprint(n-1))
	_, err = h.memories().Drop(h.Context(), scope)
	h.must(err)
	h.wantMemories("dropped", scope, 0)
}

func memoryCopies(h *harness) {
	scope := userScope("ann")
	value := []byte("value")
	version, err := h.memories().Write(h.Context(), driver.MemoryWrite{Scope: scope, Puts: []driver.MemoryEntry{{Key: "k", Value: value}}})
	h.must(err)
	value[0] = '!'
	found, err := h.memories().Read(h.Context(), scope, driver.MemoryRead{From: "k"}, driver.MemoryRead{From: "k"})
	h.must(err)
	found.Found[0][0].Value[0] = '!'
	if string(found.Found[1][0].Value) != "value" {
		h.Fatal("two reads share a value")
	}
	h.wantMemories("after the caller's changes", scope, version, "k", "value")
}

// memoryOfSession removes a session: its memories stay until it is purged, and those of a later session with its id stay.
func memoryOfSession(h *harness) {
	if !h.opts.sweeps {
		return
	}
	scope := func(s *cairn.Session) driver.MemoryScope { return driver.SessionMemories(s.ID, s.Incarnation) }
	first, other := h.create("session"), h.create("session2")
	version := h.writeMemories(scope(first), 0, "k", "first")
	kept := h.writeMemories(scope(other), 0, "k", "other")
	same := h.writeMemories(userScope("session"), 0, "k", "user")
	_, err := h.sweeper().Remove(h.Context(), "session", driver.Deleted)
	h.must(err)
	h.wantMemories("of a removed session", scope(first), version, "k", "first")
	_, err = h.sweeper().Restore(h.Context(), "session")
	h.must(err)
	h.wantMemories("of a restored session", scope(first), version, "k", "first")
	removed, err := h.sweeper().Remove(h.Context(), "session", driver.Deleted)
	h.must(err)
	_, err = h.sweeper().Purge(h.Context(), removed.Key)
	h.must(err)
	h.wantMemories("of a purged session", scope(first), 0)
	second := h.create("session")
	h.wantMemories("of a later session with the id", scope(second), 0)
	h.wantMemories("of another session", scope(other), kept, "k", "other")
	h.wantMemories("of a user with the session's name", userScope("session"), same, "k", "user")
}

func memoryCancelled(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	_, err := h.memories().Read(ctx, userScope("ann"))
	_, err2 := h.memories().Write(ctx, driver.MemoryWrite{Scope: userScope("ann"), Puts: memoryPuts("a", "1")})
	_, err3 := h.memories().Scopes(ctx, driver.MemoryScopeQuery{})
	_, err4 := h.memories().Drop(ctx, userScope("ann"))
	for _, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) {
			h.Errorf("error %v, want a cancelled context", err)
		}
	}
	h.wantMemories("after a cancelled write", userScope("ann"), 0)
}

func memoryClosed(h *harness) {
	m := h.memories()
	h.must(h.st.Close())
	_, err := m.Read(h.Context(), userScope("ann"))
	h.wantError(err, cairn.ErrClosed, "read")
	_, err = m.Write(h.Context(), driver.MemoryWrite{Scope: userScope("ann")})
	h.wantError(err, cairn.ErrClosed, "write")
	_, err = m.Drop(h.Context(), userScope("ann"))
	h.wantError(err, cairn.ErrClosed, "drop")
	_, err = m.Scopes(h.Context(), driver.MemoryScopeQuery{})
	h.wantError(err, cairn.ErrClosed, "scopes")
}

func memoryReopen(h *harness) {
	version := h.writeMemories(userScope("ann"), 0, "a", "1")
	h.st = h.opts.Reopen(h.T, h.st)
	h.wantMemories("reopened", userScope("ann"), version, "a", "1")
	h.writeMemories(userScope("ann"), version, "a", "2")
}

func memoryTwoHandles(h *harness) {
	other := h.on(h.opts.Second(h.T, h.st))
	handles := [2]*harness{h, other}
	version := int64(0)
	for i := range 10 {
		version = handles[i%2].writeMemories(userScope("ann"), version, "a", fmt.Sprint(i))
		handles[1-i%2].wantMemories("through the other handle", userScope("ann"), version, "a", fmt.Sprint(i))
	}
}

// memoryFault fails each internal write of a call in turn: a call that fails changes nothing and can be repeated.
func memoryFault(h *harness) {
	scope := userScope("ann")
	version := h.writeMemories(scope, 0, "a", "1", "b", "1")
	w := driver.MemoryWrite{Scope: scope, Puts: memoryPuts("a", "2", "c", "2"), Deletes: []string{"b"}}
	for n := 1; n <= mostWrites; n++ {
		w.Seen = version
		disarm := h.opts.Fault(h.T, h.st, n)
		next, err := h.memories().Write(h.Context(), w)
		failed := disarm()
		if !failed {
			h.must(err)
			if n == 1 {
				h.Fatal("no internal write was made to fail")
			}
			return
		}
		if err == nil {
			version = next
			continue
		}
		h.wantError(err, cairn.ErrUnavailable, "write")
		h.wantMemories("after a failed write", scope, version, "a", "1", "b", "1")
	}
	h.Fatalf("still failing at internal write %d", mostWrites)
}
