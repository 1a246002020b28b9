package effects

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// judge calls the user code that has a say in how the step ends, after its tools and before its commit: OnMessage and
// AfterTool, the stop condition, the guard. It does nothing for a step that was judged already. If abandoned is set, the
// host has abandoned the effect: judge records abandoned as the step's failure without calling user code.
func (fx *Effects) judge(ctx context.Context, l *session.Live, a *cairn.Agent, at turn.Position, abandoned *cairn.Error) (turn.Judged, error) {
	st := l.Step
	switch {
	case st == nil || st.Number != at.Step:
		if l.Row.Step >= at.Step {
			return turn.Judged{}, nil
		}
		return turn.Judged{}, cairn.Errorf(cairn.ErrInternal, "step %d is not under way", at.Step)
	case st.Judged != nil:
		return turn.Judged{}, nil
	}
	out, err := fx.gather(ctx, a, l, st)
	if err != nil {
		return turn.Judged{}, err
	}
	work, key := l.Work(ctx)
	defer l.Release(key)
	j := &step.Judgement{Failed: abandoned}
	after := fx.Scope(l, st.Number)
	if abandoned == nil {
		fx.announce(work, a, l, st, out, after)
	}
	j.Writes = after.End()
	_ = l.Fold(out, &j.Writes) // logged
	if abandoned == nil {
		fx.decide(work, a, l, st, out, j)
	}
	// An ended ctx is no verdict: the process that continues the step judges it.
	if ctx.Err() != nil {
		return turn.Judged{}, context.Cause(ctx)
	}
	l.Judges(out)
	return turn.Judged{}, fx.put(ctx, l, j, false)
}

// judges reports whether user code has a say in how the step ends.
func (fx *Effects) judges(l *session.Live, a *cairn.Agent, st *step.Step) bool {
	if st.Message() == nil || st.Failed() != nil {
		return false
	}
	decides := a.StopWhen != nil
	if len(st.Calls) == 0 && !st.Carried {
		decides = a.Guard != nil && a.Output == nil
	}
	return decides || l.Hooks().Any(func(h *cairn.Hooks) bool {
		return h.OnMessage != nil || h.AfterTool != nil || h.AfterSubAgent != nil && slices.ContainsFunc(st.Calls, (*step.Call).Consults)
	})
}

// announce calls OnMessage for the reply, then OnMessage and AfterTool for each result, in call order. The hooks'
// writes are part of the step.
func (fx *Effects) announce(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step, out *session.Outcome, after *user.Scope) {
	if out.Reply == nil {
		return
	}
	if !st.Carried {
		after.Message(ctx, out.Reply)
	}
	if out.Results == nil {
		return
	}
	for i := range out.Results.Parts {
		c := st.Call(out.Results.Parts[i].Result.CallID)
		if c.Result.Closed && c.Result.Consulted != nil {
			after.AfterSubAgent(ctx, c, c.Result.Result, c.Result.Consulted.Agent)
		}
		after.Result(ctx, c, out.Results.ID)
	}
}

// decide asks the stop condition whether the turn is to end, and the guard about what would end it. A call that ended
// the turn was judged when it ran.
func (fx *Effects) decide(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step, out *session.Outcome, j *step.Judgement) {
	if ctx.Err() != nil || out.Final != nil || st.Failed() != nil || out.Waits {
		return
	}
	done := cairn.Completion{Reason: replyReason(st.Message())}
	switch {
	case out.Answers(st):
		if a.Output != nil { // the output is still missing
			return
		}
	case !fx.stopWhen(ctx, a, l, st):
		return
	case a.Output != nil:
		j.Owes = true
		return
	default:
		done.Reason = cairn.ReasonStopCondition
	}
	if m := st.Message(); m != nil {
		done.Text = m.Text()
	}
	v, failed := fx.verdict(ctx, a, l, st.Number, done)
	switch {
	case failed != nil && ctx.Err() != nil: // stopped before there was a verdict
	case failed != nil:
		j.Failed = failed
	case v.Feedback != "":
		j.Feedback = v.Feedback
	default:
		v.apply(&done)
		j.Completion = &done
	}
}

// stopWhen asks the agent's stop condition. If the condition fails, it counts as false.
func (fx *Effects) stopWhen(ctx context.Context, a *cairn.Agent, l *session.Live, st *step.Step) bool {
	if a.StopWhen == nil {
		return false
	}
	u := user.Code{What: "the stop condition", Err: cairn.ErrHook, Limit: fx.HookTimeout}
	stop, err := user.Lent(ctx, fx.Scope(l, st.Number).Freeze("by a stop condition"), u, func(ctx context.Context, step *cairn.Step) (bool, error) {
		return a.StopWhen(ctx, step), nil
	})
	if err != nil {
		fx.Logger.Warn("stop condition failed; treated as not met", "session", l.Row.ID, "agent", a.Name, "error", err)
	}
	return stop && err == nil
}
