package client

import (
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
	case cairn.EventStepCommitted:
		t.commit(ev)
		return true
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
	return t.put(cairn.Chunk{Type: cairn.ChunkEvent, Event: &seen}, ev)
}

func isInner(c *cairn.Chunk) bool { return c.Type == cairn.ChunkEvent }
