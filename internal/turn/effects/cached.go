package effects

import "github.com/cairn-agents/cairn"

// cached returns the result from the tool's cache, or else calls the tool. A result to be cached enters the cache when
// the step ends. Before that, other processes could not see it, and this process would have to remove it again.
func (t *trial) cached() *cairn.ToolResult {
	if t.c.Tool.Cache == nil {
		return t.invoke()
	}
	if result := t.remembered(); result != nil {
		return result
	}
	before := t.s.Effects()
	result := t.invoke()
	if result != nil && t.s.Effects() == before {
		t.made = t.l.Now(t.fx.Now())
	}
	return result
}

// remembered returns the result from the tool's cache; nil if it has none.
func (t *trial) remembered() *cairn.ToolResult {
	result := t.l.Remembered(t.c, t.l.Now(t.fx.Now()))
	t.hit = result != nil
	return result
}
