package client

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// maxInner is how many events of one call are kept, to be repeated when what was said begins again. Later ones are not
// passed on.
const maxInner = 10_000

// inner passes on what the tools of the agent did, and the agents that it consults, with theirs. What these say is on
// the log there only: it is no part of the reply.
func (t *talk) inner(ev *cairn.Event) bool {
	switch ev.Type {
	case cairn.EventToolStart, cairn.EventToolEnd, cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventCustom:
	case cairn.EventStepDiscarded:
		return t.discard(ev)
	default:
		return true
	}
	if ev.Tool == cairn.FinishTool || t.passed >= maxInner {
		return true
	}
	t.passed++
	seen := *ev
	seen.Origin = ev.SessionID
	if ev.SessionID == t.Session && ev.Origin == "" {
		seen.Agent = "" // the one here
	}
	return t.add(cairn.Chunk{Type: cairn.ChunkEvent, Event: &seen})
}

func isInner(c *cairn.Chunk) bool { return c.Type == cairn.ChunkEvent }

// discard makes void what a step of an agent that the agent consults has published: the reply begins again without it.
func (t *talk) discard(ev *cairn.Event) bool {
	void := func(s said) bool {
		return isInner(&s.Chunk) && s.Event.SessionID == ev.SessionID && s.Event.RunID == ev.RunID && s.Event.Step == ev.Step
	}
	if !slices.ContainsFunc(t.kept, void) && !slices.ContainsFunc(t.step, void) {
		return true
	}
	t.kept, t.step = slices.DeleteFunc(t.kept, void), slices.DeleteFunc(t.step, void)
	return t.repeat()
}
