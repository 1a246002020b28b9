package transcript

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// Sent returns the messages of a transcript that a model is sent, of which the list begins at index first: the latest
// summary, the messages that it has left without what is bound to those before them, and all that followed. Without a
// summary that is all of them.
func Sent(messages []cairn.Message, first int) []cairn.Message {
	at := lastSummary(messages)
	if at < 0 {
		return messages
	}
	from := min(max(messages[at].Summary.From-first, 0), at)
	sent := append(make([]cairn.Message, 0, len(messages)-from+1), messages[at])
	for i := from; i < at; i++ {
		if m := unbound(&messages[i]); m.Summary == nil && len(m.Parts) > 0 {
			sent = append(sent, m)
		}
	}
	return append(sent, messages[at+1:]...)
}

// lastSummary returns the place of the latest summary in a list; -1 if there is none.
func lastSummary(messages []cairn.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Summary != nil {
			return i
		}
	}
	return -1
}

// unbound returns a message without what its provider takes back behind the same messages only: reasoning, and items of
// its own.
func unbound(m *cairn.Message) cairn.Message {
	bound := func(p cairn.Part) bool {
		return p.Type == cairn.PartReasoning || p.Type == cairn.PartProvider || p.Provider != nil
	}
	if !slices.ContainsFunc(m.Parts, bound) {
		return *m
	}
	out := *m
	out.Parts = nil
	for _, p := range m.Parts {
		if p.Type == cairn.PartReasoning || p.Type == cairn.PartProvider {
			continue
		}
		p.Provider, p.Model = nil, ""
		out.Parts = append(out.Parts, p)
	}
	return out
}

// Cuts returns the indexes at which a list of messages can be cut in two, so that each use of a tool has its result on its
// own side: the beginning of the second part, in order.
func Cuts(messages []cairn.Message) (list []int) {
	open := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if i > 0 && len(open) == 0 && m.Role != cairn.RoleTool {
			list = append(list, i)
		}
		for _, use := range m.ToolUses() {
			open[use.CallID] = true
		}
		for _, r := range m.ToolResults() {
			delete(open, r.CallID)
		}
	}
	return list
}
