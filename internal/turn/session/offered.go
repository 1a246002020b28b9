package session

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// offered are the tools that toolsets of the agent offer, with what they were made of.
type offered struct {
	from  map[string]json.RawMessage
	tools []cairn.Tool
}

// Offered returns the tools that the agent's toolsets offer, as the transcript has them pinned, and after it messages that
// were put before the model for the step under way.
func (l *Live) Offered(context []cairn.Message) []cairn.Tool {
	if len(l.Agent.Toolsets) == 0 {
		return nil
	}
	pinned := l.pinned(context)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !maps.EqualFunc(pinned, l.offered.from, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		tools, _ := define.Offered(l.Agent, l.Given, pinned) // logged when it was pinned
		l.offered = offered{from: pinned, tools: tools}
	}
	return l.offered.tools
}

// pinned returns what the toolsets offer.
func (l *Live) pinned(context []cairn.Message) map[string]json.RawMessage {
	pinned, own := l.Index.Pinned(), false
	for i := range context {
		if len(context[i].Pinned) == 0 {
			continue
		}
		if !own {
			pinned, own = maps.Clone(pinned), true
		}
		if pinned == nil {
			pinned = map[string]json.RawMessage{}
		}
		maps.Copy(pinned, context[i].Pinned)
	}
	return pinned
}
