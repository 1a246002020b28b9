package anthropic

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// items are the calls of the provider's own tools in a history, and their results: the indexes of the messages that
// have them, by the id of the call.
type items struct {
	uses, results map[string]int
	running       int // index of the reply whose calls the provider runs once it has the results of the client's tools; or -1
}

// item is a block of the provider's own. A call has an id, and its result names it.
type item struct {
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
}

func itemOf(raw json.RawMessage) (it item) {
	_ = json.Unmarshal(raw, &it) // an item with other fields is neither
	return it
}

// items returns the items of a history that this model gave.
func (m *MessagesModel) items(history []cairn.Message) *items {
	s := &items{map[string]int{}, map[string]int{}, -1}
	for i := range history {
		msg := &history[i]
		if msg.Role != cairn.RoleAssistant {
			continue
		}
		if s.running = -1; msg.Cut == "" && len(msg.ToolUses()) > 0 {
			s.running = i
		}
		for j := range msg.Parts {
			if p := &msg.Parts[j]; p.Type == cairn.PartProvider && p.Model == m.endpoint.ID {
				it := itemOf(p.Provider)
				if it.ToolUseID != "" {
					s.results[it.ToolUseID] = i
				} else if it.ID != "" {
					s.uses[it.ID] = i
				}
			}
		}
	}
	return s
}

// sendable reports whether an item of message i can be sent. A call needs its result, and a result its call; a reply
// that broke off may have one without the other. A call beside calls of the client's tools has no result yet: the
// provider runs it with the next request, and the next reply begins with the result.
func (s *items) sendable(i int, raw json.RawMessage) bool {
	it := itemOf(raw)
	switch {
	case it.ToolUseID != "":
		at, ok := s.uses[it.ToolUseID]
		return ok && at <= i
	case it.ID != "":
		at, ok := s.results[it.ID]
		return ok && at >= i || !ok && i == s.running
	}
	return true
}
