package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// scrubbers returns the places whose files would show what was erased.
func scrubbers(st store.Store, log store.Log) (list []driver.Scrubber) {
	if s, ok := driver.As[driver.Scrubber](st); ok {
		list = append(list, s)
	}
	if s, ok := driver.LogAs[driver.Scrubber](log); ok {
		list = append(list, s)
	}
	return list
}

// scrub overwrites what was erased in the files of the store and of the log. If that has to wait, the next sweep repeats
// it.
func (u *upkeep) scrub(ctx context.Context) error {
	var errs error
	for _, s := range u.scrubbers {
		errs = errors.Join(errs, s.Scrub(ctx))
	}
	u.unscrubbed.Store(errs != nil)
	if errs != nil {
		u.opts.Logger.Warn("erased data remains in files", "error", errs)
	}
	return errs
}

// forget deletes the files that only erased sessions used, and scrubs.
func (u *upkeep) forget(ctx context.Context) error {
	var kept error
	if u.blobs != nil {
		if _, kept = u.blobs.Sweep(ctx, 0); kept != nil {
			u.opts.Logger.Warn("files of erased sessions remain until a sweep deletes them", "error", kept)
		}
	}
	return errors.Join(kept, u.scrub(ctx))
}
