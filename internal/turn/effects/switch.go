package effects

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// HasTool reports whether an agent has or is given a tool of some name.
func (fx *Effects) HasTool(a *cairn.Agent, name string) bool {
	return fx.tool(a, name) != nil
}

// HasTool implements cairn.ToolEnv.
func (s *scope) HasTool(name string) bool {
	a, err := s.emit.fx.agent(s.emit.ids.agent)
	return err == nil && s.emit.fx.HasTool(a, name)
}

// unforce takes back that the model must call a tool that is off.
func (fx *Effects) unforce(l *live, req *cairn.Request) {
	if l.index.Off(req.Choice.Tool) {
		fx.Logger.Warn("the tool that the model is to call is off; it may choose", "session", l.row.ID, "tool", req.Choice.Tool)
		req.Choice = cairn.ToolChoice{}
	}
}

// refuse makes the step's calls of tools that the model had been told are off end in an error.
func (l *live) refuse(st *step) {
	for _, c := range st.calls {
		if l.index.Off(c.use.Tool) {
			c.tool, c.off = nil, true
		}
	}
}

// refused lists the step's calls of tools that are off.
func (s *step) refused() []string {
	var list []string
	for _, c := range s.calls {
		if c.off {
			list = append(list, c.use.CallID)
		}
	}
	return list
}

// restoreRefused marks the calls that were staged as refused: what was switched since is for later calls.
func (s *step) restoreRefused(list []string) {
	for _, c := range s.calls {
		if slices.Contains(list, c.use.CallID) {
			c.tool, c.off = nil, true
		}
	}
}
