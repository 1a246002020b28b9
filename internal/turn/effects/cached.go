package effects

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// cached returns the result from the tool's cache, or else calls the tool. A result to be cached enters the cache when
// the step ends. Before that, other processes could not see it, and this process would have to remove it again.
func (t *trial) cached() *cairn.ToolResult {
	if t.c.Tool.Cache == nil {
		return t.invoke()
	}
	key, ok := session.ResultKey(t.c)
	if !ok {
		return t.invoke()
	}
	if e, ok := t.l.Results.Get(key, t.l.Now(t.fx.Now())); ok {
		t.hit = true
		return &cairn.ToolResult{CallID: t.c.Use.CallID, Tool: t.c.Use.Tool, Output: e.Output}
	}
	before := t.s.Effects()
	result := t.invoke()
	if result != nil && t.s.Effects() == before {
		t.made = t.l.Now(t.fx.Now())
	}
	return result
}
