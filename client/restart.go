package client

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// discard voids what the discarded steps said. They are the session's own, or of an agent that the remote agent
// consults.
func (t *talk) discard(ev *cairn.Event) bool {
	t.cited = slices.DeleteFunc(t.cited, ev.Voids)
	return t.restart(func(s said) bool { return s.of != nil && ev.Voids(s.of) })
}

// commit makes what a step said stand, if the event is its commit.
func (t *talk) commit(ev *cairn.Event) {
	for _, list := range [][]said{t.kept, t.step} {
		for i := range list {
			if of := list[i].of; of != nil && ev.Type == cairn.EventStepCommitted && of.SessionID == ev.SessionID && of.RunID == ev.RunID && of.Step == ev.Step {
				list[i].of = nil
			}
		}
	}
}

// restart begins the reply again without the pieces that are void, if there are any.
func (t *talk) restart(void func(said) bool) bool {
	if !slices.ContainsFunc(t.kept, void) && !slices.ContainsFunc(t.step, void) {
		return true
	}
	t.kept, t.step = slices.DeleteFunc(t.kept, void), slices.DeleteFunc(t.step, void)
	t.open, t.spoke = "", false
	for _, list := range [][]said{t.kept, t.step} {
		for i := range list {
			switch list[i].Type {
			case cairn.ChunkText:
				t.open, t.spoke = cairn.PartText, true
			case cairn.ChunkReasoning:
				t.open = cairn.PartReasoning
			case cairn.ChunkPartEnd:
				t.open = ""
			}
		}
	}
	return t.repeat()
}

// repeat begins the reply again, with the pieces that stand.
func (t *talk) repeat() bool {
	if !t.say(cairn.Chunk{Type: cairn.ChunkRestart}) {
		return false
	}
	for _, list := range [][]said{t.kept, t.step} {
		for _, s := range list {
			s.Text = string(s.text)
			if !t.say(s.Chunk) {
				return false
			}
		}
	}
	return true
}
