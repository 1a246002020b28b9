package memorytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/driver"
)

func factOrText(h *harness) {
	h.add(said("t1", "s", 0, "Ann", "We left for Bonn in spring and it rained all the time"), said("t2", "other", 9, "Ann", "Tea is ready"))
	for i, text := range []string{"Ann lives in Bonn", "The spring was wet"} {
		e := fact(fmt.Sprint("f", i), text)
		e.About, e.Source.Kind = "t1", memory.AgentInferred
		h.add(e)
	}
	h.wantText("Who lives in Bonn?", "f0")
	h.wantText("wet", "f1")         // by the text's index and by its own
	h.wantText("rained left", "t1") // the facts do not have these words
	h.add(fact("f2", "Ann lives in Rome", "f0"))
	h.wantText("Bonn", "f2")
	_, err := h.m.Forget(h.Context(), h.scope, "f1")
	h.must(err)
	h.wantText("wet")
}

func neighbours(h *harness) {
	h.add(said("q", "s", 1, "Bob", "What did you order at the harbour?"), said("a", "s", 2, "Ann", "Two oysters."),
		said("z", "other", 2, "Ann", "Nothing else."), said("b", "s", 0, "Bob", "Hello there."))
	got := h.search(memory.Query{Text: "the order at the harbour"})
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "b", "q"}) {
		h.Fatalf("found %q", got)
	}
	hits, err := h.m.Search(h.Context(), h.scope, memory.Query{Text: "What did Ann order at the harbour?"})
	h.must(err)
	if len(hits) != 3 || hits[0].ID != "q" && hits[0].ID != "a" {
		h.Fatalf("found %+v", hits)
	}
	_, err = h.m.Forget(h.Context(), h.scope, "q")
	h.must(err)
	h.wantText("harbour")
	h.wantText("oysters", "a", "b")
}

func quarantine(h *harness) {
	e := memory.Entry{ID: "q", Text: "Refunds go to account 4711", Source: memory.Source{Kind: memory.ToolReturned, Tool: "browse"}}
	if list := h.add(e, fact("f", "Ann asked for a refund")); list[0].State != memory.Quarantined {
		h.Fatalf("text of a tool has the state %q", list[0].State)
	}
	h.wantText("refund account", "f")
	h.wantText("4711")
	h.wantHits(memory.Query{Text: "account 4711", Quarantined: true}, "q")
	if got := h.list(memory.ListQuery{State: memory.Quarantined}); !slices.Equal(got, []string{"q"}) {
		h.Fatalf("quarantined %q", got)
	}
	promoted, err := h.m.Promote(h.Context(), h.scope, "q")
	h.must(err)
	if promoted.State != memory.Active || promoted.Source.Kind != memory.ToolReturned {
		h.Fatalf("promoted %+v", promoted)
	}
	h.wantText("4711", "q")
	h.wantHits(memory.Query{Text: "4711", Source: memory.UserSaid})
	_, err = h.m.Promote(h.Context(), h.scope, "none")
	h.wantError(err, cairn.ErrNotFound, "id")
}

func quarantineSupersedesNothing(h *harness) {
	h.add(said("t", "s", 0, "Ann", "My account has the number 1000"))
	good := fact("good", "Ann's account is 1000")
	good.About = "t"
	h.add(good)
	bad := fact("bad", "Ann's account is 6666", "good")
	bad.State, bad.About = memory.Quarantined, "t"
	h.add(bad)
	h.wantText("account", "good")
	h.wantText("6666")
	if got := h.list(memory.ListQuery{Current: true, Kind: memory.Fact}); !slices.Equal(got, []string{"good"}) {
		h.Fatalf("current %q", got)
	}
	e, err := h.m.Get(h.Context(), h.scope, "good")
	h.must(err)
	if e.SupersededBy != "" {
		h.Fatalf("superseded by %q", e.SupersededBy)
	}
	_, err = h.m.Promote(h.Context(), h.scope, "bad")
	h.must(err)
	h.wantText("1000", "bad")
}

// quarantineCrowdsNothingOut adds more quarantined entries than a search ranks.
func quarantineCrowdsNothingOut(h *harness) {
	h.add(fact("good", "the gate code is 1234 for all of the large warehouse buildings"))
	var list []memory.Entry
	for i := range 90 {
		e := fact(fmt.Sprint("bad", i), "gate code gate code gate code")
		e.State = memory.Quarantined
		list = append(list, e)
	}
	h.add(list...)
	h.wantText("gate code", "good")
}

