package engine

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
)

// usageBatch is how many usage rows one write folds or removes.
const usageBatch = 1000

// sweepUsage folds usage rows into the sums of their days, and removes those whose retention is over.
func (u *upkeep) sweepUsage(ctx context.Context, r *SweepReport, _ func()) error {
	if u.usages == nil {
		return nil
	}
	for n := usageBatch; n == usageBatch; {
		var err error
		if n, err = u.usages.Fold(ctx, usageBatch); err != nil {
			return err
		}
		r.UsageFolded += n
	}
	for n := 1; n > 0 && u.opts.UsageRetention >= 0; {
		var err error
		if n, err = u.usages.Trim(ctx, u.opts.UsageRetention, usageBatch); err != nil {
			return err
		}
		r.UsageTrimmed += n
	}
	return nil
}

// forgetUsage removes ids from the usage that remains of erased or purged sessions.
func (u *upkeep) forgetUsage(ctx context.Context, who driver.Forget) error {
	if u.usages == nil {
		return nil
	}
	return u.usages.Forget(ctx, who)
}
