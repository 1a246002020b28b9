package pages

import (
	"context"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Events yields the events of a session after a cursor that are still on the log.
func Events(ctx context.Context, eng *engine.Engine, id string, after cairn.Cursor) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		for {
			events, err := eng.History(ctx, id, after, 0)
			if err != nil {
				yield(cairn.Event{}, err)
				return
			}
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
				after = ev.Cursor()
			}
			if len(events) == 0 {
				return
			}
		}
	}
}
