package effects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// retryWait returns how long to wait before retrying a call that has failed n+1 times, by a policy. It returns the
// call's error if the call is not retried. A call that asks for a longer wait than the policy allows is not retried,
// and the error says so.
func (fx *Effects) retryWait(ctx context.Context, p *cairn.RetryPolicy, err error, n int, whose string) (wait time.Duration, final error) {
	policy := cairn.RetryPolicy{}
	if p != nil {
		policy = *p
	}
	if policy.Max == 0 {
		policy.Max = 3
	}
	if policy.First == 0 {
		policy.First = time.Second
	}
	if policy.Limit == 0 {
		policy.Limit = time.Minute
	}
	if n >= policy.Max || !fx.retryable(ctx, &policy, err) {
		return 0, err
	}
	var e *cairn.Error
	switch errors.As(err, &e); {
	case e != nil && time.Duration(e.RetryAfter) > policy.Limit:
		return 0, fmt.Errorf("%w (retry after %s exceeds the %s that %s retry policy allows)", err, e.RetryAfter, policy.Limit, whose)
	case e != nil && e.RetryAfter > 0:
		return time.Duration(e.RetryAfter), nil
	}
	return retry.Backoff(policy.First, policy.Limit, n), nil
}

// retryable reports whether a policy retries a call that failed with an error.
func (fx *Effects) retryable(ctx context.Context, p *cairn.RetryPolicy, err error) bool {
	if p.When == nil {
		var e *cairn.Error
		return errors.As(err, &e) && e.Retryable()
	}
	u := user.Code{What: "a retry policy's When", Err: cairn.ErrHook, Limit: fx.HookTimeout}
	yes, bad := user.Call(ctx, &fx.User, u, func(context.Context) (bool, error) { return p.When(err), nil })
	if bad != nil {
		fx.Logger.Warn("a retry policy's When failed; not retrying", "error", bad)
	}
	return yes && bad == nil
}
