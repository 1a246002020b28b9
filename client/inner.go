package client

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// maxInner is how many events of the remote agent's tools and agents one call forwards. They are kept, to be
// repeated when the reply begins again. Later ones are dropped.
const maxInner = 10_000

// inner forwards events about the tools of the remote agent and the agents that it consults, and about theirs. What
// those agents say is only on the log of the other server: it is not part of the reply.
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
		seen.Agent = "" // the agent here
	}
	return t.add(cairn.Chunk{Type: cairn.ChunkEvent, Event: &seen})
}

func isInner(c *cairn.Chunk) bool { return c.Type == cairn.ChunkEvent }

// discard voids the events published by a discarded step of an agent that the remote agent consults: the reply
// begins again without them.
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