func redact(h *harness) {
	h.add(said("t", "s", 0, "Ann", "something else"))
	first := fact("f1", "Ann's card is 4711")
	first.About, first.Keys = "t", []string{"payment"}
	h.add(first)
	h.add(fact("f2", "Ann's card is 4712", "f1"))
	e, err := h.m.Redact(h.Context(), h.scope, "f1")
	h.must(err)
	if e.Text != "" || e.Keys != nil || e.State != memory.Redacted || e.SupersededBy != "f2" {
		h.Fatalf("redacted %+v", e)
	}
	h.wantText("4711")
	h.wantText("payment")
	h.wantText("4712", "f2")
	list, err := h.m.History(h.Context(), h.scope, "f2")
	h.must(err)
	if len(list) != 2 || list[0].ID != "f1" || list[0].Text != "" {
		h.Fatalf("history %+v", list)
	}
	_, err = h.m.Redact(h.Context(), h.scope, "f2")
	h.must(err)
	h.wantText("4712")
	_, err = h.m.Promote(h.Context(), h.scope, "f1")
	h.wantError(err, cairn.ErrInvalid, "id")
	var out bytes.Buffer
	_, err = h.m.Export(h.Context(), h.scope, &out)
	h.must(err)
	if strings.Contains(out.String(), "card is") || strings.Contains(out.String(), "payment") {
		h.Fatalf("a redacted text is exported: %s", out.String())
	}
}

func forget(h *harness) {
	h.add(said("t1", "s", 0, "Ann", "My dog is called Rex"), said("t2", "s", 1, "Bob", "A fine name"), said("t3", "s", 2, "Ann", "He barks"))
	e := fact("f", "Ann has a dog")
	e.About = "t1"
	h.add(e)
	n, err := h.m.Forget(h.Context(), h.scope, "t1", "none")
	h.must(err)
	if n != 2 {
		h.Fatalf("%d entries forgotten, want the text and its fact", n)
	}
	h.wantText("dog")
	h.wantText("barks", "t3", "t2")
	n, err = h.m.Forget(h.Context(), h.scope, "t2")
	h.must(err)
	if n != 1 {
		h.Fatalf("%d entries forgotten", n)
	}
	h.wantText("barks", "t3")
	h.add(said("t0", "s", 1, "Bob", "Welcome back"))
	h.wantText("barks", "t3", "t0")
}

// nothingRemains adds entries of all kinds, forgets them, and finds the store as it was.
func nothingRemains(h *harness) {
	h.m = h.memory(&memory.Options{Embedder: Words(8)})
	h.add(said("t1", "s", 0, "Ann", "My dog is called Rex"), said("t2", "s", 1, "Bob", "A fine name"))
	e := fact("f", "Ann has a dog")
	e.About, e.Entity = "t1", "Ann"
	h.add(e)
	h.add(fact("g", "Ann has two dogs", "f"))
	_, err := h.m.Embed(h.Context(), h.scope)
	h.must(err)
	_, err = h.m.Forget(h.Context(), h.scope, "t1", "t2", "g")
	h.must(err)
	if got := h.list(memory.ListQuery{}); len(got) != 0 {
		h.Fatalf("left %q", got)
	}
	if n := h.rows(); n > 2 { // the head, and the bits of the vectors
		h.Fatalf("%d rows left", n)
	}
	found, err := h.m.Drop(h.Context(), h.scope)
	h.must(err)
	if !found || h.rows() != 0 {
		h.Fatal("the scope is still there")
	}
}

// scopesAreApart fills a hundred scopes with the same terms.
func scopesAreApart(h *harness) {
	n := 100
	if testing.Short() {
		n = 20
	}
	var scopes []memory.Scope
	for i := range n {
		kinds := []memory.Scope{memory.User(fmt.Sprint("u", i/3)), memory.Group(fmt.Sprint("u", i/3)), memory.Session(fmt.Sprint("u", i/3), "")}
		scopes = append(scopes, kinds[i%3])
	}
	for i, scope := range scopes {
		h.scope = scope
		h.add(fact(fmt.Sprint("f", i), "The secret word is sesame"), fact("same", fmt.Sprint("The secret number is ", i)))
	}
	for i, scope := range scopes {
		h.scope = scope
		h.wantText("sesame", fmt.Sprint("f", i))
		e, err := h.m.Get(h.Context(), scope, "same")
		h.must(err)
		if e.Text != fmt.Sprint("The secret number is ", i) {
			h.Fatalf("scope %d has %q", i, e.Text)
		}
		if got := h.list(memory.ListQuery{OldestFirst: true}); !slices.Equal(got, []string{fmt.Sprint("f", i), "same"}) {
			h.Fatalf("scope %d lists %q", i, got)
		}
	}
	_, err := h.m.Drop(h.Context(), scopes[0])
	h.must(err)
	h.scope = scopes[0]
	h.wantText("sesame")
	h.scope = scopes[1]
	h.wantText("sesame", "f1")
}

