// Package memorytest tests that memories work on a store: searches, versions, quarantine, limits and vectors. It is for
// stores that are a store.MemoryProvider; package storetest has the tests of that interface itself.
package memorytest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/driver"
)

// Open returns an empty store that is closed when the test ends.
type Open func(tb testing.TB) driver.Store

// Run runs the suite on the stores that open returns, one for each test, several at a time.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*harness)
	}{
		{"AddIsRepeatable", addIsRepeatable},
		{"AddIsAllOrNothing", addIsAllOrNothing},
		{"Refused", refused},
		{"Versions", versions},
		{"StatementAboutThePast", statementAboutThePast},
		{"AsOf", asOf},
		{"ChainsAreJoined", chainsAreJoined},
		{"FactOrText", factOrText},
		{"Neighbours", neighbours},
		{"Quarantine", quarantine},
		{"QuarantineSupersedesNothing", quarantineSupersedesNothing},
		{"QuarantineCrowdsNothingOut", quarantineCrowdsNothingOut},
		{"Redact", redact},
		{"Forget", forget},
		{"NothingRemains", nothingRemains},
		{"ScopesAreApart", scopesAreApart},
		{"Lists", lists},
		{"NamesAndSources", namesAndSources},
		{"Expiry", expiry},
		{"Trim", trim},
		{"Reindex", reindex},
		{"Writers", writers},
		{"HostileTexts", hostileTexts},
		{"Identifiers", identifiers},
		{"Vectors", vectors},
		{"VectorsOfAnotherModel", vectorsOfAnotherModel},
		{"EmbedderFails", embedderFails},
		{"Model", likeTheModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := &harness{T: t, st: open(t), scope: memory.User("ann")}
			h.m = h.memory(nil)
			test.run(h)
		})
	}
}

// harness is a test with a memory in a store of its own.
type harness struct {
	*testing.T
	st    driver.Store
	m     *memory.Memory
	scope memory.Scope
}

func (h *harness) memory(opts *memory.Options) *memory.Memory {
	h.Helper()
	m, err := memory.New(h.st, opts)
	h.must(err)
	return m
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) wantError(err error, code cairn.Code, field string) {
	h.Helper()
	if !errors.Is(err, code) {
		h.Fatalf("error %v, want %v", err, code)
	}
	if e := cairn.AsError(err); field != "" && e.Field != field {
		h.Fatalf("the error %q names the field %q, want %q", err, e.Field, field)
	}
}

// fact returns a fact that the application wrote.
func fact(id, text string, supersedes ...string) memory.Entry {
	return memory.Entry{ID: id, Text: text, Supersedes: supersedes, Source: memory.Source{Kind: memory.Application}}
}

// said returns text of a conversation.
func said(id, session string, position int, speaker, text string) memory.Entry {
	return memory.Entry{ID: id, Kind: memory.Said, Text: text, Speaker: speaker,
		Source: memory.Source{Kind: memory.UserSaid, Session: session, Position: position}}
}

func day(n int) time.Time { return time.Date(2020, 1, n, 0, 0, 0, 0, time.UTC) }

func (h *harness) add(entries ...memory.Entry) []memory.Entry {
	h.Helper()
	list, err := h.m.Add(h.Context(), h.scope, entries...)
	h.must(err)
	return list
}

// search returns the ids of the hits.
func (h *harness) search(q memory.Query) []string {
	h.Helper()
	hits, err := h.m.Search(h.Context(), h.scope, q)
	h.must(err)
	ids := []string{}
	for i := range hits {
		ids = append(ids, hits[i].ID)
	}
	return ids
}

func (h *harness) wantHits(q memory.Query, want ...string) {
	h.Helper()
	if got := h.search(q); !slices.Equal(got, want) {
		h.Fatalf("%q found %q, want %q", q.Text, got, want)
	}
}

func (h *harness) wantText(text string, want ...string) {
	h.Helper()
	h.wantHits(memory.Query{Text: text}, want...)
}

func (h *harness) list(q memory.ListQuery) []string {
	h.Helper()
	ids := []string{}
	for e, err := range h.m.All(h.Context(), h.scope, q) {
		h.must(err)
		ids = append(ids, e.ID)
	}
	return ids
}

// rows returns how many entries the store has of the scope.
func (h *harness) rows() int {
	h.Helper()
	p, _ := driver.As[driver.MemoryProvider](h.st)
	found, err := p.Memories().Read(h.Context(), h.scope, driver.MemoryRead{From: "!", Before: "\U0010FFFF", Sizes: true})
	h.must(err)
	return len(found.Found[0])
}

