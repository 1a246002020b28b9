package backend

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
)

// CheckLast implements an append without events: it returns the last sequence of a log, or ErrStale if that is not the
// expected one.
func CheckLast(ctx context.Context, l driver.Log, log string, expect int64) (last int64, err error) {
	_, last, err = l.Bounds(ctx, log)
	if err == nil && expect != driver.AnySequence && expect != last {
		return 0, driver.LogChanged(log, expect, last)
	}
	return last, err
}
