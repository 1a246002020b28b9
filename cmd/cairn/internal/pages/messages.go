package pages

import (
	"context"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Numbered is a message with its index in the session.
type Numbered struct {
	Index int `json:"index"`
	cairn.Message
}

// Messages yields the messages of a session from an index.
func Messages(ctx context.Context, eng *engine.Engine, id string, from int) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		for {
			page, err := eng.Messages(ctx, id, from, 0)
			if err != nil {
				yield(Numbered{}, err)
				return
			}
			for _, m := range page {
				if !yield(Numbered{from, m}, nil) {
					return
				}
				from++
			}
			if len(page) == 0 {
				return
			}
		}
	}
}
