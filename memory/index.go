package memory

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// own adds the terms that a memory has without its facts.
func (m *Memory) own(counts map[string]int, e *Entry) {
	if e.State == Redacted {
		return
	}
	a := m.opts.Analyzer
	for _, text := range append([]string{e.Text, e.Speaker, e.Entity, e.Attribute}, e.Keys...) {
		count(a, counts, text)
	}
}

// terms returns the terms that a memory is found by. Those of its facts are among them, unless they are quarantined and
// the memory is not.
func (t *tx) terms(d *doc) (map[string]int, error) {
	counts := map[string]int{}
	t.m.own(counts, &d.Entry)
	if d.State == Redacted {
		return nil, nil
	}
	if err := t.fetchDocs(d.Facts...); err != nil {
		return nil, err
	}
	for _, n := range d.Facts {
		fact, err := t.doc(n)
		if err != nil {
			return nil, err
		}
		if fact != nil && (fact.State == Active || d.State == Quarantined) {
			t.m.own(counts, &fact.Entry)
		}
	}
	return counts, nil
}

// index brings the index up to date with a memory: its text, its state and its facts. It saves the memory.
func (t *tx) index(d *doc) error {
	r, err := t.edit(d.Number)
	if err != nil {
		return err
	}
	next, err := t.terms(d)
	if err != nil {
		return err
	}
	if err := t.unindex(d, r, next); err != nil {
		return err
	}
	r.flags = flagsOf(&d.Entry)
	r.length = 0
	at := r.index()
	for _, term := range sortedKeys(next) {
		r.length = uint16(min(int(r.length)+next[term], math.MaxUint16))
		if d.Terms[term] == next[term] {
			continue
		}
		if err := t.post(at, term, d.Number, next[term]); err != nil {
			return err
		}
	}
	if len(next) > 0 {
		t.head.Indexed[at]++
		t.head.Length[at] += int(r.length)
	}
	d.Terms, d.Analyzer = next, t.m.opts.Analyzer.Name()
	if t.head.Analyzer == "" {
		t.head.Analyzer = d.Analyzer
	}
	t.save(d)
	return nil
}

// unindex removes the terms of a memory that are not in keep, or all if it moves to the other index, and takes it out of
// the counters.
func (t *tx) unindex(d *doc, r *record, keep map[string]int) error {
	at := r.index()
	if !r.live() || len(d.Terms) == 0 {
		d.Terms = nil
		return nil
	}
	moves := (d.State == Quarantined) != r.is(flagQuarantined)
	for _, term := range sortedKeys(d.Terms) {
		if moves || keep[term] == 0 {
			if err := t.post(at, term, d.Number, 0); err != nil {
				return err
			}
		}
	}
	t.head.Indexed[at]--
	t.head.Length[at] -= int(r.length)
	if moves {
		d.Terms = nil
	}
	return nil
}

// post sets how often a term occurs in a memory.
func (t *tx) post(index int, term string, n uint32, count int) error {
	key := postKey(indexes[index], term, n/perPost)
	raw, err := t.get(key)
	if err != nil {
		return err
	}
	if raw = setPosting(raw, n, count); len(raw) == 0 {
		raw = nil
	}
	t.put(key, raw)
	return nil
}

func flagsOf(e *Entry) uint16 {
	flags := uint16(flagLive)
	if e.Kind == Fact {
		flags |= flagFact
	}
	if strings.HasSuffix(strings.TrimSpace(e.Text), "?") || strings.HasSuffix(strings.TrimSpace(e.Text), "？") {
		flags |= flagQuestion
	}
	switch e.State {
	case Quarantined:
		flags |= flagQuarantined
	case Redacted:
		flags |= flagRedacted
	}
	return flags
}

// name counts the entries of an entity or a speaker.
type name struct {
	Name    string `json:"name"`
	Entity  int    `json:"entity,omitempty"`
	Speaker int    `json:"speaker,omitempty"`
}

// names adds a memory to the counts of its entity and speaker; by -1 it removes it.
func (t *tx) names(e *Entry, by int) error {
	for i, text := range [2]string{e.Entity, e.Speaker} {
		folded := fold(text)
		if folded == "" {
			continue
		}
		raw, err := t.get(nameKey(folded))
		if err != nil {
			return err
		}
		there := name{Name: text}
		if raw != nil {
			if err := json.Unmarshal(raw, &there); err != nil {
				return cairn.Errorf(cairn.ErrCorrupt, "memory: name %q: %w", text, err)
			}
		}
		if i == 0 {
			there.Entity += by
		} else {
			there.Speaker += by
		}
		if there.Entity <= 0 && there.Speaker <= 0 {
			t.put(nameKey(folded), nil)
			continue
		}
		if err := t.putJSON(nameKey(folded), there); err != nil {
			return err
		}
	}
	return nil
}

