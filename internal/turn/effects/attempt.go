package effects

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// invoke calls the tool's function, retries it by its policy, and returns the result. It returns nil if the run was
// stopped before there was a result, or if the function asked a question.
func (t *trial) invoke() *cairn.ToolResult {
	if t.c.Tool.Effectful {
		return t.effectfully()
	}
	before := t.s.Writes()
	for n := max(t.c.Attempts, 1); ; n++ { // an attempt that was cut short is repeated
		if t.lost = t.attempt(n); t.lost != nil {
			return nil
		}
		output, suspends, _, err := t.call()
		if n > 1 {
			t.attempts = n
		}
		asked := t.s.Asked()
		switch {
		case err != nil && t.work.Err() != nil:
			return nil
		case asked != nil && suspends:
			t.waits, t.asked = kindOf(asked), asked
			t.s.Discard()
			return nil
		case asked != nil:
			return t.failed(swallowed(err))
		case err == nil:
			return &cairn.ToolResult{CallID: t.c.Use.CallID, Tool: t.c.Use.Tool, Output: output}
		}
		wait, final := t.again(err, n)
		if final != nil {
			return t.failed(final)
		}
		t.fx.Logger.Warn("tool failed; retrying", t.attrs("error", err, "attempt", n, "wait", wait)...)
		if retry.Sleep(t.work, wait) != nil {
			return nil
		}
		t.s.Retry(before)
	}
}

// call makes one attempt at the tool's function. suspends reports whether it returned the error of Ask, ran whether it
// returned no error, whatever became of its result.
func (t *trial) call() (output json.RawMessage, suspends, ran bool, err error) {
	type returned struct {
		output        json.RawMessage
		suspends, ran bool
	}
	info, tool := user.InfoOf(t.c), t.c.Tool
	// Read here: an abandoned attempt may still run when the session is parked.
	hooks := t.l.Hooks()
	u := user.Code{What: "the tool", Err: cairn.ErrToolPanic, Limit: tool.Timeout, Call: &info}
	t.s.LetAsk(t.c)
	began := t.fx.Now()
	out, err := user.Lent(t.work, &t.s, u, func(ctx context.Context, step *cairn.Step) (returned, error) {
		output, ran, err := run(ctx, hooks, user.HandleOf(step, info), tool, info.Input)
		return returned{output, user.Is(err, cairn.ErrSuspended), ran}, err
	})
	t.took += max(0, t.fx.Now().Sub(began))
	return out.output, out.suspends, out.ran, err
}

// swallowed returns the error of a tool that asked a question and then returned no error, or another one than Ask's.
func swallowed(err error) error {
	if err == nil {
		return cairn.Errorf(cairn.ErrTool, "the tool asked a question but did not return the error of Ask, which suspends the call; the question was not asked")
	}
	return fmt.Errorf("the tool asked a question but returned a different error than Ask, whose error suspends the call; the question was not asked: %w", err)
}

// attempt records that an attempt at the tool begins. A run whose facts stay in this process stages no first attempt: a
// process that takes over the step assumes that any call may have been made.
func (t *trial) attempt(number int) error {
	f := &step.Attempt{CallID: t.c.Use.CallID, Number: number}
	switch lasts := define.Durability(t.a).Stages(); {
	case number <= t.c.Attempts:
		return nil
	case !t.l.Shared() && (number == 1 || !lasts):
		t.l.Step.Add(f)
		return nil
	default:
		return t.fx.put(t.ctx, t.l, f, lasts)
	}
}

// again returns how long to wait before the tool is retried, or the call's error if it is not retried.
func (t *trial) again(err error, n int) (wait time.Duration, final error) {
	if t.c.Tool.Retry == nil {
		return 0, err
	}
	return t.fx.retryWait(t.work, t.c.Tool.Retry, err, n-1, "the tool's")
}

// failed turns an error of the tool's function into the call's result, in the words of the tool's or the agent's
// ErrorText.
func (t *trial) failed(err error) *cairn.ToolResult {
	t.fx.Logger.Warn("tool failed", t.attrs("error", err)...)
	result := failure(t.c.Use, err)
	text := t.c.Tool.ErrorText
	if text == nil {
		text = t.a.ErrorText
	}
	if text == nil {
		return result
	}
	u := user.Code{What: "ErrorText", Err: cairn.ErrHook, Limit: t.fx.HookTimeout, Session: t.l.Row.ID, Agent: t.a.Name}
	words, bad := user.Call(context.WithoutCancel(t.work), &t.fx.User, u, func(context.Context) (string, error) { return text(err), nil })
	if bad != nil {
		t.fx.Logger.Warn("ErrorText failed", t.attrs("error", bad)...)
	}
	if bad != nil || words == "" {
		words = "the tool failed"
	}
	said := transcript.Failed(t.c.Use, result.Code, words)
	said.Private = result.Private
	return said
}

// attrs returns the attributes of a log line about the call.
func (t *trial) attrs(more ...any) []any {
	return append([]any{"session", t.l.Row.ID, "agent", t.a.Name, "tool", t.c.Use.Tool, "call", t.c.Use.CallID}, more...)
}
