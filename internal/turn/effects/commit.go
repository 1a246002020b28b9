package effects

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// commit ends the step. It gathers what the step produced, decides whether the run continues, and writes everything in
// one commit.
func (fx *Effects) commit(ctx context.Context, l *session.Live, a *cairn.Agent, at turn.Position, _ *cairn.Error) (turn.Committed, error) {
	st := l.Step
	if st == nil || st.Number != at.Step {
		if l.Row.Step >= at.Step { // a repeated effect, whose first answer was lost
			return turn.Committed{}, nil
		}
		return turn.Committed{}, cairn.Errorf(cairn.ErrInternal, "step %d is not under way", at.Step)
	}
	out, err := fx.conclude(ctx, a, l, st)
	if err != nil {
		return turn.Committed{}, err
	}
	whole := fx.draining()
	if out.End == nil && !st.Carried && st.Budget == nil && !whole && !define.Durability(a).Due(l.SinceCommit(out.At), out.Checkpoint || out.Summarises()) && !l.Effectful() && !fx.joins(ctx, l) {
		return turn.Committed{}, fx.later(ctx, l, out)
	}
	run, opened, finish, err := fx.write(ctx, l, out)
	if unkeepable(err) {
		run, finish, err = fx.failUnstorable(ctx, l, err)
	}
	switch {
	case err != nil:
		return turn.Committed{}, err
	case run == nil:
		return turn.Committed{Whole: whole}, nil
	}
	defer finish(ctx)
	return fx.ended(ctx, l, run, opened), nil
}

// ended parks the session of a run that is over, or suspended until the opened calls are answered. The run's end is
// committed, and nothing here can change it. The result reports whether a separate effect calls the hooks.
func (fx *Effects) ended(ctx context.Context, l *session.Live, run *cairn.Run, opened []cairn.PendingCall) turn.Committed {
	run.EndedAt = l.Row.UpdatedAt // as the store has it
	fx.LogEnd(l.Row, run, opened)
	out := turn.Committed{Committed: host.Committed{Ended: true, Status: run.Status}}
	if l.Hooks().WantEnd(run) {
		if out.Notify = fx.Remote(); !fx.Remote() {
			fx.RunEnded(ctx, l, run)
		}
	}
	l.Emit.Close()
	if !out.Notify {
		out.Run, out.Session = run, l.Row
	}
	if run.Status == cairn.RunSuspended || l.Spoiled() { // what follows depends on the answers of others
		fx.Cache.Drop(l)
	} else {
		fx.Cache.Park(l)
	}
	return out
}