func addIsRepeatable(h *harness) {
	first := h.add(fact("f", "Ann lives in Bonn"))
	h.add(fact("f", "Ann lives in Rome"), fact("g", "Ann has a dog"))
	e, err := h.m.Get(h.Context(), h.scope, "f")
	h.must(err)
	if e.Text != first[0].Text || !e.StoredAt.Equal(first[0].StoredAt) || e.Version != 1 || e.State != memory.Active {
		h.Fatalf("the entry is %+v, was %+v", e, first[0])
	}
	h.wantText("Rome")
	list := h.add(fact("", "Ann plays chess"), fact("", "Ann plays chess"))
	if list[0].ID == "" || list[0].ID == list[1].ID {
		h.Fatalf("ids %q and %q", list[0].ID, list[1].ID)
	}
	a, b := memory.Derive(h.scope, "s", 1, 2), memory.Derive(h.scope, "s", 12, 0)
	if a != memory.Derive(h.scope, "s", 1, 2) || a == b || a == memory.Derive(memory.User("bob"), "s", 1, 2) {
		h.Fatal("derived ids")
	}
}

func addIsAllOrNothing(h *harness) {
	h.add(fact("f", "Ann lives in Bonn"))
	before := h.rows()
	_, err := h.m.Add(h.Context(), h.scope, fact("g", "Ann has a dog"), fact("h", "Ann moved", "missing"))
	h.wantError(err, cairn.ErrNotFound, "entries[1].supersedes[0]")
	about := fact("i", "It has rained")
	about.About = "f"
	_, err = h.m.Add(h.Context(), h.scope, fact("g", "Ann has a dog"), about)
	h.wantError(err, cairn.ErrInvalid, "entries[1].about")
	if h.rows() != before {
		h.Fatal("a refused write has changed the store")
	}
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if _, err := h.m.Add(ctx, h.scope, fact("g", "Ann has a dog")); err == nil {
		h.Fatal("a cancelled write has no error")
	}
}

func refused(h *harness) {
	change := func(fn func(*memory.Entry)) memory.Entry {
		e := fact("x", "text")
		fn(&e)
		return e
	}
	long := make([]byte, 300)
	for i := range long {
		long[i] = 'x'
	}
	for _, c := range []struct {
		field string
		e     memory.Entry
	}{
		{"text", change(func(e *memory.Entry) { e.Text = "" })},
		{"text", change(func(e *memory.Entry) { e.Text = "a\x00b" })},
		{"text", change(func(e *memory.Entry) { e.Text = "a\xff" })},
		{"id", change(func(e *memory.Entry) { e.ID = " x" })},
		{"kind", change(func(e *memory.Entry) { e.Kind = "rumour" })},
		{"state", change(func(e *memory.Entry) { e.State = memory.Redacted })},
		{"source.kind", change(func(e *memory.Entry) { e.Source.Kind = "" })},
		{"source.position", change(func(e *memory.Entry) { e.Source.Position = -1 })},
		{"source.turn", change(func(e *memory.Entry) { e.Source.Turn = -1 })},
		{"importance", change(func(e *memory.Entry) { e.Importance = 1.5 })},
		{"about", change(func(e *memory.Entry) { e.About = "x" })},
		{"about", change(func(e *memory.Entry) { e.Kind, e.About = memory.Said, "y" })},
		{"supersedes", change(func(e *memory.Entry) { e.Supersedes = []string{"x"} })},
		{"keys", change(func(e *memory.Entry) { e.Keys = make([]string, memory.MaxKeys+1) })},
		{"valid_until", change(func(e *memory.Entry) { e.ValidFrom, e.ValidUntil = day(2), day(1) })},
	} {
		_, err := h.m.Add(h.Context(), h.scope, c.e)
		h.wantError(err, cairn.ErrInvalid, "entries[0]."+c.field)
	}
	_, err := h.m.Add(h.Context(), h.scope, change(func(e *memory.Entry) { e.Entity = string(long) }))
	h.wantError(err, cairn.ErrTooLarge, "entries[0].entity")
	_, err = h.memory(&memory.Options{MaxCharacters: 3}).Add(h.Context(), h.scope, fact("x", "äöüß"))
	h.wantError(err, cairn.ErrTooLarge, "entries[0].text")
	_, err = h.m.Add(h.Context(), memory.User(""), fact("x", "text"))
	h.wantError(err, cairn.ErrInvalid, "scope.name")
	_, err = h.m.Search(h.Context(), h.scope, memory.Query{Text: "x", Limit: -1})
	h.wantError(err, cairn.ErrInvalid, "limit")
	for field, q := range map[string]memory.ListQuery{"kind": {Kind: "rumour"}, "source": {Source: "hearsay"}, "state": {State: "lost"}} {
		_, err = h.m.List(h.Context(), h.scope, q)
		h.wantError(err, cairn.ErrInvalid, field)
	}
	for field, q := range map[string]memory.Query{"kind": {Kind: "rumour"}, "source": {Source: "hearsay"}} {
		_, err = h.m.Search(h.Context(), h.scope, q)
		h.wantError(err, cairn.ErrInvalid, field)
	}
	_, err = h.m.Get(h.Context(), h.scope, "x")
	h.wantError(err, cairn.ErrNotFound, "id")
	if n := h.rows(); n != 0 {
		h.Fatalf("%d entries after refused writes", n)
	}
}

