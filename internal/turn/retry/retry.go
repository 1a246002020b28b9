// Package retry retries what failed for a passing reason.
package retry

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cairn-agents/cairn"
)

// Backoff returns the wait before retry n, from 0: doubled each time, with up to a quarter of jitter.
func Backoff(first, limit time.Duration, n int) time.Duration {
	wait := limit
	if first <= limit>>n { // else doubling so often would overflow, too
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

// Tries is how often a call of the store that failed for a passing reason is tried in all.
const Tries = 5

// Storage calls the store or log, again if storage is unavailable for a moment.
func Storage(ctx context.Context, logger *slog.Logger, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		if err == nil || !errors.Is(err, cairn.ErrUnavailable) || n == Tries-1 || ctx.Err() != nil {
			return err
		}
		logger.Warn("storage unavailable, trying again", "error", err, "try", n+1)
		if Sleep(ctx, Backoff(20*time.Millisecond, time.Second, n)) != nil {
			return err
		}
	}
}
