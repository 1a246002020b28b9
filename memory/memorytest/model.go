package memorytest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/memory"
)

// model is a memory that keeps nothing but a list and computes each search from all of it.
type model struct{ list []*item }

type item struct {
	memory.Entry
	number int
	chain  int // items of one chain are versions of each other; 0 for none

	terms  map[string]int
	base   float64
	score  float64
	ranked bool
}

func (m *model) find(id string) *item {
	for _, x := range m.list {
		if x.ID == id {
			return x
		}
	}
	return nil
}

func (m *model) add(number int, e memory.Entry) {
	x := &item{Entry: e, number: number}
	m.list = append(m.list, x)
	for _, id := range e.Supersedes {
		other := m.find(id)
		if other.chain == 0 {
			other.chain = other.number
		}
		old := cmp.Or(x.chain, other.chain)
		for _, y := range m.list {
			if y.chain == old {
				y.chain = other.chain
			}
		}
		x.chain = other.chain
	}
}

// versions returns the chain of an item by valid time.
func (m *model) versions(x *item) []*item {
	list := []*item{x}
	if x.chain > 0 {
		list = slices.DeleteFunc(slices.Clone(m.list), func(y *item) bool { return y.chain != x.chain })
	}
	slices.SortFunc(list, func(a, b *item) int { return cmp.Or(a.ValidFrom.Compare(b.ValidFrom), a.number-b.number) })
	return list
}

func (m *model) forget(id string) {
	gone := map[*item]bool{}
	var visit func(x *item)
	visit = func(x *item) {
		if gone[x] {
			return
		}
		gone[x] = true
		for _, y := range m.list {
			if y.About == x.ID || x.chain > 0 && y.chain == x.chain {
				visit(y)
			}
		}
	}
	if x := m.find(id); x != nil {
		visit(x)
	}
	m.list = slices.DeleteFunc(m.list, func(x *item) bool { return gone[x] })
}

func (x *item) usable(quarantined bool) bool {
	return x.State == memory.Active || quarantined && x.State == memory.Quarantined
}

func own(counts map[string]int, e *memory.Entry) {
	for _, text := range append([]string{e.Text, e.Speaker, e.Entity, e.Attribute}, e.Keys...) {
		for _, term := range memory.English().Terms(text) {
			counts[term]++
		}
	}
}

func fold(name string) string { return strings.Join(memory.Simple().Terms(name), " ") }

// search returns the hits of a query, best first.
func (m *model) search(text string, quarantined bool) []*item {
	query, named := m.query(text)
	m.base(query, quarantined)
	sessions := map[string][]*item{}
	for _, x := range m.list {
		if x.Kind == memory.Said && x.Source.Session != "" {
			sessions[x.Source.Session] = append(sessions[x.Source.Session], x)
		}
		x.ranked = x.base > 0
		x.score = x.base
	}
	for _, list := range sessions {
		slices.SortFunc(list, func(a, b *item) int { return cmp.Or(a.Source.Position-b.Source.Position, a.number-b.number) })
		m.beside(list, quarantined)
	}
	for session := range m.sessions() {
		var bases []float64
		for _, x := range m.list {
			if x.Source.Session == session {
				bases = append(bases, x.base)
			}
		}
		slices.SortFunc(bases, func(a, b float64) int { return cmp.Compare(b, a) })
		for _, x := range m.list {
			if x.Source.Session == session && x.ranked {
				for _, base := range bases[:min(3, len(bases))] {
					x.score += 0.1 * base
				}
			}
		}
	}
	var found []*item
	for _, x := range m.list {
		if named != "" && (fold(x.Speaker) == named || fold(x.Entity) == named) {
			x.score *= 1.5
		}
		if strings.HasSuffix(x.Text, "?") {
			x.score *= 0.8
		}
		if x.ranked && x.score > 0 {
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b *item) int { return cmp.Or(cmp.Compare(b.score, a.score), b.number-a.number) })
	return m.represent(found, quarantined)
}

func (m *model) sessions() map[string]bool {
	all := map[string]bool{}
	for _, x := range m.list {
		if x.Source.Session != "" {
			all[x.Source.Session] = true
		}
	}
	return all
}

