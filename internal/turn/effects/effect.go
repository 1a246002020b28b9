package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// The start of an attempt at an effectful call is staged before the tool's function is called, for the next lease holder,
// too. An attempt that is staged without a result has an unknown outcome: the process died, or user code did not return.
// The tool's Confirm is asked, then a person. Nothing else leads to another attempt.

// effectfully is invoke for an effectful tool. An attempt is repeated only if it did not take effect.
func (t *trial) effectfully() *cairn.ToolResult {
	before := t.s.Writes()
	for n := 1; ; n++ {
		if t.work.Err() != nil { // stopped before it was sent
			return nil
		}
		mine, err := t.send()
		if errors.Is(err, cairn.ErrInvalid) { // its row cannot be kept
			return failure(t.c.Use, cairn.AsError(err))
		}
		if t.lost = err; err != nil {
			return nil
		}
		var failed error
		var result *cairn.ToolResult
		again := false
		if !mine {
			result, again = t.resolve("another attempt at the call has begun")
		} else if result, again, failed = t.outcome(); result != nil && n > 1 {
			t.attempts = n
		}
		if !again {
			return result
		}
		if failed != nil {
			wait, final := t.again(failed, n)
			if final != nil {
				return t.settled(cairn.EffectFailed, t.failed(final))
			}
			t.fx.Logger.Warn("tool failed; retrying", t.attrs("error", failed, "attempt", n, "wait", wait)...)
			if retry.Sleep(t.work, wait) != nil {
				return t.settled(cairn.EffectFailed, t.failed(failed))
			}
		}
		t.s.Retry(before)
	}
}

// outcome calls the function of an effectful tool and finds out whether that took effect. If again is set, it did not,
// because of failed.
func (t *trial) outcome() (result *cairn.ToolResult, again bool, failed error) {
	output, suspends, ran, err := t.call()
	asked := t.s.Asked()
	switch {
	case err != nil && !ran && t.work.Err() != nil:
		return nil, false, nil
	case asked != nil && suspends:
		t.waits, t.asked = kindOf(asked), asked
		t.s.Discard()
		return nil, false, nil
	case asked != nil:
		err = swallowed(err)
		result, again = t.resolve(err.Error())
		return result, again, err
	case err == nil:
		return t.settled(cairn.EffectConfirmed, &cairn.ToolResult{CallID: t.c.Use.CallID, Tool: t.c.Use.Tool, Output: output}), false, nil
	case ran: // but its result is of no use
		return t.settled(cairn.EffectConfirmed, t.failed(err)), false, nil
	case unknownOutcome(err):
		result, again = t.resolve(err.Error())
		return result, again, err
	}
	return nil, true, err
}

// send stages the start of an attempt at an effectful call. It reports false if another attempt at the effect has begun
// one, whose outcome is unknown here.
func (t *trial) send() (mine bool, err error) {
	row := t.ledger()
	if row == nil {
		var refused *cairn.Error
		if row, refused = t.fx.pend(t.l, t.c, cairn.CallEffect, &define.Question{}); refused != nil {
			return false, refused
		}
	}
	call := cairn.Call{Step: &cairn.Step{SessionID: t.l.Row.ID}, ID: t.c.Use.CallID}
	next := inbox.Send(*row, call.IdempotencyKey(), t.l.Now(t.fx.Now()))
	f := &step.Sent{CallID: t.c.Use.CallID, Number: t.c.Attempts + 1, Row: &next}
	if err := t.fx.put(t.ctx, t.l, f, true); err != nil {
		return false, err
	}
	if t.c.Sent != f {
		t.effect = t.c.Sent.Row
		return false, nil
	}
	t.effect = &next
	t.l.Emit.Event(journal.EffectSent(t.l.Step.Number, &next))
	return true, t.l.Emit.Lost()
}

// ledger returns the call's row in the ledger so far, or nil.
func (t *trial) ledger() *cairn.PendingCall {
	if t.effect != nil {
		return t.effect
	}
	return t.c.Ledger()
}

// resolve finds out the outcome of an attempt that ended without one, because of why. The call has a result then, waits
// for a person, or is left to the stop of its run. If again is set, the attempt did not take effect.
func (t *trial) resolve(why string) (result *cairn.ToolResult, again bool) {
	row := inbox.Unknown(*t.ledger(), why, t.l.Now(t.fx.Now()))
	t.effect = &row
	t.l.Emit.Event(journal.EffectUnknown(t.l.Step.Number, &row, why))
	if t.c.Tool != nil && t.c.Tool.Confirm != nil {
		happened, output, err := t.confirm(&row)
		switch {
		case t.work.Err() != nil: // by nobody's word
			return nil, false
		case happened && err != nil:
			t.probed(cairn.EffectHappened)
			return t.settled(cairn.EffectConfirmed, failure(t.c.Use, err)), false
		case err != nil:
			t.fx.Logger.Warn("cannot confirm an effect; asking a person", t.attrs("error", err)...)
		case happened:
			t.probed(cairn.EffectHappened)
			return t.settled(cairn.EffectConfirmed, &cairn.ToolResult{CallID: t.c.Use.CallID, Tool: t.c.Use.Tool, Output: output}), false
		default:
			t.probed(cairn.EffectDidNotHappen)
			return nil, true
		}
	}
	t.waits = cairn.CallEffect
	return nil, false
}

// confirm calls the tool's Confirm.
func (t *trial) confirm(row *cairn.PendingCall) (happened bool, output json.RawMessage, err error) {
	type answer struct {
		happened bool
		output   json.RawMessage
	}
	tool, key, info := t.c.Tool, row.Effect.Key, user.InfoOf(t.c)
	u := user.Code{What: "Confirm", Err: cairn.ErrToolPanic, Limit: cmp.Or(tool.Timeout, t.fx.HookTimeout), Session: t.l.Row.ID, Agent: t.a.Name, Call: &info}
	a, err := user.Call(t.work, &t.fx.User, u, func(ctx context.Context) (answer, error) {
		happened, output, err := tool.Confirm(ctx, key)
		if err == nil && happened {
			output, err = define.Storable("the confirmed result", output)
		}
		return answer{happened, output}, err
	})
	return a.happened, a.output, err
}

// probed records what Confirm has found out.
func (t *trial) probed(outcome cairn.EffectOutcome) {
	row := inbox.Probed(*t.effect, outcome, t.l.Now(t.fx.Now()))
	t.effect = &row
}

// settled records the state of the call's effect along with its result.
func (t *trial) settled(state cairn.EffectState, result *cairn.ToolResult) *cairn.ToolResult {
	row := inbox.Conclude(*t.ledger(), state, "", t.l.Now(t.fx.Now()))
	t.effect = &row
	return result
}

// unknownOutcome reports whether an error of an effectful tool does not say whether the call took effect.
func unknownOutcome(err error) bool {
	for _, target := range []error{cairn.ErrEffectUnknown, cairn.ErrToolPanic, cairn.ErrTimeout, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// askEffect returns the row of an effect whose outcome a person is asked for.
func (t *trial) askEffect() *cairn.PendingCall {
	row := inbox.AskEffect(*t.effect, "The outcome of this call of "+t.c.Use.Tool+" is unknown. Find out whether it took effect. Idempotency key: "+t.effect.Effect.Key)
	row.RunID = t.l.Run.ID
	return &row
}
