package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// restSweep is the longest time between two looks at a log that does not grow and none of whose events become too old,
// because the retention may change.
const restSweep = 30 * 24 * time.Hour

// trimming is the plan for trimming one log.
type trimming struct {
	log         string
	first, last int64
	// cut is the first event to keep.
	cut int64
	// next is the time until there may be more to trim, even if nothing is appended.
	next time.Duration
}

// trim removes the events before the cut.
func (t *trimming) trim(ctx context.Context, log store.Log) (int64, error) {
	if t.cut <= t.first {
		return 0, nil
	}
	return t.cut - t.first, log.Trim(ctx, t.log, t.cut)
}

// trimming computes how far the log of a root can be trimmed. It does not read the tree if the log is within its
// limits.
func (u *upkeep) trimming(ctx context.Context, root *cairn.Session, keep EventRetention) (*trimming, error) {
	t := &trimming{log: root.Log(), next: restSweep}
	var err error
	if t.first, t.last, err = u.log.Bounds(ctx, t.log); err != nil {
		return nil, err
	}
	newest := int64(math.MinInt64) // newest event to trim because of the number of events
	if keep.Events > 0 {
		newest = t.last - int64(keep.Events)
	}
	if t.last < t.first || keep.Age == 0 && newest < t.first {
		return t, nil
	}
	if keep.Age > 0 {
		old, err := u.keeping(ctx, root, keep.Age)
		if err != nil {
			return nil, err
		}
		t.cut = old.from
		t.soonest(old.next)
	}
	if newest < max(t.first, t.cut) {
		return t, nil
	}
	young, err := u.keeping(ctx, root, MinEventAge)
	if err != nil {
		return nil, err
	}
	cut, err := u.runBefore(ctx, root, newest)
	if err != nil {
		return nil, err
	}
	// The cut is limited by runs that are too young, or that have not ended and will append to the log.
	if cut > young.from {
		t.soonest(young.next)
	}
	t.cut = max(t.cut, min(cut, young.from))
	return t, nil
}

// soonest lowers t.next to next, unless next is 0.
func (t *trimming) soonest(next time.Duration) {
	if next > 0 {
		t.next = min(t.next, next)
	}
}

// keeping describes the events that are kept because of the runs that they belong to.
type keeping struct {
	// from is the first of them.
	from int64
	// next is the time until the first of those runs that have ended is too old; 0 if there is none.
	next time.Duration
}

// keeping returns which events of a tree are kept because of runs that have not ended, or ended within an age.
func (u *upkeep) keeping(ctx context.Context, root *cairn.Session, age time.Duration) (keeping, error) {
	// A snapshot is followed from there, and the next run begins there.
	k := keeping{from: root.LogSequence + 1}
	since := root.AsOf.Add(-age)
	for _, q := range []store.SessionQuery{
		{RootID: root.ID, UpdatedAfter: since},
		{RootID: root.ID, UpdatedBefore: since, Statuses: []cairn.SessionStatus{cairn.SessionActive, cairn.SessionPaused}},
	} {
		for row, err := range u.reader.sessions(ctx, q) {
			if err == nil {
				err = u.keepRuns(ctx, row, since, &k)
			}
			if err != nil {
				return k, err
			}
		}
	}
	return k, nil
}

// keepRuns adds the runs of a session that have not ended, or ended after since.
func (u *upkeep) keepRuns(ctx context.Context, row *cairn.Session, since time.Time, k *keeping) error {
	for run, err := range store.All(func(cursor string) (store.Page[cairn.Run], error) {
		limit := 100
		if cursor == "" { // most sessions have few young runs
			limit = 10
		}
		return u.store.Runs(ctx, row.ID, store.PageQuery{Newest: true, Limit: limit, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		open := run.EndedAt.IsZero() || row.Status == cairn.SessionPaused && run.ID == row.RunID
		if !open && !run.EndedAt.After(since) {
			return nil
		}
		k.from = min(k.from, run.StartSequence+1)
		if left := run.EndedAt.Sub(since); !open && (k.next == 0 || left < k.next) {
			k.next = left
		}
	}
	return nil
}

// runBefore returns the first event of the root's latest run that began right behind an event or earlier; 0 if there is
// none.
func (u *upkeep) runBefore(ctx context.Context, root *cairn.Session, event int64) (int64, error) {
	for run, err := range store.All(func(cursor string) (store.Page[cairn.Run], error) {
		return u.store.Runs(ctx, root.ID, store.PageQuery{Newest: true, Cursor: cursor})
	}) {
		if err != nil {
			return 0, err
		}
		if at := run.StartSequence; at <= event {
			return at + 1, nil
		}
	}
	return 0, nil
}

// sweepLogs trims the logs that have grown since they were last swept, or that hold events that have become too old. It
// does not look at logs at rest.
func (u *upkeep) sweepLogs(ctx context.Context, r *SweepReport, looked func()) error {
	sweeper, ok := driver.LogAs[driver.LogSweeper](u.log)
	if !ok || u.opts.EventRetention == (EventRetention{}) {
		return nil
	}
	// A log is looked at MinEventAge after it became due: until then, nothing of what made it due can be trimmed.
	for log, err := range store.All(func(cursor string) (store.Page[string], error) {
		return sweeper.Unswept(ctx, MinEventAge, store.PageQuery{Limit: sweepBatch, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		root := *log
		if i := strings.LastIndexByte(root, '@'); i > 0 {
			root = root[:i]
		}
		n, err := u.sweepLog(ctx, sweeper, root, *log)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cairn.ErrDeleted): // deleted with its log in the meantime
		case err != nil:
			r.failed(root, err)
		case n > 0:
			r.Trimmed++
			r.EventsTrimmed += n
		}
		looked()
	}
	return nil
}

// sweepLog trims one log and records when to look at it again. It leaves the log of a session that is gone to the
// session's purge.
func (u *upkeep) sweepLog(ctx context.Context, sweeper driver.LogSweeper, root, log string) (int64, error) {
	row, err := driver.Load(ctx, u.store, root)
	if errors.Is(err, cairn.ErrNotFound) || err == nil && row.Log() != log {
		_, last, err := u.log.Bounds(ctx, log)
		if err != nil {
			return 0, err
		}
		return 0, sweeper.Swept(ctx, log, last, restSweep)
	}
	if err != nil {
		return 0, err
	}
	t, err := u.trimming(ctx, row, u.opts.EventRetention)
	if err != nil {
		return 0, err
	}
	n, err := t.trim(ctx, u.log)
	if err != nil {
		return 0, err
	}
	return n, sweeper.Swept(ctx, log, t.last, max(t.next-MinEventAge, 0))
}
