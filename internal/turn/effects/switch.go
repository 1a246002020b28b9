package effects

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// unforce removes the demand to call a tool that is off from a request.
func (fx *Effects) unforce(l *session.Live, req *cairn.Request) {
	if l.Index().Off(req.Choice.Tool) {
		fx.Logger.Warn("forced tool is switched off; the model may choose", "session", l.Row.ID, "tool", req.Choice.Tool)
		req.Choice = cairn.ToolChoice{}
	}
}
