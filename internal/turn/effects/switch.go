package effects

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// HasTool reports whether an agent has or is given a tool of some name.
func (fx *Effects) HasTool(a *cairn.Agent, name string) bool {
	return session.Named(name, a.Tools, fx.companionTools(a))
}

// unforce takes back that the model must call a tool that is off.
func (fx *Effects) unforce(l *session.Live, req *cairn.Request) {
	if l.Index.Off(req.Choice.Tool) {
		fx.Logger.Warn("the tool that the model is to call is off; it may choose", "session", l.Row.ID, "tool", req.Choice.Tool)
		req.Choice = cairn.ToolChoice{}
	}
}
