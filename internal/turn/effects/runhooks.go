package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// open calls the hooks of a run's beginning, as part of the first effect of its first step. Their writes are part of
// that step.
func (fx *Effects) open(ctx context.Context, a *cairn.Agent, l *session.Live) error {
	l.Opens()
	work, key := l.Work(ctx)
	defer l.Release(key)
	if i := l.Run.FirstMessage - l.First(); i >= 0 && i < len(l.Messages) && l.Messages[i].Origin == cairn.OriginWithdrawn {
		fx.AnnounceClosed(work, l, l.Messages[i:i+1]) // pending calls that the run's beginning closed
	}
	previous := l.Run.PreviousRunID
	pick := func(h *cairn.Hooks) user.Hook {
		switch {
		case previous != "" && h.RunResumed != nil:
			return func(ctx context.Context, step *cairn.Step) error { h.RunResumed(ctx, step, previous); return nil }
		case previous == "" && h.RunStart != nil:
			return func(ctx context.Context, step *cairn.Step) error { h.RunStart(ctx, step); return nil }
		}
		return nil
	}
	if !l.Hooks().Any(func(h *cairn.Hooks) bool { return pick(h) != nil }) {
		return nil
	}
	opening := fx.Scope(l, 0)
	opening.Observe(work, "run's", pick)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fx.put(ctx, l, &step.Opening{Writes: opening.End()}, false)
}

// notify calls the hooks of the end of a run whose effects are remote. A repeated effect calls them again: no process
// holds the session's lease any more, under which the first call could be recorded.
func (fx *Effects) notify(ctx context.Context, at turn.Position, abandoned *cairn.Error) (notified turn.Notified, err error) {
	a, err := fx.Agent(at.Agent, at.AgentVersion)
	if err != nil {
		return notified, err
	}
	row, err := driver.Load(ctx, fx.Store, at.SessionID)
	if errors.Is(err, cairn.ErrNotFound) { // it was deleted since
		return notified, nil
	}
	if err != nil {
		return notified, err
	}
	l, err := fx.Over(ctx, row, at.RunID, row.MessageCount)
	if err != nil {
		return notified, err
	}
	defer l.Emit.Close()
	fx.SetAgent(l, a, hooksOf(ctx))
	if abandoned != nil {
		fx.Logger.Warn("hooks were not notified of the end of a run", "session", row.ID, "run", at.RunID, "error", abandoned)
	} else {
		fx.RunEnded(ctx, l, l.Run)
	}
	if ctx.Err() != nil {
		return notified, context.Cause(ctx)
	}
	notified.Run, notified.Session = l.Run, l.Row
	return notified, l.Emit.Flush(ctx)
}

// hooksKey is the context key of the hooks of the call that began a run.
type hooksKey struct{}

// WithHooks returns a context for the effects of a run that was begun with hooks h, which may be nil.
func WithHooks(ctx context.Context, h *cairn.Hooks) context.Context {
	return context.WithValue(ctx, hooksKey{}, h)
}

func hooksOf(ctx context.Context) *cairn.Hooks {
	h, _ := ctx.Value(hooksKey{}).(*cairn.Hooks)
	return h
}
