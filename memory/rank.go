package memory

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn/store/driver"
)

// Constants of the ranking, as measured on a public set of long conversations.
const (
	k1             = 1.2
	kLength        = 0.3
	coverBonus     = 0.5 // times the part of the query's weight that an entry has
	besideBefore   = 0.3 // of the base of the entry before
	besideAfter    = 0.2
	besideSecond   = 0.1 // of those two away
	answerBonus    = 0.3 // of the entry before, if it is a question
	sessionBonus   = 0.1 // of the session's best entries
	sessionBest    = 3
	namedFactor    = 1.5
	questionFactor = 0.8
	factShare      = 0.5 // of its text's base, from which a fact stands for the text
)

// weigh computes the weights of the terms.
func (s *search) weigh() {
	total := 0.0
	s.asked = 0
	for _, n := range s.head.Indexed[:s.indexCount()] {
		total += float64(n)
	}
	for i := range s.terms {
		df := float64(s.frequency(&s.terms[i]))
		s.terms[i].idf = math.Log(1 + (total-df+0.5)/(df+0.5))
		s.asked += s.terms[i].idf
	}
}

// best is a memory with the weight of its terms, before its record is known.
type best struct {
	number uint32
	weight float64
}

// better orders candidates: of equal ones the newer first.
func better(a, b best) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.number, a.number))
}

// candidates returns the memories whose terms weigh most.
func (s *search) candidates() []best {
	limit := maxCandidates
	if s.q.Entity != "" || s.q.Kind != "" || s.q.Source != "" || !s.q.AsOf.IsZero() {
		limit *= 10 // most may be left out later
	}
	var list []best
	for index := range s.indexCount() {
		list = s.scan(index, list, limit)
	}
	slices.SortFunc(list, better)
	return list[:min(len(list), limit)]
}

// scan adds the best memories of an index. It goes through the postings of all terms chunk by chunk, the newest first.
func (s *search) scan(index int, list []best, limit int) []best {
	var weights [perPost]float64
	var touched []uint16
	left := make([]int, len(s.terms)) // chunks to read
	for i := range s.terms {
		left[i] = len(s.terms[i].posts[index])
	}
	floor := math.Inf(-1)
	for {
		at := int64(-1)
		for i := range s.terms {
			if left[i] > 0 {
				at = max(at, chunkOf(s.terms[i].posts[index][left[i]-1].Key))
			}
		}
		if at < 0 {
			return list
		}
		for i := range s.terms {
			if left[i] == 0 || chunkOf(s.terms[i].posts[index][left[i]-1].Key) != at {
				continue
			}
			left[i]--
			table := weightTable(s.terms[i].idf)
			raw := s.terms[i].posts[index][left[i]].Value
			for ; len(raw) >= 2; raw = raw[2:] {
				p := binary.LittleEndian.Uint16(raw)
				if weights[p>>6] == 0 {
					touched = append(touched, p>>6)
				}
				weights[p>>6] += table[p&maxCount]
			}
		}
		for _, n := range touched {
			if weights[n] >= floor {
				list = append(list, best{uint32(at)*perPost + uint32(n), weights[n]})
			}
			weights[n] = 0
		}
		touched = touched[:0]
		if len(list) > 4*limit {
			slices.SortFunc(list, better)
			list = list[:limit]
			floor = list[limit-1].weight
		}
	}
}

// chunkOf returns the number of a chunk of postings from its key; -1 for another key.
func chunkOf(key string) int64 {
	_, digits, _ := strings.Cut(key, "\x01")
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil {
		return -1
	}
	return int64(n)
}

// weightTable has the weight of a term by how often it occurs, for a memory of average length.
func weightTable(idf float64) (table [maxCount + 1]float64) {
	for tf := range table {
		table[tf] = idf * float64(tf) * (k1 + 1) / (float64(tf) + k1)
	}
	return table
}

