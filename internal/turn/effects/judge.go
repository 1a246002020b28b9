package effects

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
)

// judgement is what user code made of a step's end: what hooks wrote, and what a stop condition and a guard decided.
type judgement struct {
	Writes stagedWrites `json:"writes"`
	// Done says that the turn ends, for which reason and with what; Failed is why the run fails.
	Done   bool            `json:"done,omitempty"`
	Reason cairn.Reason    `json:"reason,omitempty"`
	Text   string          `json:"text,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Failed *cairn.Error    `json:"failed,omitempty"`
	// Feedback sends the model back to work.
	Feedback string `json:"feedback,omitempty"`
	// Owes says that the turn would end, but for the typed output that is still owed.
	Owes bool `json:"owes,omitempty"`
	// By names the writer of the try that brought it.
	By string `json:"by,omitempty"`
}

// Judge calls the user code that has a say in how the step ends, after its tools and before its commit: OnMessage and
// AfterTool, the stop condition, the guard. A step that was judged already is left alone.
func (fx *Effects) Judge(ctx context.Context, at turn.Position) (turn.Judged, error) {
	l, a, err := fx.hold(at)
	if err != nil {
		return turn.Judged{}, err
	}
	return fx.judge(ctx, l, a, at, nil)
}

// judge calls no user code if the host has given that up.
func (fx *Effects) judge(ctx context.Context, l *live, a *cairn.Agent, at turn.Position, givenUp *cairn.Error) (turn.Judged, error) {
	st := l.step
	switch {
	case st == nil || st.number != at.Step:
		if l.row.Step >= at.Step {
			return turn.Judged{}, nil
		}
		return turn.Judged{}, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", at.Step)
	case st.judged != nil:
		return turn.Judged{}, nil
	}
	out, err := fx.gather(ctx, l, st)
	if err != nil {
		return turn.Judged{}, err
	}
	work, key := l.work(ctx)
	defer l.release(key)
	j := &judgement{By: l.emit.writer.ID}
	after := fx.newScope(l, st.number)
	if j.Failed = givenUp; givenUp == nil {
		fx.announce(work, a, l, st, out, after)
	}
	after.end()
	_ = fx.fold(l, out, after) // logged
	j.Writes = after.writes()
	if givenUp == nil {
		fx.decide(work, a, l, st, out, j)
	}
	// The caller going away is no verdict: whoever goes on with the step judges it.
	if ctx.Err() != nil {
		return turn.Judged{}, context.Cause(ctx)
	}
	st.judged = j
	if !fx.Apart {
		st.out = out
		return turn.Judged{}, nil
	}
	return turn.Judged{}, fx.stage(ctx, l, st.id, l.key(judgedKey, false), j)
}

// judges reports whether user code has a say in how the step ends.
func (fx *Effects) judges(l *live, a *cairn.Agent, st *step) bool {
	if st.reply == nil || st.failed != nil {
		return false
	}
	decides := a.StopWhen != nil
	if len(st.calls) == 0 && !st.told {
		decides = a.Guard != nil && a.Output == nil
	}
	return decides || fx.anyHook(l, a, func(h *cairn.Hooks) bool {
		return h.OnMessage != nil || h.AfterTool != nil || h.AfterSubAgent != nil && slices.ContainsFunc(st.calls, (*call).consults)
	})
}

// announce calls OnMessage for the reply, then OnMessage and AfterTool for each result, in call order. What the hooks
// write is part of the step.
func (fx *Effects) announce(ctx context.Context, a *cairn.Agent, l *live, st *step, out *outcome, after *scope) {
	if out.reply == nil {
		return
	}
	if !st.told {
		fx.onMessage(ctx, l, a, out.reply, after)
	}
	if out.results == nil {
		return
	}
	for i := range out.results.Parts {
		c := st.call(out.results.Parts[i].Result.CallID)
		if c.left {
			fx.afterSubAgent(ctx, l, a, c, c.result, after)
		}
		fx.announceResult(ctx, l, a, c, out.results.ID, after)
	}
}

// announceResult calls OnMessage and AfterTool for the result of a call, which stands in the message of an id.
func (fx *Effects) announceResult(ctx context.Context, l *live, a *cairn.Agent, c *call, message string, s *scope) {
	part := cairn.Part{Type: cairn.PartToolResult, Result: c.result}
	fx.onMessage(ctx, l, a, &cairn.Message{ID: message, Role: cairn.RoleTool, Parts: []cairn.Part{part}}, s)
	fx.observe(ctx, l, a, "AfterTool", s, func(h *cairn.Hooks) hook {
		if h.AfterTool == nil {
			return nil
		}
		shown := *c.result
		return c.hook(func(ctx context.Context, call *cairn.Call) error { h.AfterTool(ctx, call, &shown); return nil })
	})
}

func (fx *Effects) onMessage(ctx context.Context, l *live, a *cairn.Agent, m *cairn.Message, s *scope) {
	fx.observe(ctx, l, a, "OnMessage", s, func(h *cairn.Hooks) hook {
		if h.OnMessage == nil {
			return nil
		}
		shown := shownMessage(m)
		return func(ctx context.Context, step *cairn.Step) error { h.OnMessage(ctx, step, shown); return nil }
	})
}

// decide asks the stop condition whether the turn is to end, and the guard about what would end it. A call that ended
// the turn was judged when it ran.
func (fx *Effects) decide(ctx context.Context, a *cairn.Agent, l *live, st *step, out *outcome, j *judgement) {
	if ctx.Err() != nil || out.final != nil || st.failed != nil || out.waits {
		return
	}
	done := cairn.Completion{Reason: cairn.ReasonReply}
	switch {
	case out.answers(st):
		if a.Output != nil { // which is still owed
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
	if st.reply != nil {
		done.Text = st.reply.Text()
	}
	v, failed := fx.verdict(ctx, a, l, st.number, done)
	switch {
	case failed != nil && ctx.Err() != nil: // stopped before there was one
	case failed != nil:
		j.Failed = failed
	case v.Feedback != "":
		j.Feedback = v.Feedback
	default:
		v.apply(&done)
		j.Done, j.Reason, j.Text, j.Output = true, done.Reason, done.Text, done.Output
	}
}

// stopWhen asks the agent's stop condition. One that fails does not hold.
func (fx *Effects) stopWhen(ctx context.Context, a *cairn.Agent, l *live, st *step) bool {
	if a.StopWhen == nil {
		return false
	}
	u := userCall{what: "the stop condition", code: cairn.CodeHook, limit: fx.HookTimeout}
	stop, err := lent(ctx, fx, l, u, fx.frozenScope(l, st.number, "by a stop condition"), func(ctx context.Context, step *cairn.Step) (bool, error) {
		return a.StopWhen(ctx, step), nil
	})
	if err != nil {
		fx.Logger.Warn("the stop condition failed; it does not hold", "session", l.row.ID, "agent", a.Name, "error", err)
	}
	return stop && err == nil
}
