package effects

import (
	"github.com/cairn-agents/cairn"
)

// HasTool reports whether an agent has or is given a tool of some name.
func (fx *Effects) HasTool(a *cairn.Agent, name string) bool {
	return fx.tool(a, name) != nil
}

// HasTool implements cairn.ToolEnv.
func (s *scope) HasTool(name string) bool {
	a, err := s.fx.agent(s.live.row.Agent)
	return err == nil && s.fx.HasTool(a, name)
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
