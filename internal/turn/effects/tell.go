package effects

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// tells reports whether hooks are to hear of a run's end or suspension.
func tells(hooks user.Hooks, run *cairn.Run) bool {
	return hooks.Any(func(h *cairn.Hooks) bool { return endHook(h, run) != nil })
}

// endHook returns the hook for the way in which a run came to its end, or nil.
func endHook(h *cairn.Hooks, run *cairn.Run) user.Hook {
	var fn func(context.Context, *cairn.Step, *cairn.Result)
	switch {
	case run.Status == cairn.RunCompleted:
		fn = h.RunComplete
	case run.Status == cairn.RunFailed:
		fn = h.RunFail
	case run.Status == cairn.RunInterrupted:
		fn = h.RunInterrupt
	case run.Status.Suspends():
		fn = h.RunSuspended
	}
	if fn == nil {
		return nil
	}
	result := run.Result()
	return func(ctx context.Context, step *cairn.Step) error { fn(ctx, step, result); return nil }
}

// tellEnd tells the hooks of a run's end, which was committed.
func (fx *Effects) tellEnd(ctx context.Context, l *session.Live, run *cairn.Run) {
	s := fx.newScope(l, run.Steps).Freeze("after the run has ended")
	s.Observe(ctx, "run's end", func(h *cairn.Hooks) user.Hook { return endHook(h, run) })
}

// tellClosed calls the hooks for a run that was ended without being driven to its end, and for the results with which
// its calls were closed. It is committed already, so what goes wrong is only logged. The agent may be unknown here.
func (fx *Effects) tellClosed(ctx context.Context, row *cairn.Session, run *cairn.Run, results []cairn.Message) {
	a, err := fx.agent(row.Agent)
	if err != nil || !user.HooksOf(fx.Hooks, a, nil).Any(func(h *cairn.Hooks) bool {
		return endHook(h, run) != nil || len(results) > 0 && (h.OnMessage != nil || h.AfterTool != nil)
	}) {
		return
	}
	from := row.MessageCount
	if len(results) > 0 {
		from = 0
	}
	l, err := fx.over(ctx, row, run.ID, from)
	if err == nil {
		defer l.Emit.Close()
		fx.runs(l, a, nil)
		fx.announceClosed(ctx, a, l, results)
		fx.tellEnd(ctx, l, l.Run)
		err = l.Emit.Flush(ctx)
	}
	if err != nil {
		fx.Logger.Warn("hooks have not heard of the end of a run", "session", row.ID, "run", run.ID, "error", err)
	}
}

// tellBefore calls the hooks for what the beginning of a run put an end to: a run whose process had died, and pending
// calls.
func (fx *Effects) tellBefore(ctx, work context.Context, a *cairn.Agent, l *session.Live) error {
	if id := l.Run.Abandoned; id != "" && l.Hooks().Any(func(h *cairn.Hooks) bool { return h.RunInterrupt != nil }) {
		run, err := store.FindRun(ctx, fx.Store, l.Row.ID, id)
		if err != nil {
			return err
		}
		fx.tellClosed(ctx, l.Row, run, nil)
	}
	if i := l.Run.FirstMessage; i < len(l.Messages) && l.Messages[i].Origin == cairn.OriginWithdrawn {
		fx.announceClosed(work, a, l, l.Messages[i:i+1])
	}
	return nil
}

// announceClosed calls OnMessage and AfterTool for the results with which calls were closed.
func (fx *Effects) announceClosed(ctx context.Context, a *cairn.Agent, l *session.Live, results []cairn.Message) {
	s := fx.newScope(l, l.Run.Steps).Freeze("after the run has ended")
	for i := range results {
		for _, r := range results[i].ToolResults() {
			fx.announceResult(ctx, l, a, &step.Call{Use: transcript.Use(l.Messages, r), Result: &step.Result{Result: r}}, results[i].ID, s)
		}
	}
}

// over reads a session whose run has ended, for its hooks, with its messages from an index on. The caller closes the
// emitter.
func (fx *Effects) over(ctx context.Context, row *cairn.Session, runID string, from int) (*session.Live, error) {
	snap, err := fx.Store.Read(ctx, row.ID, store.ToDrive(from))
	if err != nil {
		return nil, err
	}
	l, err := session.New(snap, fx.Now())
	if err != nil {
		return nil, err
	}
	if l.Run, err = store.FindRun(ctx, fx.Store, row.ID, runID); err != nil {
		return nil, err
	}
	_, last, err := fx.Log.Bounds(ctx, row.Log())
	if err != nil {
		return nil, err
	}
	l.Emit = fx.log.Emitter(ctx, l.Row, runID, last)
	return l, nil
}

// tell tells the hooks of the end of a run whose effects run apart. If it is carried out again they hear of it again:
// by then nobody holds the session's lease, under which it could be remembered.
func (fx *Effects) tell(ctx context.Context, at turn.Position, givenUp *cairn.Error) error {
	a, err := fx.agent(at.Agent)
	if err != nil {
		return err
	}
	row, err := store.Load(ctx, fx.Store, at.SessionID)
	if errors.Is(err, cairn.ErrNotFound) { // it was deleted since
		return nil
	}
	if err != nil {
		return err
	}
	l, err := fx.over(ctx, row, at.RunID, row.MessageCount)
	if err != nil {
		return err
	}
	defer l.Emit.Close()
	fx.runs(l, a, hooksOf(ctx))
	if givenUp != nil {
		fx.Logger.Warn("hooks have not heard of the end of a run", "session", row.ID, "run", at.RunID, "error", givenUp)
	} else {
		fx.tellEnd(ctx, l, l.Run)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if fx.Ended != nil {
		fx.Ended(ctx, l.Run, l.Row)
	}
	return l.Emit.Flush(ctx)
}
