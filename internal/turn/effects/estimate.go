package effects

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// before estimates how many tokens a request has ahead of its messages.
func before(req *cairn.Request) int64 {
	n := len(req.System)
	for i := range req.Tools {
		n += len(req.Tools[i].Name) + len(req.Tools[i].Description) + len(req.Tools[i].Schema)
	}
	return transcript.TextTokens(n)
}

// estimate returns what the model call of a request may use.
func (fx *Effects) estimate(a *cairn.Agent, l *session.Live, req *cairn.Request) budget.Amount {
	model, _ := define.Model(a, l.Run.Model)
	counted, estimated := transcript.Measured(req.Messages, before(req))
	u := cairn.Usage{InputTokens: counted + estimated, OutputTokens: int64(req.Settings.MaxOutputTokens), ModelCalls: 1}
	if u.OutputTokens == 0 {
		u.OutputTokens = cairn.BudgetOutput
	}
	if f := fx.figuresOf(model.Info()); f.found && !f.NoPrice {
		u.CostNanos = f.Cost(u)
	}
	return budget.Of(u)
}