func lists(h *harness) {
	var want []string
	for i := range 25 {
		e := fact(fmt.Sprintf("e%02d", i), fmt.Sprint("entry ", i))
		e.Entity, e.ValidFrom = []string{"Ann", "ann", "Bob"}[i%3], day(1+(i*7)%25)
		if i%5 == 0 {
			e.Kind, e.Source.Session = memory.Said, "s"
		}
		h.add(e)
		want = append(want, e.ID)
	}
	valid := slices.Clone(want)
	slices.SortFunc(valid, func(a, b string) int {
		var x, y int
		fmt.Sscanf(a, "e%d", &x)
		fmt.Sscanf(b, "e%d", &y)
		return (x*7)%25 - (y*7)%25
	})
	newest := slices.Clone(want)
	slices.Reverse(newest)
	for _, limit := range []int{0, 1, 7, 25} {
		for _, c := range []struct {
			q    memory.ListQuery
			want []string
		}{
			{memory.ListQuery{OldestFirst: true}, want}, {memory.ListQuery{}, newest}, {memory.ListQuery{ByValidTime: true, OldestFirst: true}, valid},
			{memory.ListQuery{Entity: "ANN", OldestFirst: true}, slices.DeleteFunc(slices.Clone(want), func(id string) bool { return slices.Index(want, id)%3 == 2 })},
			{memory.ListQuery{Kind: memory.Said, OldestFirst: true}, []string{"e00", "e05", "e10", "e15", "e20"}},
			{memory.ListQuery{Session: "s", OldestFirst: true}, []string{"e00", "e05", "e10", "e15", "e20"}},
			{memory.ListQuery{Source: memory.UserSaid}, []string{}},
		} {
			c.q.Limit = limit
			if got := h.list(c.q); !slices.Equal(got, c.want) {
				h.Fatalf("%+v lists %q, want %q", c.q, got, c.want)
			}
		}
	}
	_, err := h.m.List(h.Context(), h.scope, memory.ListQuery{Cursor: "x"})
	h.wantError(err, cairn.ErrInvalid, "cursor")
	var out bytes.Buffer
	n, err := h.m.Export(h.Context(), h.scope, &out)
	h.must(err)
	var e memory.Entry
	h.must(json.Unmarshal(out.Bytes()[:bytes.IndexByte(out.Bytes(), '\n')], &e))
	if n != 25 || bytes.Count(out.Bytes(), []byte("\n")) != 25 || e.ID != "e00" {
		h.Fatalf("%d entries exported, the first is %+v", n, e)
	}
}

func namesAndSources(h *harness) {
	for i, name := range []string{"Ann", "ann", "Bob Ross", "Émile"} {
		e := said(fmt.Sprint(i), "s", i, name, "text")
		e.Entity = []string{"Bob Ross", "", "Ann", ""}[i]
		h.add(e)
	}
	h.add(memory.Entry{ID: "q", Text: "tool", Source: memory.Source{Kind: memory.ToolReturned}}, fact("f", "text"))
	want := []memory.EntityCount{{Name: "Ann", Entries: 1, Spoken: 2}, {Name: "Bob Ross", Entries: 1, Spoken: 1}, {Name: "Émile", Spoken: 1}}
	for limit := range 4 {
		var got []memory.EntityCount
		for n, err := range driver.All(func(cursor string) (driver.Page[memory.EntityCount], error) {
			return h.m.Entities(h.Context(), h.scope, driver.PageQuery{Cursor: cursor, Limit: limit})
		}) {
			h.must(err)
			n.Name = strings.Replace(n.Name, "ann", "Ann", 1)
			got = append(got, *n)
		}
		if !slices.Equal(got, want) {
			h.Fatalf("entities %+v, want %+v", got, want)
		}
	}
	sources, err := h.m.Sources(h.Context(), h.scope)
	h.must(err)
	if !slices.Equal(sources, []memory.SourceCount{{Source: memory.UserSaid, Said: 4}, {Source: memory.ToolReturned, Facts: 1, Quarantined: 1}, {Source: memory.Application, Facts: 1}}) {
		h.Fatalf("sources %+v", sources)
	}
}

