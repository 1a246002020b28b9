package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// Tool runs one call of the step. A call that has a result already is left alone.
func (fx *Effects) Tool(ctx context.Context, in turn.ToolIn) (turn.ToolOut, error) {
	l, a, err := fx.hold(in.Position)
	if err != nil {
		return turn.ToolOut{}, err
	}
	return fx.perform(ctx, l, a, in, nil)
}

// perform does not call the tool if the host has given that up.
func (fx *Effects) perform(ctx context.Context, l *live, a *cairn.Agent, in turn.ToolIn, givenUp *cairn.Error) (turn.ToolOut, error) {
	c, err := l.calling(in)
	if err != nil {
		return turn.ToolOut{}, err
	}
	st := l.step
	switch {
	case c.result != nil:
		if fx.Apart { // an earlier try may have died before it told
			l.emit.event(c.ended(st.number))
		}
		return turn.ToolOut{Finished: c.done}, nil
	case c.waits():
		return turn.ToolOut{Waits: true}, nil
	}
	below := []*scope{l.opening, st.scope}
	if c.finishing() { // sees what the parallel calls, which have ended, wrote
		for _, other := range st.calls {
			if !other.finishing() {
				below = append(below, other.scope)
			}
		}
	}
	c.scope = fx.newScope(l, st.number, below...)
	work, key := l.work(ctx)
	defer l.release(key)
	result := answered(c)
	if result == nil && ctx.Err() == nil && work.Err() != nil { // the run was stopped before the call began
		return turn.ToolOut{}, nil
	}

	if result == nil && (st.told || c.delegates()) { // by another version of the agent, perhaps
		if over, err := fx.carriedOn(ctx, work, a, l, c); over || err != nil {
			return turn.ToolOut{}, err
		}
	}
	if result == nil {
		if c.pending == nil && fx.asksFirst(work, l, c) {
			fx.pend(l, st, c)
			err = fx.waits(ctx, l, c)
			return c.out(), err
		}
		l.emit.event(cairn.Event{Type: cairn.EventToolStart, Step: st.number, CallID: c.use.CallID, Tool: c.use.Tool, Data: c.input()})
		if err := l.emit.lost(); err != nil {
			return turn.ToolOut{}, err
		}
		if givenUp != nil {
			result = failure(c.use, givenUp)
		} else if result = fx.execute(work, a, l, c); c.waits() {
			err = fx.waits(ctx, l, c)
			return c.out(), err
		}
	}
	c.scope.end()
	cause := context.Cause(ctx)
	if cause != nil { // the process is going away
		if !fx.stages(a) || result == nil || result.IsError || errors.Is(cause, cairn.ErrFenced) || errors.Is(cause, cairn.ErrUnavailable) {
			return turn.ToolOut{}, cause // somebody will run the call again, or does
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		work = ctx
	}
	if result == nil { // stopped before there was a result
		return turn.ToolOut{}, nil
	}
	if c.finishing() && !result.IsError {
		if result = fx.finish(work, a, l, c, result, append(below, c.scope)...); result == nil {
			return turn.ToolOut{}, cause
		}
	}
	if len(c.scope.ops) > 0 {
		fx.observe(work, l, a, "OnStateChange", fx.frozenScope(l, st.number, "here", append(below, c.scope)...), func(h *cairn.Hooks) hook {
			if h.OnStateChange == nil {
				return nil
			}
			written := slices.Clone(c.scope.ops)
			return c.hook(func(ctx context.Context, call *cairn.Call) error { h.OnStateChange(ctx, call, written); return nil })
		})
	}
	err = fx.concluded(ctx, a, l, c, result)
	return c.out(), err
}

// carriedOn ends a call of a step that is carried on if its tool is another one by now, and reports whether it did.
func (fx *Effects) carriedOn(ctx, work context.Context, a *cairn.Agent, l *live, c *call) (over bool, err error) {
	result := outdated(c)
	switch {
	case result != nil:
	case c.pending == nil:
		v := &visit{fx: fx, ctx: ctx, work: work, a: a, l: l, c: c}
		if result, err = v.gone(); err != nil {
			return false, err
		}
		if result == nil && c.delegates() { // it was planned as another kind of call
			result = changed(c.use)
		}
		if result == nil {
			return false, nil
		}
		v.end(result)
	default:
		return false, nil
	}
	c.scope.end()
	return true, fx.concluded(ctx, a, l, c, result)
}

// out is what the loop hears of the call.
func (c *call) out() turn.ToolOut { return turn.ToolOut{Finished: c.done, Waits: c.waits()} }

// calling returns the call that an effect works on.
func (l *live) calling(in turn.ToolIn) (*call, error) {
	st := l.step
	if st == nil || st.number != in.Step {
		return nil, cairn.Errorf(cairn.CodeInternal, "step %d is not under way", in.Step)
	}
	c := st.call(in.CallID)
	if c == nil {
		return nil, cairn.Errorf(cairn.CodeInternal, "step %d has no call %q", in.Step, in.CallID)
	}
	return c, nil
}

// answered returns the result that a call has from outside, or nil.
func answered(c *call) *cairn.ToolResult {
	if c.pending == nil || c.pending.Answer == nil {
		return nil
	}
	return inbox.Result(c.pending)
}

// concluded keeps the result of a call, in memory and, if the agent's durability says so or other processes need it, in the
// store.
func (fx *Effects) concluded(ctx context.Context, a *cairn.Agent, l *live, c *call, result *cairn.ToolResult) error {
	result.Private = result.Private && !a.ShowToolErrors
	c.result, c.waiting = result, nil
	if fx.Apart { // the log is told what is kept, whatever became of other tries of the effect
		if err := fx.stageCall(ctx, a, l, c); err != nil {
			return err
		}
		if err := fx.settleCall(ctx, l, c); err != nil || c.result == nil {
			return err
		}
		l.emit.event(c.ended(l.step.number))
		return nil
	}
	l.emit.event(c.ended(l.step.number))
	if !a.Durability.Stages() {
		return nil
	}
	if err := l.emit.flush(ctx); err != nil {
		return err
	}
	return fx.stageCall(ctx, a, l, c)
}

// ended returns the event of the call's end.
func (c *call) ended(step int) cairn.Event {
	ev := toolEnd(step, c.result)
	ev.Cached = c.hit
	return ev
}

// toolEnd returns the event of a call's end.
func toolEnd(step int, r *cairn.ToolResult) cairn.Event {
	ev := cairn.Event{Type: cairn.EventToolEnd, Step: step, CallID: r.CallID, Tool: r.Tool, Data: r.Output, IsError: r.IsError}
	if r.Private {
		ev.Data = json.RawMessage(cairn.PrivateError)
	}
	return ev
}

// leaveTime bounds how long a process that is going away takes to keep the result of a call that has just ended.
const leaveTime = 5 * time.Second

// info identifies the call to user code.
func (c *call) info() cairn.CallInfo {
	return cairn.CallInfo{ID: c.use.CallID, Tool: c.use.Tool, Input: c.input()}
}

// hook makes a hook of a function that is given the call.
func (c *call) hook(fn func(context.Context, *cairn.Call) error) hook {
	info := c.info()
	return func(ctx context.Context, step *cairn.Step) error { return fn(ctx, cairn.NewCall(step, info)) }
}

// execute runs the call and returns its result; nil if the run was stopped before there was one, or if it waits.
func (fx *Effects) execute(ctx context.Context, a *cairn.Agent, l *live, c *call) *cairn.ToolResult {
	if c.use.Tool == cairn.FinishTool && a.Output != nil {
		err := wasKept(c.use.Input)
		if err == nil {
			err = fx.checkOutput(ctx, a, c.use.Input)
		}
		if err != nil {
			return failure(c.use, err)
		}
		return &cairn.ToolResult{CallID: c.use.CallID, Tool: c.use.Tool, Output: json.RawMessage(`"finished"`)}
	}
	if c.off {
		return transcript.Failed(c.use, cairn.CodeToolOff, fmt.Sprintf("the tool %q is switched off", c.use.Tool))
	}
	if c.tool == nil {
		return transcript.Failed(c.use, cairn.CodeUnknownTool, unknownTool(l, a, c.use.Tool))
	}
	if err := c.check(); err != nil {
		return failure(c.use, err)
	}
	err := fx.veto(ctx, l, a, "BeforeTool", c.scope, func(h *cairn.Hooks) hook {
		if h.BeforeTool == nil {
			return nil
		}
		return c.hook(h.BeforeTool)
	})
	if err != nil {
		return transcript.Failed(c.use, cairn.CodeHook, err.Error())
	}
	if c.tool.Waits() == cairn.CallClientTool {
		fx.pend(l, l.step, c)
		return nil
	}
	return fx.cached(l, c, func() *cairn.ToolResult { return fx.invoke(ctx, l, c) })
}

func unknownTool(l *live, a *cairn.Agent, name string) string {
	var names []string
	for _, t := range a.Tools {
		if !l.index.Off(t.Name()) {
			names = append(names, t.Name())
		}
	}
	if a.Output != nil {
		names = append(names, cairn.FinishTool)
	}
	if len(names) == 0 {
		return fmt.Sprintf("there is no tool %q; there are no tools at all", name)
	}
	return fmt.Sprintf("there is no tool %q; the tools are: %s", name, strings.Join(names, ", "))
}

// invoke calls the tool's function and returns its result; nil if the run was stopped before there was one.
func (fx *Effects) invoke(ctx context.Context, l *live, c *call) *cairn.ToolResult {
	info, tool := c.info(), c.tool
	u := userCall{what: "the tool", code: cairn.CodeToolPanic, limit: tool.Timeout(), call: &info}
	output, err := lent(ctx, fx, l, u, c.scope, func(ctx context.Context, step *cairn.Step) (json.RawMessage, error) {
		return tool.Run(ctx, cairn.NewCall(step, info), info.Input)
	})
	switch {
	case err == nil:
		return &cairn.ToolResult{CallID: c.use.CallID, Tool: c.use.Tool, Output: output}
	case ctx.Err() != nil:
		return nil
	}
	return failure(c.use, err)
}

// failure turns an error into the result the model is told.
func failure(use *cairn.ToolUse, err error) *cairn.ToolResult {
	code := cairn.CodeTool
	var e *cairn.Error
	known := errors.As(err, &e)
	if known {
		code = e.Code
	}
	r := transcript.Failed(use, code, err.Error())
	r.Private = !known || code == cairn.CodeToolPanic
	return r
}

// checkOutput reports whether a text is of the agent's output type, which may decode itself.
func (fx *Effects) checkOutput(ctx context.Context, a *cairn.Agent, raw json.RawMessage) error {
	u := userCall{what: "the output type", code: cairn.CodeOutput, limit: fx.HookTimeout, agent: a.Name}
	_, err := callUser(ctx, fx, u, func(context.Context) (struct{}, error) { return struct{}{}, a.Output.Check(raw) })
	return err
}

// finish lets a call that would end the turn do so, unless the output or the guard is against it. It returns nil if the run was
// stopped before the guard had decided.
func (fx *Effects) finish(ctx context.Context, a *cairn.Agent, l *live, c *call, result *cairn.ToolResult, state ...*scope) *cairn.ToolResult {
	done := cairn.Completion{Reason: cairn.ReasonFinishTool, Output: result.Output}
	if c.use.Tool == cairn.FinishTool {
		done = cairn.Completion{Reason: cairn.ReasonFinish, Output: c.use.Input}
	} else if a.Output != nil {
		if err := fx.checkOutput(ctx, a, result.Output); err != nil {
			return failure(c.use, err)
		}
	}
	if l.step.reply != nil {
		done.Text = l.step.reply.Text()
	}
	verdict, err := fx.verdict(ctx, a, l, l.step.number, done, state...)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		c.failed = err
	case verdict.Feedback != "" && c.use.Tool == cairn.FinishTool:
		return transcript.Failed(c.use, cairn.CodeRejected, verdict.Feedback)
	case verdict.Feedback != "":
		c.feedback = verdict.Feedback
		return result
	default:
		verdict.apply(&done)
	}
	c.done, c.completion = true, done
	return result
}

