package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// restSweep is how long a log may rest until it is looked at again although nothing was appended to it, and nothing of it
// will be too old: the bounds may be others by then.
const restSweep = 30 * 24 * time.Hour

// trimming is what is to become of a log.
type trimming struct {
	log         string
	first, last int64
	// cut is the first event that is kept.
	cut int64
	// next is when there may be more to trim, although nothing is appended.
	next time.Duration
}

// trim removes what is before the cut.
func (t *trimming) trim(ctx context.Context, log store.Log) (int64, error) {
	if t.cut <= t.first {
		return 0, nil
	}
	return t.cut - t.first, log.Trim(ctx, t.log, t.cut)
}

// trimming works out how far the log of a root can be trimmed. What is not too much is answered without a look at the tree.
func (u *upkeep) trimming(ctx context.Context, root *cairn.Session, keep EventRetention) (*trimming, error) {
	t := &trimming{log: root.Log(), next: restSweep}
	var err error
	if t.first, t.last, err = u.log.Bounds(ctx, t.log); err != nil {
		return nil, err
	}
	newest := int64(math.MinInt64) // the newest event that is to go by number
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
	if cut > young.from { // because of runs that are too young, or have not ended and will append that
		t.soonest(young.next)
	}
	t.cut = max(t.cut, min(cut, young.from))
	return t, nil
}

// soonest makes a time at which there may be more to trim count, if it is earlier.
func (t *trimming) soonest(next time.Duration) {
	if next > 0 {
		t.next = min(t.next, next)
	}
}

// keeping says which events are kept, because of the runs that they belong to.
type keeping struct {
	// from is the first of them.
	from int64
	// next is in how long the first of those runs that have ended will be too old; 0 if there is none.
	next time.Duration
}

// keeping returns where the events begin of those runs of a tree that have not ended, or did so within an age.
func (u *upkeep) keeping(ctx context.Context, root *cairn.Session, age time.Duration) (keeping, error) {
	k := keeping{from: root.LogSequence + 1} // from where a snapshot is followed, and the next run begins
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

// keepRuns adds the runs of a session that have not ended, or did so after since.
func (u *upkeep) keepRuns(ctx context.Context, row *cairn.Session, since time.Time, k *keeping) error {
	for run, err := range store.All(func(cursor string) (store.Page[cairn.Run], error) {
		limit := 100
		if cursor == "" { // of most sessions only the last runs are young
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

// runBefore returns the first event of the latest run of a root that began no later than behind an event; 0 if there is none.
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

// sweepLogs trims the logs that have grown, or some of whose events have become too old, since they were last swept. Those
// that rest are not looked at.
func (u *upkeep) sweepLogs(ctx context.Context, r *SweepReport) error {
	sweeper, ok := u.log.(store.LogSweeper)
	if !ok || u.events == (EventRetention{}) {
		return nil
	}
	for log, err := range store.All(func(cursor string) (store.Page[string], error) { // before that nothing that made it due can go
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
		case errors.Is(err, cairn.ErrDeleted): // with its log, meanwhile
		case err != nil:
			r.failed(root, err)
		case n > 0:
			r.Trimmed++
			r.EventsTrimmed += n
		}
	}
	return nil
}

// sweepLog trims one log and says when it is to be looked at again. The log of a session that is gone is left to its purge.
func (u *upkeep) sweepLog(ctx context.Context, sweeper store.LogSweeper, root, log string) (int64, error) {
	row, err := store.Load(ctx, u.store, root)
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
	t, err := u.trimming(ctx, row, u.events)
	if err != nil {
		return 0, err
	}
	n, err := t.trim(ctx, u.log)
	if err != nil {
		return 0, err
	}
	return n, sweeper.Swept(ctx, log, t.last, max(t.next-MinEventAge, 0))
}