// query returns the terms of a query, and the one name in it.
func (m *model) query(text string) (terms []string, named string) {
	names, speakers := map[string]bool{}, map[string]bool{}
	padded := " " + fold(text) + " "
	for _, x := range m.list {
		for _, name := range []string{fold(x.Speaker), fold(x.Entity)} {
			if name != "" && strings.Contains(padded, " "+name+" ") {
				names[name] = true
				if name == fold(x.Speaker) {
					speakers[name] = true
				}
			}
		}
	}
	drop := map[string]bool{}
	for name := range speakers {
		for _, term := range memory.English().Terms(name) {
			drop[term] = true
		}
	}
	var all []string
	for _, term := range memory.English().Terms(text) {
		if !slices.Contains(all, term) {
			all = append(all, term)
		}
	}
	terms = slices.DeleteFunc(slices.Clone(all), func(t string) bool { return drop[t] })
	if len(terms) == 0 {
		terms = all
	}
	if len(names) == 1 {
		named = slices.Collect(maps.Keys(names))[0]
	}
	return terms, named
}

// base scores each item by its own terms.
func (m *model) base(query []string, quarantined bool) {
	count, length := 0.0, 0.0
	df := map[string]float64{}
	for _, x := range m.list {
		x.base, x.terms = 0, map[string]int{}
		if x.State == memory.Redacted {
			continue
		}
		own(x.terms, &x.Entry)
		for _, f := range m.list {
			if f.About == x.ID && f.State != memory.Redacted && (f.State == memory.Active || x.State == memory.Quarantined) {
				own(x.terms, &f.Entry)
			}
		}
		if !x.usable(quarantined) {
			continue
		}
		if len(x.terms) > 0 {
			count++
		}
		for term, n := range x.terms {
			df[term]++
			length += float64(n)
		}
	}
	asked := 0.0
	idf := map[string]float64{}
	for _, term := range query {
		if df[term] > 0 {
			idf[term] = math.Log(1 + (count-df[term]+0.5)/(df[term]+0.5))
			asked += idf[term]
		}
	}
	for _, x := range m.list {
		if !x.usable(quarantined) {
			continue
		}
		own, matched := 0.0, 0.0
		for _, n := range x.terms {
			own += float64(n)
		}
		for _, term := range query {
			if tf := float64(x.terms[term]); tf > 0 && idf[term] > 0 {
				x.base += idf[term] * tf * 2.2 / (tf + 1.2*(0.7+0.3*own/max(1, length/count)))
				matched += idf[term]
			}
		}
		if asked > 0 {
			x.base *= 1 + 0.5*matched/asked
		}
	}
}

// beside adds what the neighbours in a session are worth. Items within two of one with a base are ranked as well, unless
// one that cannot be found is between them.
func (m *model) beside(list []*item, quarantined bool) {
	at := func(i int) *item {
		if i < 0 || i >= len(list) || !list[i].usable(quarantined) {
			return nil
		}
		return list[i]
	}
	reached := make([]bool, len(list))
	for i, x := range list {
		if x.base <= 0 {
			continue
		}
		for _, step := range []int{-1, 1} {
			if at(i+step) != nil {
				reached[i+step] = true
				if at(i+2*step) != nil {
					reached[i+2*step] = true
				}
			}
		}
	}
	for i, x := range list {
		x.ranked = x.ranked || reached[i]
		if before := at(i - 1); before != nil {
			x.score += 0.3 * before.base
			if strings.HasSuffix(before.Text, "?") {
				x.score += 0.3 * before.base
			}
			if second := at(i - 2); second != nil {
				x.score += 0.1 * second.base
			}
		}
		if after := at(i + 1); after != nil {
			x.score += 0.2 * after.base
			if second := at(i + 2); second != nil {
				x.score += 0.1 * second.base
			}
		}
	}
}

