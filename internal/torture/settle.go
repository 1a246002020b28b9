package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// standstill bounds how long a wait lasts without progress: on a busy machine, what is slow is not stuck.
type standstill struct {
	within time.Duration
	seen   map[string]progress // of the sessions waited for, by id
	since  time.Time           // when they were first seen like this
}

// progress is how far a session is. Takeovers and leases, which a run that gets nowhere has as well, are no progress.
type progress struct {
	status                       cairn.SessionStatus
	turn, step, messages, queued int
	open                         int // calls
}

// over reports whether the sessions that are waited for have stayed the same, without progress of any, for too long.
func (s *standstill) over(rows []cairn.Session) bool {
	now := map[string]progress{}
	for i := range rows {
		r := &rows[i]
		now[r.ID] = progress{r.Status, r.Turn, r.Step, r.MessageCount, r.Queued, r.OpenCalls}
	}
	if s.seen == nil || !maps.Equal(now, s.seen) {
		s.seen, s.since = now, time.Now()
	}
	return time.Since(s.since) > s.within
}

// settle works until nothing is due and every log has the end of its session's last run. With a clerk, it works
// until every pending call has been answered.
func settle(ctx context.Context, st driver.Store, eng *engine.Engine, answer *clerk) error {
	rows, err := rest(ctx, st, eng, answer)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	errs := make([]error, len(rows))
	var following sync.WaitGroup
	turns := make(chan struct{}, 256) // a process has a limited number of connections
	for i := range rows {
		turns <- struct{}{}
		following.Go(func() {
			errs[i] = followToEnd(ctx, st, eng, &rows[i])
			<-turns
		})
	}
	following.Wait()
	return errors.Join(errs...)
}

// rest works until no session is at work or, with a clerk, waits for an answer, and returns all sessions.
func rest(ctx context.Context, st driver.Store, eng *engine.Engine, answer *clerk) ([]cairn.Session, error) {
	atWork := func(row cairn.Session) bool { return atWork(row) || answer != nil && row.Status == cairn.SessionPaused }
	rows, err := quiet(ctx, st, eng, answer)
	// A deadline may pass, or a queued turn may begin, while the worker stops.
	for err == nil && slices.ContainsFunc(rows, atWork) {
		rows, err = quiet(ctx, st, eng, answer)
	}
	return rows, err
}

// atWork reports whether a session is being driven, or will be once a worker polls.
func atWork(row cairn.Session) bool {
	return row.Status == cairn.SessionActive || row.Queued > 0 && row.Status != cairn.SessionPaused
}

// quiet works until no session is active, nothing is due and, with a clerk, no call is pending. It returns all
// sessions as of after the worker has stopped.
func quiet(ctx context.Context, st driver.Store, eng *engine.Engine, answer *clerk) ([]cairn.Session, error) {
	work, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- eng.Work(work) }()
	err := awaitQuiet(ctx, st, answer)
	stop()
	if err := errors.Join(err, <-worked); err != nil {
		return nil, err
	}
	return pages(func(cursor string) (driver.Page[cairn.Session], error) {
		return st.List(ctx, driver.SessionQuery{Cursor: cursor})
	})
}

// awaitQuiet waits until no session is active, nothing is due and, with a clerk, no call is pending. It gives up after
// settleWithin without progress, or after lastsAtMost.
func awaitQuiet(ctx context.Context, st driver.Store, answer *clerk) error {
	ctx, cancel := context.WithTimeout(ctx, lastsAtMost)
	defer cancel()
	still := standstill{within: settleWithin}
	busy := []cairn.SessionStatus{cairn.SessionActive}
	if answer != nil {
		busy = append(busy, cairn.SessionPaused)
	}
	for {
		if answer != nil {
			if err := answer.clear(ctx); err != nil {
				return err
			}
		}
		page, err := st.Due(ctx, driver.DueQuery{Limit: 10})
		due := page.Items
		if err != nil {
			return err
		}
		at, err := pages(func(cursor string) (driver.Page[cairn.Session], error) {
			return st.List(ctx, driver.SessionQuery{Statuses: busy, Cursor: cursor})
		})
		if err != nil {
			return err
		}
		if len(due) == 0 && len(at) == 0 {
			return nil
		}
		if err = testclock.Pause(ctx, 50*time.Millisecond); err == nil && still.over(at) {
			err = fmt.Errorf("there was no progress for %s", still.within)
		}
		if err != nil {
			return fmt.Errorf("due are %+v, and still at it %+v: %w", due, at[:min(len(at), 10)], err)
		}
	}
}

// followToEnd follows a session's log from the begin of its last run to the end of that run.
func followToEnd(ctx context.Context, st driver.Store, eng *engine.Engine, row *cairn.Session) error {
	run, err := driver.FindRun(ctx, st, row.ID, row.RunID)
	if err != nil {
		return err
	}
	for ev, err := range eng.Events(ctx, row.ID, cairn.After(run.StartSequence)) {
		if err != nil {
			return err
		}
		if ev.Ends(run.ID) && ev.Status == run.Status {
			return nil
		}
	}
	return fmt.Errorf("session %s: the log does not say that run %s is %s: %w", row.ID, run.ID, run.Status, ctx.Err())
}
