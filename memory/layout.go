package memory

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// Entries of a scope, by the first character of their keys. Memories have numbers, from 1 in the order in which they
// were added; a number is not used again.
//
//	h                    the head: counters of the scope
//	i <id>               the number of the memory
//	d <number>           the memory, JSON
//	r <chunk>            the records of 14 memories, which searches and lists read instead of the memories
//	t <term> \x01 <chunk> the postings of a term in 1,024 active memories
//	q <term> \x01 <chunk> the same in quarantined ones
//	c <chain>            the numbers of the versions of a memory
//	s <session>          the number of the last memory of a session
//	e <name>             an entity or a speaker, with counts
//	v <model> <chunk>    the vectors of 8 memories
//	w <model>            a bit for each memory that has a vector
const (
	keyHead  = "h"
	perChunk = 14   // records: they fit into a page of SQLite's tree
	perPost  = 1024 // postings
)

func idKey(id string) string          { return "i" + id }
func docKey(n uint32) string          { return fmt.Sprintf("d%08x", n) }
func recordKey(chunk uint32) string   { return fmt.Sprintf("r%08x", chunk) }
func chainKey(chain uint32) string    { return fmt.Sprintf("c%08x", chain) }
func threadKey(session string) string { return fmt.Sprintf("s%016x", hash64(session)) }

// nameKey returns the key of a name in folded form, which can be longer than the name.
func nameKey(folded string) string {
	if len(folded) > maxName {
		folded = fmt.Sprintf("#%016x", hash64(folded))
	}
	return "e" + folded
}

// postKey returns the key of a term's postings. index is 't' or 'q'.
func postKey(index byte, term string, chunk uint32) string {
	return fmt.Sprintf("%c%s\x01%06x", index, term, chunk)
}

// postRange returns the range of a term's postings.
func postRange(index byte, term string) (from, before string) {
	return string(index) + term + "\x01", string(index) + term + "\x02"
}

func hash64(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// hash32 returns a number for a name, which is 0 for none only.
func hash32(s string) uint32 {
	if s == "" {
		return 0
	}
	return max(1, uint32(hash64(s)>>16))
}

// head has the counters of a scope.
type head struct {
	Next     uint32 `json:"next"`     // the next number
	Count    int    `json:"count"`    // memories
	Indexed  [2]int `json:"indexed"`  // memories with terms: active, quarantined
	Length   [2]int `json:"length"`   // their terms
	Analyzer string `json:"analyzer"` // of the last write or Reindex
	Due      int64  `json:"due"`      // the earliest expiry, in microseconds; 0 for none
	// Consolidated is when facts were merged last, in microseconds; 0 for never.
	Consolidated int64 `json:"consolidated,omitempty"`
}

// Flags of a record.
const (
	flagLive = 1 << iota // the record is in use
	flagFact
	flagQuestion // the text ends with a question mark
	flagQuarantined
	flagRedacted
)

const (
	recordSize  = 64
	maxPosition = math.MaxUint32
)

// record is what ranking and lists need of a memory. Names are hashes: those who need certainty read the memory.
type record struct {
	flags      uint16
	source     uint8
	importance uint8
	length     uint16 // terms
	thread     uint32 // the session
	position   uint32
	prev, next uint32 // the neighbours in the session, if it is said
	speaker    uint32
	entity     uint32
	chain      uint32
	about      uint32
	valid      int64
	expires    int64
	stored     int64
}

func (r *record) live() bool { return r.flags&flagLive != 0 }

func (r *record) is(flag uint16) bool { return r.flags&flag != 0 }

// index returns the index that has the record's terms, as a position in the head's counters.
func (r *record) index() int {
	if r.is(flagQuarantined) {
		return 1
	}
	return 0
}

var indexes = [2]byte{'t', 'q'}

// chunk has the records of consecutive numbers.
type chunk [perChunk]record

func decodeChunk(b []byte) (*chunk, error) {
	c := &chunk{}
	if len(b)%recordSize != 0 || len(b) > perChunk*recordSize {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "memory: records of %d bytes", len(b))
	}
	le := binary.LittleEndian
	for i := range len(b) / recordSize {
		f := b[i*recordSize:]
		c[i] = record{flags: le.Uint16(f), source: f[2], importance: f[3], length: le.Uint16(f[4:]), thread: le.Uint32(f[8:]),
			position: le.Uint32(f[12:]), prev: le.Uint32(f[16:]), next: le.Uint32(f[20:]), speaker: le.Uint32(f[24:]),
			entity: le.Uint32(f[28:]), chain: le.Uint32(f[32:]), about: le.Uint32(f[36:]), valid: int64(le.Uint64(f[40:])),
			expires: int64(le.Uint64(f[48:])), stored: int64(le.Uint64(f[56:]))}
	}
	return c, nil
}

// encode returns the stored form of a chunk; nil for one without live records.
func (c *chunk) encode() []byte {
	n := perChunk
	for n > 0 && !c[n-1].live() {
		n--
	}
	if n == 0 {
		return nil
	}
	b := make([]byte, n*recordSize)
	le := binary.LittleEndian
	for i := range n {
		f, r := b[i*recordSize:], &c[i]
		le.PutUint16(f, r.flags)
		f[2], f[3] = r.source, r.importance
		le.PutUint16(f[4:], r.length)
		for j, v := range [...]uint32{r.thread, r.position, r.prev, r.next, r.speaker, r.entity, r.chain, r.about} {
			le.PutUint32(f[8+4*j:], v)
		}
		for j, v := range [...]int64{r.valid, r.expires, r.stored} {
			le.PutUint64(f[40+8*j:], uint64(v))
		}
	}
	return b
}

// A posting is 2 bytes: the number within the chunk in the upper 10 bits, and how often the term occurs, up to 63.
const maxCount = 63

// setPosting returns the postings of a chunk in which the term occurs count times in the memory n; 0 removes it.
func setPosting(b []byte, n uint32, count int) []byte {
	le := binary.LittleEndian
	at := uint16(n % perPost)
	i := len(b) / 2
	for i > 0 && le.Uint16(b[2*(i-1):])>>6 >= at {
		i--
	}
	there := 2*i < len(b) && le.Uint16(b[2*i:])>>6 == at
	switch {
	case count == 0 && there:
		return slices.Concat(b[:2*i], b[2*i+2:])
	case count == 0:
		return b
	}
	b = slices.Clone(b)
	if !there {
		b = slices.Insert(b, 2*i, 0, 0)
	}
	le.PutUint16(b[2*i:], at<<6|uint16(min(count, maxCount)))
	return b
}

// numbers encodes a list of numbers.
func encodeNumbers(list []uint32) []byte {
	b := make([]byte, 0, 4*len(list))
	for _, n := range list {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

func decodeNumbers(b []byte) ([]uint32, error) {
	if len(b)%4 != 0 {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "memory: a list of %d bytes", len(b))
	}
	list := make([]uint32, len(b)/4)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return list, nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
