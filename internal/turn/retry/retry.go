// Package retry retries operations that failed for a transient reason.
package retry

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cairn-agents/cairn"
)

// Backoff returns the wait before retry n, counted from 0. It doubles with each retry up to limit, less up to a quarter
// as jitter.
func Backoff(first, limit time.Duration, n int) time.Duration {
	wait := limit
	if first <= limit>>n { // doubling that often might also overflow
		wait = first << n
	}
	return wait - time.Duration(rand.Int64N(int64(wait)/4+1))
}

// Sleep waits unless ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tries is the total number of attempts at a store call that fails for a transient reason.
const Tries = 5

// Storage calls the store or the log, and retries while it returns ErrUnavailable, up to Tries attempts in all.
func Storage(ctx context.Context, logger *slog.Logger, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		if err == nil || !errors.Is(err, cairn.ErrUnavailable) || n == Tries-1 || ctx.Err() != nil {
			return err
		}
		logger.Warn("storage unavailable; retrying", "error", err, "try", n+1)
		if Sleep(ctx, Backoff(20*time.Millisecond, time.Second, n)) != nil {
			return err
		}
	}
}
