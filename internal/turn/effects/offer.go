package effects

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// offers asks the agent's toolsets concurrently what they offer the turn that begins, and returns the messages that pin
// it. The messages belong to the reply of the turn's first step, so a process that continues the step has the same
// tools. The error is that of a required toolset without which the turn must not run.
func (fx *Effects) offers(ctx context.Context, a *cairn.Agent, l *session.Live) ([]cairn.Message, error) {
	if l.Step.Number != 1 || l.Run.PreviousRunID != "" {
		return nil, nil
	}
	toolsets := define.Toolsets(a)
	list, failed := make([]*cairn.Offer, len(toolsets)), make([]error, len(toolsets))
	var all sync.WaitGroup
	for i, ts := range toolsets {
		all.Go(func() { list[i], failed[i] = fx.offer(ctx, l, ts) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i, err := range failed {
		if err == nil {
			continue
		}
		if err := fx.without(l, toolsets[i], err); err != nil {
			return nil, err
		}
	}
	var messages []cairn.Message
	for i, o := range list {
		if o == nil {
			continue
		}
		m := cairn.Context(o.Note)
		m.Pinned = map[string]json.RawMessage{toolsets[i].Name(): o.Pinned}
		if o.Tainted {
			m.Trust = cairn.TrustTainted
		}
		messages = append(messages, m)
		for _, err := range l.LeftOut(m.Pinned) {
			fx.Logger.Warn("tool omitted", "session", l.Row.ID, "agent", a.Name, "error", err)
		}
	}
	return messages, nil
}

// without decides about a turn whose toolset has failed. The session keeps the tools that it has; if it has none, the
// turn runs without, unless the toolset is required.
func (fx *Effects) without(l *session.Live, ts cairn.Toolset, err error) error {
	if _, has := l.Index().Pinned()[ts.Name()]; has {
		fx.Logger.Warn("toolset failed; the session keeps its tools", "session", l.Row.ID, "agent", l.Agent().Name, "toolset", ts.Name(), "error", err)
		return nil
	}
	if r, ok := ts.(cairn.RequiredToolset); ok && r.Required() {
		return cairn.Errorf(cairn.ErrUnavailable, "required toolset %q failed: %w", ts.Name(), err)
	}
	fx.Logger.Warn("toolset failed; the turn runs without its tools", "session", l.Row.ID, "agent", l.Agent().Name, "toolset", ts.Name(), "error", err)
	l.Emit.Event(journal.ToolsMissing(ts.Name(), err))
	return nil
}

// offer asks one toolset.
func (fx *Effects) offer(ctx context.Context, l *session.Live, ts cairn.Toolset) (*cairn.Offer, error) {
	u := user.Code{What: "the toolset", Err: cairn.ErrHook, Limit: fx.HookTimeout}
	pinned := l.Index().Pinned()[ts.Name()]
	o, err := user.Lent(ctx, fx.Scope(l, l.Step.Number).Freeze("by a toolset"), u, func(ctx context.Context, step *cairn.Step) (*cairn.Offer, error) {
		return ts.Offer(ctx, step, pinned)
	})
	if err == nil && o != nil {
		err = o.Validate()
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}