// countIn returns how often a term occurs in a memory.
func (t *queryTerm) countIn(index int, n uint32) int {
	posts := t.posts[index]
	at := int64(n / perPost)
	i, found := slices.BinarySearchFunc(posts, at, func(e driver.MemoryEntry, at int64) int { return cmp.Compare(chunkOf(e.Key), at) })
	if !found {
		return 0
	}
	raw, want := posts[i].Value, n%perPost
	lo, hi := 0, len(raw)/2
	for lo < hi {
		mid := (lo + hi) / 2
		p := binary.LittleEndian.Uint16(raw[2*mid:])
		switch {
		case uint32(p>>6) == want:
			return int(p & maxCount)
		case uint32(p>>6) < want:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return 0
}

// rank scores the candidates and their neighbours by text.
func (s *search) rank() error {
	s.ranked = map[uint32]*candidate{}
	found := s.candidates()
	numbers := make([]uint32, len(found))
	for i := range found {
		numbers[i] = found[i].number
	}
	if err := s.fetchRecords(numbers...); err != nil {
		return err
	}
	for _, n := range numbers {
		if c, err := s.candidate(n); err != nil {
			return err
		} else if c != nil {
			s.scoreBase(c)
		}
	}
	if err := s.addNeighbours(numbers); err != nil {
		return err
	}
	s.scoreAll()
	return nil
}

// candidate returns a memory to rank; nil if the query may not find it.
func (s *search) candidate(n uint32) (*candidate, error) {
	if c := s.ranked[n]; c != nil {
		return c, nil
	}
	r, err := s.record(n)
	if err != nil || !s.usableAt(r) {
		return nil, err
	}
	c := &candidate{number: n, record: r}
	s.ranked[n] = c
	return c, nil
}

func (s *search) scoreBase(c *candidate) {
	length, count := 0, 0
	for i := range s.indexCount() {
		length, count = length+s.head.Length[i], count+s.head.Indexed[i]
	}
	average := max(1, float64(length)/float64(max(1, count)))
	matched := 0.0
	for i := range s.terms {
		t := &s.terms[i]
		tf := float64(t.countIn(c.index(), c.number))
		if tf == 0 {
			continue
		}
		c.base += t.idf * tf * (k1 + 1) / (tf + k1*(1-kLength+kLength*float64(c.length)/average))
		matched += t.idf
		c.Matched = append(c.Matched, t.text)
	}
	if s.asked > 0 {
		c.Cover = matched / s.asked
		c.base *= 1 + coverBonus*c.Cover
	}
}

// addNeighbours adds the entries up to two before and after each candidate.
func (s *search) addNeighbours(numbers []uint32) error {
	border := numbers
	for range 2 {
		var next []uint32
		for _, n := range border {
			c := s.ranked[n]
			if c == nil {
				continue
			}
			for _, side := range [2]uint32{c.prev, c.next} {
				if side > 0 && s.ranked[side] == nil {
					next = append(next, side)
				}
			}
		}
		if err := s.fetchRecords(next...); err != nil {
			return err
		}
		border = next[:0]
		for _, n := range next {
			if _, err := s.candidate(n); err != nil {
				return err
			}
			border = append(border, n)
		}
	}
	return nil
}

// scoreAll computes the scores from the bases.
func (s *search) scoreAll() {
	sessions := map[uint32][]float64{}
	for _, n := range sortedKeys(s.ranked) {
		if c := s.ranked[n]; c.thread > 0 && c.base > 0 {
			sessions[c.thread] = append(sessions[c.thread], c.base)
		}
	}
	for thread, bases := range sessions {
		slices.SortFunc(bases, func(a, b float64) int { return cmp.Compare(b, a) })
		sum := 0.0
		for _, base := range bases[:min(sessionBest, len(bases))] {
			sum += base
		}
		sessions[thread] = append(bases[:0], sessionBonus*sum)
	}
	for _, c := range s.ranked {
		before, after := s.ranked[c.prev], s.ranked[c.next]
		if before != nil {
			c.Neighbours += besideBefore * before.base
			if before.is(flagQuestion) {
				c.Neighbours += answerBonus * before.base
			}
			if second := s.ranked[before.prev]; second != nil {
				c.Neighbours += besideSecond * second.base
			}
		}
		if after != nil {
			c.Neighbours += besideAfter * after.base
			if second := s.ranked[after.next]; second != nil {
				c.Neighbours += besideSecond * second.base
			}
		}
		if bonus := sessions[c.thread]; c.thread > 0 && len(bonus) > 0 {
			c.Session = bonus[0]
		}
		c.score = c.base + c.Neighbours + c.Session
		if c.Named = s.named > 0 && (c.speaker == s.named || c.entity == s.named); c.Named {
			c.score *= namedFactor
		}
		if c.Question = c.is(flagQuestion); c.Question {
			c.score *= questionFactor
		}
	}
}

// represent replaces candidates by the entries that stand for them: the newest version, and of a text and its facts one.
// It returns them best first.
func (s *search) represent() ([]*candidate, error) {
	var list []*candidate
	for _, n := range sortedKeys(s.ranked) {
		if c := s.ranked[n]; c.score > 0 {
			list = append(list, c)
		}
	}
	order := func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.number, a.number))
	}
	slices.SortFunc(list, order)
	facts := map[uint32]*candidate{} // the best fact of each text
	for _, c := range list {
		if c.about > 0 && facts[c.about] == nil {
			facts[c.about] = c
		}
	}
	shown, groups := map[uint32]bool{}, map[uint32]shownAs{}
	var out []*candidate
	for _, c := range list {
		from := c
		if fact := facts[c.number]; fact != nil && fact.base >= factShare*c.base {
			from = fact
		}
		to, err := s.newest(from)
		if err != nil {
			return nil, err
		}
		if to == nil || shown[to.number] || shown[c.number] || groups[c.group()].excludes(c) || groups[to.group()].excludes(to) {
			continue
		}
		shown[to.number], shown[c.number] = true, true
		groups[c.group()], groups[to.group()] = as(to), as(to)
		hit := *c
		hit.number, hit.record = to.number, to.record
		if to.number != c.number {
			d, err := s.doc(c.number)
			if err != nil {
				return nil, err
			}
			if d != nil {
				hit.Found = d.ID
			}
		}
		out = append(out, &hit)
	}
	return out, nil
}

// shownAs is how a text is among the hits: itself, or by facts that were taken from it.
type shownAs int

const (
	asText shownAs = iota + 1
	asFacts
)

func as(c *candidate) shownAs {
	if c.is(flagFact) {
		return asFacts
	}
	return asText
}

// excludes reports whether a candidate must not be a hit beside those of its group.
func (s shownAs) excludes(c *candidate) bool { return s != 0 && (s == asText || !c.is(flagFact)) }

// group returns the number of the text that a candidate is, or was taken from.
func (c *candidate) group() uint32 { return cmp.Or(c.about, c.number) }

// newest returns the version that stands for a candidate: the newest one that is valid at the query's time. It is nil if
// that one is not to be found.
func (s *search) newest(c *candidate) (*candidate, error) {
	if c.chain == 0 || s.q.Superseded {
		return c, nil
	}
	list, err := s.versions(c.number)
	if err != nil {
		return nil, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		r, err := s.record(list[i])
		if err != nil {
			return nil, err
		}
		switch {
		case !r.live() || r.valid > s.asOf || r.is(flagQuarantined) && !s.q.Quarantined:
			continue
		case !s.usableAt(r):
			return nil, nil
		}
		return &candidate{number: list[i], record: r}, nil
	}
	return nil, nil
}