type verdict struct{ cairn.Verdict }

func (v verdict) apply(c *cairn.Completion) {
	if v.Output != nil {
		c.Output = v.Output
	}
	if v.Text != "" {
		c.Text = v.Text
	}
}

// verdict asks the agent's guard about a completion. The error is what fails the run.
func (fx *Effects) verdict(ctx context.Context, a *cairn.Agent, l *live, number int, done cairn.Completion, below ...*scope) (verdict, *cairn.Error) {
	if a.Guard == nil {
		return verdict{}, nil
	}
	u := userCall{what: "the completion guard", code: cairn.CodeRejected, limit: fx.HookTimeout}
	v, err := lent(ctx, fx, l, u, fx.frozenScope(l, number, "by a guard", below...), func(ctx context.Context, step *cairn.Step) (verdict, error) {
		decision, err := a.Guard(ctx, step, done)
		if err == nil {
			err = decision.Err
		}
		if err == nil {
			err = cmp.Or(cairn.CheckText("the feedback", decision.Feedback), cairn.CheckText("the text that replaces it", decision.Text))
		}
		if err == nil && decision.Output != nil {
			if problem := limits.JSON(decision.Output); problem != "" {
				err = errors.New("the output that replaces it " + problem)
			} else if a.Output != nil {
				err = a.Output.Check(decision.Output)
			}
		}
		if err != nil {
			err = cairn.Errorf(cairn.CodeRejected, "the completion was rejected: %w", tamed(err))
		}
		return verdict{decision}, err
	})
	if err != nil {
		return verdict{}, cairn.AsError(err)
	}
	return v, nil
}
