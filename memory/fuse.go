package memory

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

const (
	vectorPage   = 256 // chunks that are read at once
	maxDeviation = 6   // standard deviations above the mean that count
)

// similar is a memory with the cosine of its vector and the query's.
type similar struct {
	number uint32
	cosine float64
}

// similarities compares the query's vector with all vectors of the scope.
func (s *search) similarities() ([]similar, error) {
	prefix := vectorPrefix(s.m.opts.Embedder.Model())
	var list []similar
	for from := prefix; ; {
		found, err := s.read(driver.MemoryRead{From: from, Before: prefix + "g", Limit: vectorPage})
		if err != nil {
			return nil, err
		}
		for _, e := range found[0] {
			list = s.compare(list, e)
		}
		if len(found[0]) < vectorPage {
			return list, nil
		}
		from = found[0][vectorPage-1].Key + "\x01"
	}
}

// compare adds the similarities of a chunk. Vectors with another number of dimensions do not count.
func (s *search) compare(list []similar, e driver.MemoryEntry) []similar {
	var at uint32
	if _, err := fmt.Sscanf(e.Key[len(e.Key)-8:], "%08x", &at); err != nil || len(e.Value) == 0 {
		return list
	}
	size := 4 * len(s.vector)
	for slot := range perVectors {
		first := 1 + slot*size
		if e.Value[0]&(1<<slot) == 0 || first+size > len(e.Value) {
			continue
		}
		raw := e.Value[first : first+size]
		var sum float32
		for i, x := range s.vector {
			sum += x * math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		list = append(list, similar{at*perVectors + uint32(slot), float64(sum)})
	}
	return list
}

// fuse brings the scores by text to at most 1, and adds those of vectors: how far a cosine is above the scope's mean.
func (s *search) fuse() error {
	most := 0.0
	for _, c := range s.ranked {
		most = max(most, c.score)
	}
	for _, c := range s.ranked {
		if most > 0 {
			c.Text = c.score / most
		}
	}
	if s.vector != nil {
		if err := s.addVectors(); err != nil {
			return err
		}
	}
	var names []string
	for i := range s.terms {
		names = append(names, s.terms[i].text)
	}
	for _, c := range s.ranked {
		c.Recency, c.Terms, c.Base = 1, names, c.base
		if w := s.m.opts.RecencyWeight; w > 0 {
			age := max(0, float64(micros(s.now)-c.valid)) / float64(recencyHalf/time.Microsecond)
			c.Recency += w * math.Exp2(-age)
		}
		c.score = (c.Text + c.Vector) * c.Recency
	}
	return nil
}

// recencyHalf is the age at which an entry has half of the bonus for recency.
const recencyHalf = 90 * 24 * time.Hour

func (s *search) addVectors() error {
	list, err := s.similarities()
	if err != nil || len(list) == 0 {
		return err
	}
	sum, squares := 0.0, 0.0
	for _, v := range list {
		sum, squares = sum+v.cosine, squares+v.cosine*v.cosine
	}
	mean := sum / float64(len(list))
	deviation := math.Sqrt(max(0, squares/float64(len(list))-mean*mean))
	if deviation < 1e-9 {
		return nil
	}
	slices.SortFunc(list, func(a, b similar) int {
		return cmp.Or(cmp.Compare(b.cosine, a.cosine), cmp.Compare(b.number, a.number))
	})
	numbers := make([]uint32, 0, maxCandidates)
	for _, v := range list[:min(len(list), maxCandidates)] {
		numbers = append(numbers, v.number)
	}
	if err := s.fetchRecords(numbers...); err != nil {
		return err
	}
	for _, n := range numbers {
		if _, err := s.candidate(n); err != nil {
			return err
		}
	}
	for _, v := range list {
		if c := s.ranked[v.number]; c != nil {
			z := min(max(0, (v.cosine-mean)/deviation), maxDeviation)
			c.Vector = s.m.opts.Fusion * z / maxDeviation
		}
	}
	return nil
}
