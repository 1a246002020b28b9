package memorytest

import (
	"context"
	"hash/fnv"
	"strings"
	"sync/atomic"

	"github.com/cairn-agents/cairn/memory"
)

// Embedder is a memory.Embedder for tests.
type Embedder struct {
	// Name is the name of the model.
	Name string
	// Vector returns the vector of a text.
	Vector func(text string) []float32
	// Err, if not nil, is called first. Embed returns its error.
	Err func() error
	// Texts counts the texts that were embedded.
	Texts atomic.Int64
}

var _ memory.Embedder = (*Embedder)(nil)

// Model implements memory.Embedder.
func (e *Embedder) Model() string { return e.Name }

// Embed implements memory.Embedder.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if e.Err != nil {
		if err := e.Err(); err != nil {
			return nil, err
		}
	}
	list := make([][]float32, len(texts))
	for i, text := range texts {
		list[i] = e.Vector(text)
	}
	e.Texts.Add(int64(len(texts)))
	return list, ctx.Err()
}

// Words returns an embedder that adds up a direction for each word of a text, of the given number of dimensions.
func Words(dimensions int) *Embedder {
	return &Embedder{Name: "words", Vector: func(text string) []float32 {
		v := make([]float32, dimensions)
		for _, word := range strings.Fields(strings.ToLower(text)) {
			h := fnv.New64a()
			h.Write([]byte(word))
			v[h.Sum64()%uint64(dimensions)]++
		}
		return v
	}}
}
