package engine

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/cairn-agents/cairn"
)

// StateAs returns a session's state as the type given to its agent's [cairn.StateOf]. It returns the errors of
// [Engine.State], and an ErrState error for a state of another type.
func StateAs[S any](ctx context.Context, e *Engine, id string) (S, error) {
	var state S
	raw, err := e.State(ctx, id, "")
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return state, cairn.Errorf(cairn.ErrState, "session %q: decode state as %T: %w", id, state, err)
	}
	return state, nil
}

// AllMessages yields every message of a session, hidden ones too, in order. It reads them in pages, so that a long
// conversation is never in memory as a whole; it may include messages that are added concurrently. It ends early only
// with an error of [Engine.Messages] or of ctx.
func (e *Engine) AllMessages(ctx context.Context, id string) iter.Seq2[cairn.Message, error] {
	return func(yield func(cairn.Message, error) bool) {
		const page = 100
		for from := 0; ; from += page {
			list, err := e.Messages(ctx, id, from, page)
			if err != nil {
				yield(cairn.Message{}, err)
				return
			}
			for i := range list {
				if !yield(list[i], nil) {
					return
				}
			}
			if len(list) < page {
				return
			}
		}
	}
}
