// Package pieces reads from a run's events what the run says to the user.
package pieces

import (
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Piece is a piece of text that a step has produced or, if Discarded is set, voids all of the step so far.
type Piece struct {
	Delta     string
	Step      int
	Discarded bool
}

// Of yields the text of a session's own steps from the events of one of its runs, in order. If the text of several steps
// is discarded at once, it yields a Piece for each of them, the last step first. It ends with the first error of the
// events.
func Of(session string, events iter.Seq2[cairn.Event, error]) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		var shown []int // steps with text that was neither committed nor discarded, in order
		for ev, err := range events {
			switch {
			case err != nil:
				yield(Piece{}, err)
				return
			case ev.SessionID != session: // a sub-agent's
			case ev.Type == cairn.EventTextDelta:
				if n := len(shown); n == 0 || shown[n-1] != ev.Step {
					shown = append(shown, ev.Step)
				}
				if !yield(Piece{Delta: ev.Text, Step: ev.Step}, nil) {
					return
				}
			case ev.Type == cairn.EventStepCommitted:
				shown = slices.DeleteFunc(shown, func(step int) bool { return step == ev.Step })
			case ev.Type == cairn.EventStepDiscarded:
				for n := len(shown) - 1; n >= 0 && shown[n] >= ev.Step; n-- {
					if !yield(Piece{Step: shown[n], Discarded: true}, nil) {
						return
					}
					shown = shown[:n]
				}
			}
		}
	}
}
