package turn

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// tells reports whether hooks are to hear of a run's end or suspension.
func (fx *Effects) tells(l *live, a *cairn.Agent, run *cairn.Run) bool {
	return fx.anyHook(l, a, func(h *cairn.Hooks) bool { return endHook(h, run) != nil })
}

// endHook returns the hook for the way in which a run came to its end, or nil.
func endHook(h *cairn.Hooks, run *cairn.Run) hook {
	var fn func(context.Context, *cairn.Step, *cairn.Result)
	switch {
	case run.Status == cairn.RunCompleted:
		fn = h.RunComplete
	case run.Status == cairn.RunFailed:
		fn = h.RunFail
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
func (fx *Effects) tellEnd(ctx context.Context, a *cairn.Agent, l *live, run *cairn.Run) {
	s := fx.frozenScope(l, run.Steps, "after the run has ended")
	fx.observe(ctx, l, a, "run's end", s, func(h *cairn.Hooks) hook { return endHook(h, run) })
}

// tell tells the hooks of the end of a run whose effects run apart. If it is carried out again they hear of it again:
// by then nobody holds the session's lease, under which it could be remembered.
func (fx *Effects) tell(ctx context.Context, at Position, givenUp *cairn.Error) error {
	a, err := fx.agent(at.Agent)
	if err != nil {
		return err
	}
	row, err := fx.Store.Load(ctx, at.SessionID)
	if errors.Is(err, cairn.ErrNotFound) { // it was deleted since
		return nil
	}
	if err != nil {
		return err
	}
	snap, err := fx.Store.Snapshot(ctx, row.ID, row.MessageCount)
	if err != nil {
		return err
	}
	l, err := fx.newLive(snap)
	if err != nil {
		return err
	}
	if l.run, err = fx.Store.Run(ctx, row.ID, at.RunID); err != nil {
		return err
	}
	_, last, err := fx.Log.Bounds(ctx, row.RootID)
	if err != nil {
		return err
	}
	l.hooks, l.emit = hooksOf(ctx), fx.newEmitter(ctx, l.row, at.RunID, last)
	defer l.emit.close()
	if givenUp != nil {
		fx.Logger.Warn("hooks have not heard of the end of a run", "session", row.ID, "run", at.RunID, "error", givenUp)
	} else {
		fx.tellEnd(ctx, a, l, l.run)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if fx.Ended != nil {
		fx.Ended(ctx, l.run, l.row)
	}
	return l.emit.flush(ctx)
}