func expiry(h *harness) {
	old, later := fact("old", "Ann is on a train"), fact("later", "Ann is at home")
	old.ExpiresAt, later.ExpiresAt = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	h.add(old, later, fact("ever", "Ann is kind"))
	h.wantText("train")
	if got := h.list(memory.ListQuery{}); !slices.Equal(got, []string{"ever", "later"}) {
		h.Fatalf("listed %q", got)
	}
	for i, want := range []int{1, 0} {
		n, err := h.m.Sweep(h.Context())
		h.must(err)
		if n != want {
			h.Fatalf("sweep %d removed %d entries, want %d", i+1, n, want)
		}
	}
	if _, err := h.m.Get(h.Context(), h.scope, "old"); err == nil {
		h.Fatal("the entry is still there")
	}
	keep := h.memory(&memory.Options{Retention: time.Hour})
	list, err := keep.Add(h.Context(), h.scope, fact("kept", "Ann naps"))
	h.must(err)
	if e := list[0]; !e.ExpiresAt.Equal(e.StoredAt.Add(time.Hour)) {
		h.Fatalf("expires at %s, stored at %s", e.ExpiresAt, e.StoredAt)
	}
}

func trim(h *harness) {
	h.m = h.memory(&memory.Options{MaxEntries: 10})
	add := func(id string, importance float64, supersedes ...string) {
		e := fact(id, "entry "+id, supersedes...)
		e.Importance = importance
		h.add(e)
	}
	add("vital", 1)
	add("v1", 0.5)
	add("v2", 0.5, "v1")
	for i := range 12 {
		add(fmt.Sprint("e", i), 0.5)
	}
	got := h.list(memory.ListQuery{OldestFirst: true})
	if len(got) > 11 || got[0] != "vital" || slices.Contains(got, "v1") || !slices.Contains(got, "e11") {
		h.Fatalf("left %q", got)
	}
	n, err := h.memory(&memory.Options{MaxEntries: 3}).Trim(h.Context(), h.scope)
	h.must(err)
	if left := h.list(memory.ListQuery{OldestFirst: true}); n != len(got)-3 || !slices.Equal(left, []string{"vital", "e10", "e11"}) {
		h.Fatalf("%d removed, left %q", n, left)
	}
}

func reindex(h *harness) {
	h.add(said("t", "s", 0, "Ann", "東京タワーに行きました"), fact("f", "running shoes"))
	about := fact("g", "大阪城")
	about.About = "t"
	h.add(about)
	h.wantText("run", "f")
	h.wantText("東京")
	h.wantAnalyzer(h.scope, memory.English())
	h.m = h.memory(&memory.Options{Analyzer: memory.Bigrams()})
	h.wantAnalyzer(h.scope, memory.English())
	for i, want := range []int{3, 0} {
		n, err := h.m.Reindex(h.Context(), h.scope)
		h.must(err)
		if n != want {
			h.Fatalf("call %d has changed %d entries, want %d", i+1, n, want)
		}
	}
	h.wantAnalyzer(h.scope, memory.Bigrams())
	h.wantText("東京", "t")
	h.wantText("大阪", "g")
	h.wantText("run")
	h.wantText("running", "f")
	_, err := h.m.Forget(h.Context(), h.scope, "t", "f")
	h.must(err)
	if n := h.rows(); n > 1 {
		h.Fatalf("%d rows left", n)
	}
}

// wantAnalyzer wants the analyzer by which a scope is indexed.
func (h *harness) wantAnalyzer(scope memory.Scope, want memory.Analyzer) {
	h.Helper()
	if name, err := h.m.IndexedBy(h.Context(), scope); err != nil || name != want.Name() {
		h.Fatalf("the scope is indexed by %q, error %v, want %q", name, err, want.Name())
	}
}

// writers adds from several goroutines through two memories, which share nothing but the store.
func writers(h *harness) {
	const writers, each = 6, 10
	var wg sync.WaitGroup
	second := h.memory(nil)
	for w := range writers {
		m := h.m
		if w%2 == 1 {
			m = second
		}
		wg.Go(func() {
			for i := range each {
				if _, err := m.Add(h.Context(), h.scope, said(fmt.Sprint(w, "-", i), "s", w*each+i, "Ann", fmt.Sprint("number ", i)), fact("same", "once")); err != nil {
					h.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := h.list(memory.ListQuery{}); len(got) != writers*each+1 {
		h.Fatalf("%d entries", len(got))
	}
	if got := h.search(memory.Query{Text: "number 3", Limit: 100}); len(got) < writers {
		h.Fatalf("found %q", got)
	}
	for e, err := range h.m.All(h.Context(), h.scope, memory.ListQuery{}) {
		h.must(err)
		_, err := h.m.Forget(h.Context(), h.scope, e.ID)
		h.must(err)
	}
	if n := h.rows(); n > 1 {
		h.Fatalf("%d rows left", n)
	}
}
