package effects

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// cached returns the result that the tool's cache has of the call, or else that of the tool. What is to be kept of it goes into
// the cache with the step's end: until then other processes could not know of it, and this one would have to forget it.
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
