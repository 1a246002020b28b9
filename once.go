package cairn

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Once calls fn and keeps its result for as long as the call waits. After a question of [Call.Ask] was answered, the
// tool's function runs again from its start, in any process. The first Once then returns the result of the first fn,
// the second Once the second result, and so on. Use it for work that a tool does before it asks and should not repeat.
// If the process crashes before the question was stored, fn is called again; [Call.IdempotencyKey] is the same then.
//
// T is kept as JSON, with U+FFFD in place of characters that a session cannot keep, see [CheckJSON]. A result that fn
// returns together with an error is not kept. Kept values, together with the question's prompt and payload, are limited
// to [MaxPromptBytes]; beyond that Ask fails with an ErrTooLarge error. The people who answer do not see them.
func Once[T any](ctx context.Context, call *Call, fn func(ctx context.Context) (T, error)) (T, error) {
	var v T
	raw, err := call.env.Kept()
	if err != nil {
		return v, err
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &v); err != nil {
			return v, Errorf(ErrTool, "decode value kept by Once: %w", err)
		}
		return v, nil
	}
	if v, err = fn(ctx); err != nil {
		return v, err
	}
	if raw, err = json.Marshal(v); err != nil {
		return v, Invalid("result", "cannot be encoded as JSON: %v", err)
	}
	if clean, _ := limits.CleanJSON(raw); !bytes.Equal(clean, raw) {
		// The next pass must get what this one did.
		var kept T
		if err := json.Unmarshal(clean, &kept); err == nil {
			v = kept
		}
		raw = clean
	}
	if err := CheckJSON("result", raw); err != nil {
		return v, err
	}
	return v, call.env.Keep(raw)
}
