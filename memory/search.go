package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	maxHits       = 100
	maxQueryTerms = 64
	rarest        = 12 // terms that are searched
	maxCandidates = 64 // memories that are ranked
	maxNameWords  = 3
)

// Search returns the entries that fit a query, best first. It finds nothing if the text has no term that an entry has,
// and no vectors help.
func (m *Memory) Search(ctx context.Context, scope Scope, q Query) ([]Hit, error) {
	if q.Limit < 0 || q.Limit > maxHits {
		return nil, cairn.Invalid("limit", "%d is not from 0 to %d", q.Limit, maxHits)
	}
	if err := checkSelection(q.Kind, q.Source, ""); err != nil {
		return nil, err
	}
	if err := cairn.CheckText("text", q.Text); err != nil {
		return nil, err
	}
	q.Limit = defaulted(q.Limit, 10)
	q.Text = Cut(q.Text, m.opts.MaxCharacters)
	vector, err := m.queryVector(ctx, q.Text)
	if err != nil {
		return nil, err
	}
	var hits []Hit
	err = m.view(ctx, scope, func(t *tx) error {
		s := &search{tx: t, q: &q, vector: vector}
		hits, err = s.run()
		return err
	})
	return hits, err
}

// search is one search in progress.
type search struct {
	*tx
	q      *Query
	vector []float32
	asOf   int64
	named  uint32 // the one name in the query; 0 for none
	terms  []queryTerm
	asked  float64 // idf of all terms

	ranked map[uint32]*candidate
}

// queryTerm is a term of a query with its postings.
type queryTerm struct {
	text   string
	counts [2]int // memories that have it, by index
	idf    float64
	posts  [2][]driver.MemoryEntry
}

// candidate is a memory that is ranked.
type candidate struct {
	number uint32
	*record
	base  float64
	score float64
	Explain
}

func (s *search) run() ([]Hit, error) {
	s.asOf = micros(s.now)
	if !s.q.AsOf.IsZero() {
		s.asOf = micros(s.q.AsOf)
	}
	if err := s.readTerms(); err != nil {
		return nil, err
	}
	if err := s.rank(); err != nil {
		return nil, err
	}
	if err := s.fuse(); err != nil {
		return nil, err
	}
	list, err := s.represent()
	if err != nil {
		return nil, err
	}
	return s.hits(list)
}

// indexCount returns how many of the indexes the query searches.
func (s *search) indexCount() int {
	if s.q.Quarantined {
		return 2
	}
	return 1
}

// readTerms reads the postings of the query's rarest terms. Names of speakers are left out if other terms remain, since
// every entry of a speaker has them.
func (s *search) readTerms() error {
	var list []string
	for _, term := range s.m.opts.Analyzer.Terms(s.q.Text) {
		if term = usable(term); term != "" && !slices.Contains(list, term) && len(list) < maxQueryTerms {
			list = append(list, term)
		}
	}
	speakers, err := s.readNames()
	if err != nil {
		return err
	}
	if rest := slices.DeleteFunc(slices.Clone(list), func(t string) bool { return slices.Contains(speakers, t) }); len(rest) > 0 {
		list = rest
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.readPostings(list, len(list) > rarest); err != nil {
		return err
	}
	s.weigh()
	if len(s.terms) <= rarest {
		return nil
	}
	slices.SortStableFunc(s.terms, func(a, b queryTerm) int { return s.frequency(&a) - s.frequency(&b) })
	list = nil
	for i := range s.terms[:rarest] {
		list = append(list, s.terms[i].text)
	}
	if err := s.readPostings(list, false); err != nil {
		return err
	}
	s.weigh()
	return nil
}

func (s *search) frequency(t *queryTerm) int { return t.counts[0] + t.counts[1] }

// readPostings reads the postings of terms, or only how many there are. Terms that no memory has are left out.
func (s *search) readPostings(list []string, sizes bool) error {
	var reads []driver.MemoryRead
	n := s.indexCount()
	for _, term := range list {
		for _, index := range indexes[:n] {
			from, before := postRange(index, term)
			reads = append(reads, driver.MemoryRead{From: from, Before: before, Sizes: sizes})
		}
	}
	found, err := s.read(reads...)
	if err != nil {
		return err
	}
	s.terms = nil
	for i, term := range list {
		t := queryTerm{text: term}
		for j := range n {
			t.posts[j] = found[i*n+j]
			for _, e := range t.posts[j] {
				t.counts[j] += e.Size / 2
			}
		}
		if s.frequency(&t) > 0 {
			s.terms = append(s.terms, t)
		}
	}
	return nil
}

// readNames finds the names in the query. It returns the terms of the speakers among them.
func (s *search) readNames() (speakers []string, err error) {
	list := words(s.q.Text)
	list = list[:min(len(list), maxQueryTerms)]
	var keys, names []string
	for i := range list {
		for n := 1; n <= maxNameWords && i+n <= len(list); n++ {
			folded := strings.Join(list[i:i+n], " ")
			if !slices.Contains(names, folded) && (n > 1 || !stopWords[folded]) {
				names, keys = append(names, folded), append(keys, nameKey(folded))
			}
		}
	}
	if err := s.fetchSorted(keys); err != nil {
		return nil, err
	}
	var named []string
	for i, key := range keys {
		there, err := s.name(key)
		if err != nil {
			return nil, err
		}
		if there == nil {
			continue
		}
		named = append(named, names[i])
		if there.Speaker > 0 {
			for _, term := range s.m.opts.Analyzer.Terms(names[i]) {
				speakers = append(speakers, usable(term))
			}
		}
	}
	if len(named) == 1 {
		s.named = hash32(named[0])
	}
	return speakers, nil
}

// usableAt reports whether a memory is one that the query may find.
func (s *search) usableAt(r *record) bool {
	return r.live() && !r.is(flagRedacted) && (s.q.Quarantined || !r.is(flagQuarantined)) &&
		(r.expires == 0 || r.expires > micros(s.now))
}

// hits reads the entries of ranked memories, and returns those that the query selects.
func (s *search) hits(list []*candidate) ([]Hit, error) {
	var hits []Hit
	entity := fold(s.q.Entity)
	for len(list) > 0 && len(hits) < s.q.Limit {
		part := list[:min(len(list), s.q.Limit)]
		list = list[len(part):]
		numbers := make([]uint32, len(part))
		for i, c := range part {
			numbers[i] = c.number
		}
		if err := s.fetchDocs(numbers...); err != nil {
			return nil, err
		}
		for _, c := range part {
			d, err := s.doc(c.number)
			if err != nil {
				return nil, err
			}
			if d == nil || len(hits) == s.q.Limit || entity != "" && fold(d.Entity) != entity || !s.selects(d) {
				continue
			}
			e, err := s.shown(d)
			if err != nil {
				return nil, err
			}
			hit := Hit{MemoryEntry: e, Score: c.score}
			if s.q.Explain {
				explain := c.Explain
				hit.Explain = &explain
			}
			hits = append(hits, hit)
		}
	}
	return hits, nil
}

// selects reports whether the query selects a memory.
func (s *search) selects(d *doc) bool {
	return (s.q.Kind == "" || s.q.Kind == d.Kind) && (s.q.Source == "" || s.q.Source == d.Source.Kind) &&
		micros(d.ValidFrom) <= s.asOf && (d.ValidUntil.IsZero() || micros(d.ValidUntil) > s.asOf)
}
