package engine

import (
	"context"
	"iter"

	"github.com/cairn-agents/cairn/internal/pieces"
)

// Text is a piece of a run's text for the user: the next part of a reply, or the notice that a partial reply is void.
type Text struct {
	// Delta is the next piece of the reply. It is empty if Discarded is set.
	Delta string
	// Step is the number of the step that produced it, from 1. The pieces of one step are one message.
	Step int
	// Discarded voids everything yielded of this step so far: the model call failed in mid-reply, or its process died.
	// The text that replaces it follows under the same number, so a reader that removes the step's text shows each word
	// once. If the text of several steps is void, there is a Text for each of them, the last step first.
	Discarded bool
}

// String returns the piece as a terminal may show it: Delta, or a line that says that the reply is discarded.
func (t Text) String() string {
	if t.Discarded {
		return "\n[discarded]\n"
	}
	return t.Delta
}

// Text yields the run's text for the user, as the model produces it, from the beginning of the run to its end: the text
// of its own session, without reasoning, tools and sub-agents, for which there is [Run.Events]. It may be called any
// number of times, in any process, also for a run that has ended.
//
//	for text, err := range run.Text(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(text)
//	}
//	res, err := run.Wait(ctx)
//
// Live text may be discarded later, see [Text].Discarded. The text that was yielded and not discarded is the text in
// the transcript. The loop ends without an error when the run ends, regardless of its outcome, and early only with one
// of the errors of Events.
func (r *Run) Text(ctx context.Context) iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		for p, err := range pieces.Of(r.session, r.Events(ctx)) {
			if !yield(Text(p), err) {
				return
			}
		}
	}
}
