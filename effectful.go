package cairn

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn/internal/define/bridge"
)

// Effectful marks a tool that changes something outside of the session that must not happen twice, such as a payment.
// Each call has a row in the ledger of effects, see Engine.Effects. The start of an attempt is stored before the tool's
// function is called, in one write more per call. A call that is taken over after a crash is not repeated blindly: if
// an attempt began and its outcome is unknown, [Confirm] is asked. If the tool has none, or it cannot find out, the
// call waits as a pending call of [CallEffect] until a person answers with [Happened], [DidNotHappen] or [TryAgain].
//
// The outcome of an attempt is known if the function returns. A result means that it took effect, and an error that it
// did not. It is unknown after a panic, a timeout, a stop or a crash, and if the error is, or wraps, ErrEffectUnknown,
// context.Canceled or context.DeadlineExceeded. [Retry] repeats only an attempt that did not take effect. A run that is
// stopped during a call does not wait: the model reads that the outcome is unknown, and the row stays unknown until
// Engine.SettleEffect.
//
// In a branch of a session, and in a tainted one, each call asks for approval first: see engine.WithEffects and
// [Step.Taint]. An agent that has the tool commits each step, regardless of its [Durability]. The option is for tools
// made of functions, and cannot be combined with [Cache] or [FinishWith]. [AssignTo] and [WaitAtMost] apply to the
// person who is asked.
func Effectful() ToolOption { return func(t *Tool) { t.def.Effectful = true } }

// Confirm sets the function that finds out whether a call of an [Effectful] tool took effect, by the call's
// [Call.IdempotencyKey]. If it did, the function returns true and the result of the call. Writes of the tool's function
// through its handle are lost with its process. False means that the call did not take effect and will not, so that the
// tool can be called again with the same key. An error means that the function cannot find out: a person is asked. A
// panic is such an error, and so is taking longer than the tool's [Timeout] or, without one, the engine's
// Options.HookTimeout.
//
// The earlier attempt may be still in progress in a process that is cut off. So false is only safe if the receiver
// recognizes the key, or can no longer be reached by that attempt.
func Confirm[Out any](fn func(ctx context.Context, key string) (happened bool, result Out, err error)) ToolOption {
	return func(t *Tool) {
		if fn == nil {
			t.def.Err = errors.New("Confirm: function is nil")
			return
		}
		t.def.Confirm = func(ctx context.Context, key string) (bool, json.RawMessage, error) {
			happened, out, err := fn(ctx, key)
			if err != nil || !happened {
				return false, nil, err
			}
			raw, err := json.Marshal(out)
			if err != nil {
				return true, nil, Errorf(ErrTool, "%w, but its confirmed result cannot be encoded as JSON: %w", bridge.ErrRan, err)
			}
			return true, raw, nil
		}
	}
}

// Happened answers a pending call of [CallEffect]: the call took effect. result, encoded as JSON, becomes the call's
// result; nil for none.
func Happened(c CallRef, result any) Submission {
	return answerEffect(c, EffectHappened, result)
}

// DidNotHappen answers a pending call of [CallEffect]: the call did not take effect. The model reads the reason, if
// there is one, and may call the tool again.
func DidNotHappen(c CallRef, reason string) Submission {
	if reason == "" {
		return answerEffect(c, EffectDidNotHappen, nil)
	}
	return answerEffect(c, EffectDidNotHappen, reason)
}

// TryAgain answers a pending call of [CallEffect]: the tool is called again, with the same idempotency key. If the
// earlier attempt took effect after all, the receiver must recognize the key.
func TryAgain(c CallRef) Submission { return answerEffect(c, EffectTryAgain, nil) }

func answerEffect(c CallRef, outcome EffectOutcome, result any) Submission {
	a := EffectAnswer{Outcome: outcome}
	var err error
	if result != nil {
		a.Result, err = json.Marshal(result)
	}
	s := Answer(c, a)
	if err != nil {
		s.err = err
	}
	return s
}
