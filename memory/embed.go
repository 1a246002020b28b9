package memory

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

const (
	embedBatch   = 64
	queryTimeout = 5 * time.Second
)

// queryVector returns the vector of a query; nil without an embedder, or if it fails, which is logged: a search by terms
// is better than none.
func (m *Memory) queryVector(ctx context.Context, text string) ([]float32, error) {
	if m.opts.Embedder == nil || m.opts.Fusion == 0 || text == "" {
		return nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	list, err := m.embed(limited, []string{text})
	if ctx.Err() != nil {
		return nil, cairn.ContextError(ctx, "memory search")
	}
	if err != nil {
		m.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "memory: query not embedded, searching by terms only", slog.Any("error", err))
		return nil, nil
	}
	return list[0], nil
}

// embed returns unit vectors of texts.
func (m *Memory) embed(ctx context.Context, texts []string) ([][]float32, error) {
	list, err := m.opts.Embedder.Embed(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embedder %s: %w", m.opts.Embedder.Model(), err)
	}
	if len(list) != len(texts) {
		return nil, cairn.Errorf(cairn.ErrModel, "embedder %s returned %d vectors for %d texts", m.opts.Embedder.Model(), len(list), len(texts))
	}
	for i := range list {
		if n := len(list[i]); n == 0 || n > MaxDimensions || n != len(list[0]) {
			return nil, cairn.Errorf(cairn.ErrModel, "embedder %s returned a vector of %d dimensions", m.opts.Embedder.Model(), n)
		}
		if list[i] = unit(list[i]); list[i] == nil {
			return nil, cairn.Errorf(cairn.ErrModel, "embedder %s returned a vector that is not finite", m.opts.Embedder.Model())
		}
	}
	return list, nil
}

// unit returns a vector of length 1 with the same direction; nil if a number is not finite. A zero vector stays.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil
	}
	out := make([]float32, len(v))
	if sum > 0 {
		for i, x := range v {
			out[i] = float32(float64(x) / math.Sqrt(sum))
		}
	}
	return out
}

// embeddable returns the text that an entry's vector is made of.
func embeddable(e *Entry) string {
	about := strings.TrimSpace(e.Entity + " " + e.Attribute)
	if label := cmp.Or(e.Speaker, about); label != "" {
		return label + ": " + e.Text
	}
	return e.Text
}

// Embed makes the vectors that entries of a scope lack for the embedder's model, a few at a time, and returns how many it
// made. Afterwards it removes the vectors of other models. Any process may call it at any time: entries are found by
// their terms until then. Without an embedder it does nothing.
func (m *Memory) Embed(ctx context.Context, scope Scope) (made int, err error) {
	if m.opts.Embedder == nil {
		return 0, nil
	}
	model := m.opts.Embedder.Model()
	for {
		var list []*doc
		err := m.view(ctx, scope, func(t *tx) (err error) {
			list, err = t.unembedded(model, embedBatch)
			return err
		})
		if err != nil || len(list) == 0 {
			break
		}
		texts := make([]string, len(list))
		for i, d := range list {
			texts[i] = embeddable(&d.Entry)
		}
		vectors, err := m.embed(ctx, texts)
		if err != nil {
			return made, err
		}
		err = m.update(ctx, scope, func(t *tx) error { return t.putVectors(model, list, vectors) })
		if err != nil {
			return made, err
		}
		made += len(list)
	}
	if err != nil {
		return made, err
	}
	return made, m.update(ctx, scope, func(t *tx) error { return t.dropOtherVectors(model) })
}