// represent replaces items by those that stand for them.
func (m *model) represent(found []*item, quarantined bool) (hits []*item) {
	text := func(x *item) string { return cmp.Or(x.About, x.ID) }
	shown, facts := map[string]bool{}, map[string]string{}
	for _, x := range found {
		from := x
		for _, f := range found {
			if f.About == x.ID {
				if f.base >= 0.5*x.base {
					from = f
				}
				break
			}
		}
		to := from
		if from.chain > 0 {
			to = nil
			for _, v := range slices.Backward(m.versions(from)) {
				if v.State == memory.Quarantined && !quarantined {
					continue
				}
				if v.usable(quarantined) {
					to = v
				}
				break
			}
		}
		if to == nil || shown[to.ID] || shown[x.ID] {
			continue
		}
		excluded := false
		for _, y := range []*item{x, to} {
			excluded = excluded || facts[text(y)] != "" && (facts[text(y)] == "text" || y.Kind == memory.Said)
		}
		if excluded {
			continue
		}
		shown[to.ID], shown[x.ID] = true, true
		as := "text"
		if to.Kind == memory.Fact {
			as = "facts"
		}
		facts[text(x)], facts[text(to)] = as, as
		hits = append(hits, to)
	}
	return hits
}

// likeTheModel does the same random operations on a memory and on the model, and compares their searches.
func likeTheModel(h *harness) {
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	for seed := range uint64(3) {
		h.scope = memory.Group(fmt.Sprint("model ", seed))
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &model{}
		for round := range rounds {
			h.randomChange(rnd, m, round)
			if round%3 > 0 || len(m.list) > 60 {
				continue
			}
			text, quarantined := sentence(rnd, 5), rnd.IntN(3) == 0
			want := []string{}
			for _, x := range m.search(text, quarantined) {
				want = append(want, x.ID)
			}
			got := h.search(memory.Query{Text: text, Quarantined: quarantined, Limit: 100})
			if !slices.Equal(got, want) {
				h.Fatalf("seed %d, round %d: %q found %q, the model %q", seed, round, text, got, want)
			}
		}
	}
}

var vocabulary = strings.Fields("Ann Bob lives moved Bonn Rome dog barks tea green order 4711 garden the a of runs running likes blue?")

func sentence(rnd *rand.Rand, most int) string {
	var list []string
	for range 1 + rnd.IntN(most) {
		list = append(list, vocabulary[rnd.IntN(len(vocabulary))])
	}
	return strings.Join(list, " ")
}

// randomChange changes the memory and the model alike.
func (h *harness) randomChange(rnd *rand.Rand, m *model, round int) {
	h.Helper()
	any := func() *item {
		if len(m.list) == 0 {
			return nil
		}
		return m.list[rnd.IntN(len(m.list))]
	}
	x := any()
	switch {
	case x == nil || rnd.IntN(10) < 7:
		e := randomEntry(rnd, m, fmt.Sprint("e", round))
		m.add(round+1, h.add(e)[0])
		return
	case rnd.IntN(3) == 0:
		_, err := h.m.Forget(h.Context(), h.scope, x.ID)
		h.must(err)
		m.forget(x.ID)
	case rnd.IntN(2) == 0:
		_, err := h.m.Redact(h.Context(), h.scope, x.ID)
		h.must(err)
		x.State, x.Text, x.Keys = memory.Redacted, "", nil
	case x.State != memory.Redacted:
		_, err := h.m.Promote(h.Context(), h.scope, x.ID)
		h.must(err)
		x.State = memory.Active
	}
}

func randomEntry(rnd *rand.Rand, m *model, id string) memory.Entry {
	e := fact(id, sentence(rnd, 8))
	e.ValidFrom = day(1 + rnd.IntN(20))
	if rnd.IntN(4) == 0 {
		e.State = memory.Quarantined
	}
	if rnd.IntN(2) == 0 {
		e = said(id, fmt.Sprint("s", rnd.IntN(2)), rnd.IntN(20), vocabulary[rnd.IntN(2)], e.Text)
		return e
	}
	e.Entity, e.Keys = []string{"", "Ann", "garden"}[rnd.IntN(3)], []string{sentence(rnd, 2)}
	e.Source.Session = []string{"", "s0"}[rnd.IntN(2)]
	for range rnd.IntN(3) {
		if len(m.list) == 0 {
			break
		}
		x := m.list[rnd.IntN(len(m.list))]
		switch {
		case x.Kind == memory.Said && e.About == "":
			e.About = x.ID
		case x.Kind == memory.Fact && !slices.Contains(e.Supersedes, x.ID):
			e.Supersedes = append(e.Supersedes, x.ID)
		}
	}
	return e
}