// link adds a memory to the neighbours in its session, ordered by position and number.
func (t *tx) link(d *doc, r *record) error {
	if d.Kind != Said || d.Source.Session == "" {
		return nil
	}
	key := threadKey(d.Source.Session)
	tail, err := t.numbers(key)
	if err != nil {
		return err
	}
	after := append(tail, 0)[0]
	for after > 0 {
		before, err := t.record(after)
		if err != nil {
			return err
		}
		if before.position <= r.position {
			break
		}
		r.next, after = after, before.prev
	}
	r.prev = after
	for _, side := range [2]struct {
		n    uint32
		next bool
	}{{r.prev, true}, {r.next, false}} {
		if side.n == 0 {
			continue
		}
		other, err := t.edit(side.n)
		if err != nil {
			return err
		}
		if side.next {
			other.next = d.Number
		} else {
			other.prev = d.Number
		}
	}
	if r.next == 0 {
		t.putNumbers(key, []uint32{d.Number})
	}
	return nil
}

// unlink removes a memory from the neighbours in its session.
func (t *tx) unlink(d *doc, r *record) error {
	if d.Kind != Said || d.Source.Session == "" {
		return nil
	}
	if r.prev > 0 {
		before, err := t.edit(r.prev)
		if err != nil {
			return err
		}
		before.next = r.next
	}
	if r.next > 0 {
		after, err := t.edit(r.next)
		if err != nil {
			return err
		}
		after.prev = r.prev
		return nil
	}
	var tail []uint32
	if r.prev > 0 {
		tail = []uint32{r.prev}
	}
	t.putNumbers(threadKey(d.Source.Session), tail)
	return nil
}

// versions returns the numbers of all versions of a memory, by valid time; only itself if it has no others.
func (t *tx) versions(n uint32) ([]uint32, error) {
	r, err := t.record(n)
	if err != nil {
		return nil, err
	}
	if r.chain == 0 {
		return []uint32{n}, nil
	}
	list, err := t.numbers(chainKey(r.chain))
	if err != nil {
		return nil, err
	}
	return list, t.fetchRecords(list...)
}

// chain makes a memory a version of those that it supersedes.
func (t *tx) chain(d *doc, superseded []*doc) error {
	var list []uint32
	for _, other := range superseded {
		versions, err := t.versions(other.Number)
		if err != nil {
			return err
		}
		r, err := t.record(other.Number)
		if err != nil {
			return err
		}
		if r.chain > 0 {
			t.put(chainKey(r.chain), nil)
		}
		list = append(list, versions...)
	}
	if len(list) == 0 {
		return nil
	}
	list = append(list, d.Number)
	slices.Sort(list)
	list = slices.Compact(list)
	d.Version = len(list)
	label := list[0]
	for _, n := range list {
		r, err := t.edit(n)
		if err != nil {
			return err
		}
		r.chain = label
	}
	if err := t.sortByValid(list); err != nil {
		return err
	}
	t.putNumbers(chainKey(label), list)
	return nil
}

// sortByValid sorts by the time from which memories are valid; of equal ones the last one added is last.
func (t *tx) sortByValid(list []uint32) error {
	valid := make(map[uint32]int64, len(list))
	for _, n := range list {
		r, err := t.record(n)
		if err != nil {
			return err
		}
		valid[n] = r.valid
	}
	slices.SortFunc(list, func(a, b uint32) int { return cmp.Or(cmp.Compare(valid[a], valid[b]), cmp.Compare(a, b)) })
	return nil
}

// unchain removes a memory from the versions that it belongs to.
func (t *tx) unchain(d *doc, r *record) error {
	if r.chain == 0 {
		return nil
	}
	list, err := t.versions(d.Number)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(n uint32) bool { return n == d.Number })
	if len(list) == 1 {
		other, err := t.edit(list[0])
		if err != nil {
			return err
		}
		other.chain = 0
		list = nil
	}
	t.putNumbers(chainKey(r.chain), list)
	return nil
}

// remove deletes a memory and everything that refers to it. Its facts stay, as facts about nothing.
func (t *tx) remove(n uint32) error {
	d, err := t.doc(n)
	if err != nil || d == nil {
		return err
	}
	r, err := t.edit(n)
	if err != nil {
		return err
	}
	for _, number := range d.Facts {
		fact, err := t.doc(number)
		if err != nil {
			return err
		}
		if fact == nil {
			continue
		}
		fact.About = ""
		t.save(fact)
		other, err := t.edit(number)
		if err != nil {
			return err
		}
		other.about = 0
	}
	about := r.about
	for _, step := range []func() error{
		func() error { return t.unindex(d, r, nil) },
		func() error { return t.unlink(d, r) },
		func() error { return t.unchain(d, r) },
		func() error { return t.names(&d.Entry, -1) },
		func() error { return t.forgetVectors(n) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	*r = record{}
	delete(t.saved, n)
	t.docs[n] = nil
	t.put(docKey(n), nil)
	t.put(idKey(d.ID), nil)
	t.head.Count--
	if about == 0 {
		return nil
	}
	said, err := t.doc(about)
	if err != nil || said == nil {
		return err
	}
	said.Facts = slices.DeleteFunc(said.Facts, func(f uint32) bool { return f == n })
	return t.index(said)
}
