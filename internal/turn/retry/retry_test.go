package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/turn/retry"
)

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, limit time.Duration
		n            int
		want         time.Duration
	}{
		{time.Second, time.Minute, 0, time.Second},
		{time.Second, time.Minute, 3, 8 * time.Second},
		{time.Second, time.Minute, 6, time.Minute},
		{time.Second, time.Minute, 1000, time.Minute},
		{time.Hour, time.Minute, 0, time.Minute},
		{100 * time.Hour, math.MaxInt64, 19, math.MaxInt64},
		{math.MaxInt64, time.Minute, 20, time.Minute},
		{time.Nanosecond, time.Nanosecond, 5, time.Nanosecond},
	} {
		for range 100 {
			if got := retry.Backoff(c.first, c.limit, c.n); got > c.want || got < c.want-c.want/4-1 {
				t.Fatalf("backoff(%s, %s, %d) = %s, want %s less up to a quarter", c.first, c.limit, c.n, got, c.want)
			}
		}
	}
}
