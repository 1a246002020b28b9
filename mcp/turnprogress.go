package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// turnProgress reports the progress of a turn to the client that has called an agent. It says which steps and calls
// begin and end, of the agent and of those that it consults, but nothing of what they say.
type turnProgress struct {
	client *sdk.ServerSession
	token  any
	n      int // notifications so far
	pace   pace
}

// progressOf returns the progress of a request's turn; nil if the client has not asked for it.
func progressOf(req *sdk.CallToolRequest) *turnProgress {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return &turnProgress{client: req.Session, token: token}
}

// follow reports a run until it has ended or is suspended, or ctx ends. A run whose events cannot be read, or whose
// client cannot be reached, is not reported further.
func (p *turnProgress) follow(ctx context.Context, run *engine.Run) {
	if p == nil {
		return
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			return
		}
		line := lineOf(&ev)
		if line == "" || !p.pace.due() {
			continue
		}
		p.n++
		if err := p.client.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(p.n), Message: line}); err != nil {
			return
		}
	}
}

// lineOf returns what a client reads of an event; "" for nothing.
func lineOf(ev *cairn.Event) string {
	agent, tool := clean(ev.Agent, maxName), clean(ev.Tool, maxName)
	switch ev.Type {
	case cairn.EventStepStart:
		return fmt.Sprintf("%s: step %d", agent, ev.Step)
	case cairn.EventToolStart:
		return fmt.Sprintf("%s: %s called", agent, tool)
	case cairn.EventToolEnd:
		if ev.IsError {
			return fmt.Sprintf("%s: %s failed", agent, tool)
		}
		return fmt.Sprintf("%s: %s completed", agent, tool)
	}
	return ""
}
