package effects

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// offers asks the agent's toolsets concurrently what they offer the turn that begins, and returns the messages that pin
// it. The messages belong to the reply of the turn's first step, so a process that continues the step has the same
// tools.
func (fx *Effects) offers(ctx context.Context, a *cairn.Agent, l *session.Live) []cairn.Message {
	if l.Step.Number != 1 || l.Run.PreviousRunID != "" {
		return nil
	}
	list := make([]*cairn.Offer, len(a.Toolsets))
	var all sync.WaitGroup
	for i, ts := range a.Toolsets {
		all.Go(func() { list[i] = fx.offer(ctx, l, ts) })
	}
	all.Wait()
	var messages []cairn.Message
	for i, o := range list {
		if o == nil {
			continue
		}
		m := cairn.Context(o.Note)
		m.Pinned = map[string]json.RawMessage{a.Toolsets[i].Name(): o.Pinned}
		messages = append(messages, m)
		_, problems := define.Offered(a, l.Extra, m.Pinned)
		for _, err := range problems {
			fx.Logger.Warn("a tool is left out", "session", l.Row.ID, "agent", a.Name, "error", err)
		}
	}
	return messages
}

// offer asks one toolset. If it fails, the session keeps the tools that it has.
func (fx *Effects) offer(ctx context.Context, l *session.Live, ts cairn.Toolset) *cairn.Offer {
	u := user.Code{What: "the toolset", Err: cairn.CodeHook, Limit: fx.HookTimeout}
	pinned := l.Index.Pinned()[ts.Name()]
	o, err := user.Lent(ctx, fx.Scope(l, l.Step.Number).Freeze("by a toolset"), u, func(ctx context.Context, step *cairn.Step) (*cairn.Offer, error) {
		return ts.Offer(ctx, step, pinned)
	})
	if err == nil && o != nil {
		err = o.Validate()
	}
	if err != nil {
		fx.Logger.Warn("a toolset offers nothing", "session", l.Row.ID, "agent", l.Agent.Name, "toolset", ts.Name(), "error", err)
		return nil
	}
	return o
}