func versions(h *harness) {
	h.add(fact("f1", "Ann lives in Bonn"), fact("g", "Ann has a dog"))
	h.add(fact("f2", "Ann moved to Rome", "f1"))
	third, err := h.m.Correct(h.Context(), h.scope, "f2", memory.Entry{Text: "Ann's flat is in Oslo"})
	h.must(err)
	again, err := h.m.Correct(h.Context(), h.scope, "f2", memory.Entry{Text: "Ann's flat is in Oslo"})
	h.must(err)
	if third.ID != again.ID || third.Version != 3 || !slices.Equal(third.Supersedes, []string{"f2"}) {
		h.Fatalf("corrected to %+v, then %+v", third, again)
	}
	for _, city := range []string{"Bonn", "Rome", "Oslo"} {
		h.wantText(city, third.ID)
	}
	h.wantHits(memory.Query{Text: "Bonn", Superseded: true}, "f1")
	for _, id := range []string{"f1", "f2", third.ID} {
		list, err := h.m.History(h.Context(), h.scope, id)
		h.must(err)
		if len(list) != 3 || list[0].ID != "f1" || list[0].SupersededBy != "f2" || list[1].SupersededBy != third.ID || list[2].SupersededBy != "" {
			h.Fatalf("history %+v", list)
		}
	}
	hits, err := h.m.Search(h.Context(), h.scope, memory.Query{Text: "Bonn", Explain: true})
	h.must(err)
	if x := hits[0].Explain; x == nil || x.Found != "f1" || !slices.Equal(x.Matched, []string{"bonn"}) || x.Cover != 1 || x.Base <= 0 || hits[0].Score != 1 {
		h.Fatalf("explained %+v", hits[0])
	}
	if got := h.list(memory.ListQuery{Current: true}); !slices.Equal(got, []string{third.ID, "g"}) {
		h.Fatalf("current %q", got)
	}
}

func statementAboutThePast(h *harness) {
	now, past := fact("now", "Ann lives in Rome"), fact("past", "Ann lived in Bonn", "now")
	now.ValidFrom, past.ValidFrom = day(20), day(5)
	h.add(now)
	h.add(past)
	h.wantText("Bonn", "now")
	list, err := h.m.History(h.Context(), h.scope, "now")
	h.must(err)
	if len(list) != 2 || list[0].ID != "past" || list[0].SupersededBy != "now" {
		h.Fatalf("history %+v", list)
	}
}

func asOf(h *harness) {
	a, b, c := fact("a", "Ann lives in Bonn"), fact("b", "Ann lives in Rome", "a"), fact("c", "Ann rents a car")
	a.ValidFrom, b.ValidFrom, c.ValidFrom, c.ValidUntil = day(1), day(10), day(1), day(5)
	h.add(a, b, c)
	h.wantHits(memory.Query{Text: "Rome", AsOf: day(15)}, "b")
	h.wantHits(memory.Query{Text: "lives", AsOf: day(3)}, "a")
	h.wantHits(memory.Query{Text: "car", AsOf: day(3)}, "c")
	h.wantHits(memory.Query{Text: "car", AsOf: day(5)})
	h.wantText("car")
	h.wantHits(memory.Query{Text: "Bonn", AsOf: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)})
}

func chainsAreJoined(h *harness) {
	h.add(fact("a1", "Ann likes tea"), fact("b1", "Ann likes coffee"))
	h.add(fact("a2", "Ann likes green tea", "a1"), fact("b2", "Ann likes espresso", "b1"))
	h.add(fact("c", "Ann drinks water only", "a2", "b1"))
	for _, text := range []string{"green tea", "espresso", "coffee"} {
		h.wantText(text, "c")
	}
	n, err := h.m.Forget(h.Context(), h.scope, "a1")
	h.must(err)
	if n != 5 || h.rows() > 1 {
		h.Fatalf("%d entries forgotten, %d rows left", n, h.rows())
	}
}
