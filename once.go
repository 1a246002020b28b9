package cairn

import (
	"context"
	"encoding/json"
)

// Once calls fn and remembers what it returns for as long as the call waits: when the tool's function runs again from its
// start, because a question of [Call.Ask] was answered, the first Once returns what the first fn came to, the second what
// the second did, and so on, in any process. So it is for what a tool does before it asks and should not do twice. After a
// crash before the question was stored fn is called again; [Call.IdempotencyKey] is the same then.
//
// T is kept as JSON. What fn returns with an error is not kept. Together with the question's prompt and payload at most
// [MaxPromptBytes] are kept; Ask fails with an ErrTooLarge error otherwise. People who answer do not see it.
func Once[T any](ctx context.Context, call *Call, fn func(ctx context.Context) (T, error)) (T, error) {
	var v T
	raw, err := call.env.Kept()
	if err != nil {
		return v, err
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &v); err != nil {
			return v, Errorf(CodeTool, "what was kept does not decode: %w", err)
		}
		return v, nil
	}
	if v, err = fn(ctx); err != nil {
		return v, err
	}
	if raw, err = json.Marshal(v); err != nil {
		return v, Invalid("result", "does not encode as JSON: %v", err)
	}
	if err := CheckJSON("result", raw); err != nil {
		return v, err
	}
	return v, call.env.Keep(raw)
}
