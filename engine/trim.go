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

const (
	// MinEventAge is how long an event stays on its log at least, whatever is trimmed: readers may still be at it.
	MinEventAge = time.Hour

	// restSweep is how long a log may rest until it is looked at again although nothing was appended to it, and nothing of it
	// will be too old: the bounds may be others by then.
	restSweep = 30 * 24 * time.Hour
)

// EventRetention bounds an event log. The zero value keeps everything.
//
// A log is cut where a run of the tree began, and keeps at least what follows the last commit of its root, the events of
// every run that has not ended or is suspended, and those of the last hour, see [MinEventAge]; ages are of the store's clock.
// Readers that ask for events which were trimmed get ErrTrimmed, and begin at a [Snapshot], whose cursor is always
// in the log. The transcript, the state and the checkpoints keep everything.
type EventRetention struct {
	// Age is how long the events of a run are kept after it has ended; 0 means for ever. The least is an hour.
	Age time.Duration
	// Events is how many of its newest events a log keeps, and with them the rest of the run that the oldest of them belongs
	// to; 0 means any number.
	Events int
}

// complete implements setting.
func (r *EventRetention) complete() error {
	switch {
	case r.Age < 0:
		return cairn.Invalid("event_retention.age", "%s is negative", r.Age)
	case r.Age > 0 && r.Age < MinEventAge:
		return cairn.Invalid("event_retention.age", "%s is less than %s, for which events are kept in any case", r.Age, MinEventAge)
	case r.Events < 0:
		return cairn.Invalid("event_retention.events", "%d is negative", r.Events)
	}
	return nil
}

// TrimEvents removes from the log of a session's tree what a retention does not keep, and returns how many events that were.
// Workers do so by themselves with Options.EventRetention. The error is ErrInvalid for the session of a sub-agent or companion,
// whose events are on the log of its root.
func (e *Engine) TrimEvents(ctx context.Context, id string, keep EventRetention) (int64, error) {
	if err := keep.complete(); err != nil {
		return 0, err
	}
	row, err := e.Session(ctx, id)
	if err != nil {
		return 0, err
	}
	if row.RootID != id {
		return 0, store.NotRoot(row)
	}
	t, err := e.trimming(ctx, row, keep)
	if err != nil {
		return 0, err
	}
	return t.trim(ctx, e.log)
}

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
func (e *Engine) trimming(ctx context.Context, root *cairn.Session, keep EventRetention) (*trimming, error) {
	t := &trimming{log: root.Log(), next: restSweep}
	var err error
	if t.first, t.last, err = e.log.Bounds(ctx, t.log); err != nil {
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
		old, err := e.keeping(ctx, root, keep.Age)
		if err != nil {
			return nil, err
		}
		t.cut = old.from
		t.soonest(old.next)
	}
	if newest < max(t.first, t.cut) {
		return t, nil
	}
	young, err := e.keeping(ctx, root, MinEventAge)
	if err != nil {
		return nil, err
	}
	cut, err := e.runBefore(ctx, root, newest)
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
func (e *Engine) keeping(ctx context.Context, root *cairn.Session, age time.Duration) (keeping, error) {
	k := keeping{from: root.LogSequence + 1} // from where a snapshot is followed, and the next run begins
	since := root.AsOf.Add(-age)
	for _, q := range []store.SessionQuery{
		{RootID: root.ID, UpdatedAfter: since},
		{RootID: root.ID, UpdatedBefore: since, Statuses: []cairn.SessionStatus{cairn.SessionActive, cairn.SessionPaused}},
	} {
		for {
			page, err := e.store.List(ctx, q)
			if err != nil {
				return k, err
			}
			for i := range page.Items {
				if err := e.keepRuns(ctx, &page.Items[i], since, &k); err != nil {
					return k, err
				}
			}
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
		}
	}
	return k, nil
}

// keepRuns adds the runs of a session that have not ended, or did so after since.
func (e *Engine) keepRuns(ctx context.Context, row *cairn.Session, since time.Time, k *keeping) error {
	q := store.PageQuery{Newest: true, Limit: 10}
	for {
		page, err := e.store.Runs(ctx, row.ID, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			run := &page.Items[i]
			open := run.EndedAt.IsZero() || row.Status == cairn.SessionPaused && run.ID == row.RunID
			if !open && !run.EndedAt.After(since) {
				return nil
			}
			k.from = min(k.from, run.StartSequence+1)
			if left := run.EndedAt.Sub(since); !open && (k.next == 0 || left < k.next) {
				k.next = left
			}
		}
		if q.Cursor, q.Limit = page.Next, 100; page.Next == "" {
			return nil
		}
	}
}

// runBefore returns the first event of the latest run of a root that began no later than behind an event; 0 if there is none.
func (e *Engine) runBefore(ctx context.Context, root *cairn.Session, event int64) (int64, error) {
	q := store.PageQuery{Newest: true}
	for {
		page, err := e.store.Runs(ctx, root.ID, q)
		if err != nil {
			return 0, err
		}
		for i := range page.Items {
			if at := page.Items[i].StartSequence; at <= event {
				return at + 1, nil
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return 0, nil
		}
	}
}

// sweepLogs trims the logs that have grown, or some of whose events have become too old, since they were last swept. Those
// that rest are not looked at.
func (e *Engine) sweepLogs(ctx context.Context, r *SweepReport) error {
	sweeper, ok := e.log.(store.LogSweeper)
	if !ok || e.opts.EventRetention == (EventRetention{}) {
		return nil
	}
	q := store.PageQuery{Limit: sweepBatch}
	for {
		page, err := sweeper.Unswept(ctx, MinEventAge, q) // before that nothing that made it due can go
		if err != nil {
			return err
		}
		for _, log := range page.Items {
			root := log
			if i := strings.LastIndexByte(log, '@'); i > 0 {
				root = log[:i]
			}
			n, err := e.sweepLog(ctx, sweeper, root, log)
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
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// sweepLog trims one log and says when it is to be looked at again. The log of a session that is gone is left to its purge.
func (e *Engine) sweepLog(ctx context.Context, sweeper store.LogSweeper, root, log string) (int64, error) {
	row, err := store.Load(ctx, e.store, root)
	if errors.Is(err, cairn.ErrNotFound) || err == nil && row.Log() != log {
		_, last, err := e.log.Bounds(ctx, log)
		if err != nil {
			return 0, err
		}
		return 0, sweeper.Swept(ctx, log, last, restSweep)
	}
	if err != nil {
		return 0, err
	}
	t, err := e.trimming(ctx, row, e.opts.EventRetention)
	if err != nil {
		return 0, err
	}
	n, err := t.trim(ctx, e.log)
	if err != nil {
		return 0, err
	}
	return n, sweeper.Swept(ctx, log, t.last, max(t.next-MinEventAge, 0))
}
