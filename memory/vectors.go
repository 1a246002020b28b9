package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/store/driver"
)

const perVectors = 8 // vectors of a chunk

// vectorPrefix is the part of the keys of a model's vectors before the number of the chunk.
func vectorPrefix(model string) string { return fmt.Sprintf("v%016x", hash64(model)) }

func vectorKey(model string, n uint32) string {
	return fmt.Sprintf("%s%08x", vectorPrefix(model), n/perVectors)
}

func embeddedKey(model string) string { return fmt.Sprintf("w%016x", hash64(model)) }

// unembedded returns up to limit memories that have no vector of a model.
func (t *tx) unembedded(model string, limit int) ([]*doc, error) {
	bits, err := t.get(embeddedKey(model))
	if err != nil {
		return nil, err
	}
	live, err := t.live(1, 0)
	if err != nil {
		return nil, err
	}
	var numbers []uint32
	for _, n := range live {
		r, err := t.record(n)
		if err != nil {
			return nil, err
		}
		if !hasBit(bits, n) && !r.is(flagRedacted) {
			if numbers = append(numbers, n); len(numbers) == limit {
				break
			}
		}
	}
	if err := t.fetchDocs(numbers...); err != nil {
		return nil, err
	}
	var list []*doc
	for _, n := range numbers {
		d, err := t.doc(n)
		if err != nil {
			return nil, err
		}
		if d != nil {
			list = append(list, d)
		}
	}
	return list, nil
}

func hasBit(bits []byte, n uint32) bool { return int(n/8) < len(bits) && bits[n/8]&(1<<(n%8)) != 0 }

// setBit returns bits with the bit n set or cleared.
func setBit(bits []byte, n uint32, on bool) []byte {
	out := slices.Clone(bits)
	for len(out) <= int(n/8) {
		out = append(out, 0)
	}
	if on {
		out[n/8] |= 1 << (n % 8)
	} else {
		out[n/8] &^= 1 << (n % 8)
	}
	return out
}

// putVectors stores the vectors of memories, except of those that have changed since.
func (t *tx) putVectors(model string, list []*doc, vectors [][]float32) error {
	bits, err := t.get(embeddedKey(model))
	if err != nil {
		return err
	}
	for i, read := range list {
		d, err := t.doc(read.Number)
		if err != nil {
			return err
		}
		if d == nil || d.ID != read.ID || d.Text != read.Text {
			continue
		}
		if err := t.putVector(vectorKey(model, d.Number), d.Number, vectors[i]); err != nil {
			return err
		}
		bits = setBit(bits, d.Number, true)
	}
	t.put(embeddedKey(model), bits)
	return nil
}

// A chunk of vectors has a byte with a bit for each vector that is present, and then room for all up to the last one.
func (t *tx) putVector(key string, n uint32, v []float32) error {
	raw, err := t.get(key)
	if err != nil {
		return err
	}
	size, slot := 4*len(v), int(n%perVectors)
	out := make([]byte, max(len(raw), 1+(slot+1)*size))
	copy(out, raw)
	out[0] |= 1 << slot
	for i, x := range v {
		binary.LittleEndian.PutUint32(out[1+slot*size+4*i:], math.Float32bits(x))
	}
	t.put(key, out)
	return nil
}

// forgetVectors removes the vectors of a memory, of every model.
func (t *tx) forgetVectors(n uint32) error {
	found, err := t.read(driver.MemoryRead{From: "w", Before: "x", Sizes: true})
	if err != nil {
		return err
	}
	for _, e := range found[0] {
		bits, err := t.get(e.Key)
		if err != nil {
			return err
		}
		if !hasBit(bits, n) {
			continue
		}
		t.put(e.Key, setBit(bits, n, false))
		key := fmt.Sprintf("v%s%08x", e.Key[1:], n/perVectors)
		raw, err := t.get(key)
		if err != nil || len(raw) == 0 {
			return err
		}
		raw = slices.Clone(raw)
		slots := 0
		for i := range perVectors {
			if raw[0]&(1<<i) != 0 {
				slots = i + 1
			}
		}
		slot, size := int(n%perVectors), (len(raw)-1)/max(1, slots)
		raw[0] &^= 1 << slot
		if raw[0] == 0 {
			t.put(key, nil)
			continue
		}
		clear(raw[min(len(raw), 1+slot*size):min(len(raw), 1+(slot+1)*size)])
		t.put(key, raw)
	}
	return nil
}

// dropOtherVectors removes the vectors of other models.
func (t *tx) dropOtherVectors(model string) error {
	found, err := t.read(driver.MemoryRead{From: "v", Before: "x", Sizes: true})
	if err != nil {
		return err
	}
	for _, e := range found[0] {
		if !strings.HasPrefix(e.Key, vectorPrefix(model)) && e.Key != embeddedKey(model) {
			if t.put(e.Key, nil); len(t.dirty) == driver.MaxMemoryChanges/2 {
				break
			}
		}
	}
	return nil
}
