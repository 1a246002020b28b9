package effects

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// HasTool reports whether an agent has or is given a tool of some name.
func (fx *Effects) HasTool(a *cairn.Agent, name string) bool {
	return named(name, a.Tools, fx.companionTools(a))
}

// unforce takes back that the model must call a tool that is off.
func (fx *Effects) unforce(l *live, req *cairn.Request) {
	if l.index.Off(req.Choice.Tool) {
		fx.Logger.Warn("the tool that the model is to call is off; it may choose", "session", l.row.ID, "tool", req.Choice.Tool)
		req.Choice = cairn.ToolChoice{}
	}
}

// refused lists the calls of a reply to tools that the model had been told are off. What is switched later is for later calls.
func (l *live) refused(m *cairn.Message) (list []string) {
	if m == nil {
		return nil
	}
	for i := range m.Parts {
		if use := m.Parts[i].ToolUse; m.Parts[i].Type == cairn.PartToolUse && l.index.Off(use.Tool) {
			list = append(list, use.CallID)
		}
	}
	return list
}

// named reports whether there is a tool of some name.
func named(name string, lists ...[]cairn.Tool) bool {
	return slices.ContainsFunc(lists, func(list []cairn.Tool) bool {
		return slices.ContainsFunc(list, func(t cairn.Tool) bool { return t.Name() == name })
	})
}
