package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// need returns why a session needs a worker at a time; empty if it does not.
func need(row *cairn.Session, at time.Time) driver.DueKind {
	if row.Outbox != nil && row.Status != cairn.SessionActive {
		return driver.DueOutbox
	}
	switch row.Status {
	case cairn.SessionActive:
		if !at.Before(row.Lease.Until) {
			return driver.DueCrashed
		}
	case cairn.SessionPaused:
		if row.Ending != nil {
			return driver.DueEnding
		}
		if row.SuspendedStep != "" && row.OpenCalls == 0 {
			return driver.DueReady
		}
		if !row.NextDeadline.IsZero() && !at.Before(row.NextDeadline) {
			return driver.DueDeadline
		}
	default:
		if row.Queued > 0 {
			return driver.DueQueued
		}
	}
	return ""
}

// allDue returns every session that a store lists as due.
func allDue(ctx context.Context, st driver.Store) (map[string]driver.DueKind, error) {
	due := map[string]driver.DueKind{}
	for d, err := range driver.All(func(cursor string) (driver.Page[driver.Due], error) {
		return st.Due(ctx, driver.DueQuery{Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		due[d.SessionID] = d.Kind
	}
	return due, nil
}

// watch checks, while processes come and go, the lists of a store that workers depend on.
type watch struct {
	st driver.Store
	// idle bounds the time for which a session may be active without a lease.
	idle func() time.Duration

	mu   sync.Mutex
	seen map[string]seen // sessions that were active without a lease
}

// seen is a session's version and lease when it was first seen active without a lease.
type seen struct {
	version, token int64
	until, since   time.Time
}

// is reports whether the session has not changed since.
func (s seen) is(row *cairn.Session) bool {
	return s.version == row.Version && s.token == row.Lease.Token && s.until.Equal(row.Lease.Until)
}

func look(row *cairn.Session, at time.Time) seen {
	return seen{row.Version, row.Lease.Token, row.Lease.Until, at}
}

// ask finds active sessions, and sessions created since a time, that need a worker but that Due does not list, and
// sessions that have been active without a lease for too long. It ignores a server that is down.
func (w *watch) ask(ctx context.Context, since time.Time) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now()
	active, err := w.list(ctx, driver.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionActive}})
	if err != nil {
		return unless(err, cairn.ErrUnavailable)
	}
	recent, err := w.list(ctx, driver.SessionQuery{CreatedAfter: since})
	if err != nil {
		return unless(err, cairn.ErrUnavailable)
	}
	due, err := allDue(ctx, w.st)
	if err != nil {
		return unless(err, cairn.ErrUnavailable)
	}
	var list []error
	for _, row := range append(recent, active...) {
		kind := need(&row, at)
		if kind == "" || due[row.ID] != "" {
			continue
		}
		now, err := driver.Load(ctx, w.st, row.ID)
		switch {
		case err != nil:
			list = append(list, unless(err, cairn.ErrUnavailable)...)
		case look(&row, at).is(now):
			list = append(list, fmt.Errorf("session %s needs a worker (%s) and is not due: %+v", row.ID, kind, row))
		}
	}
	return append(list, w.abandoned(active, at)...)
}

// abandoned finds sessions that have been active without a lease for too long.
func (w *watch) abandoned(active []cairn.Session, at time.Time) (list []error) {
	still, idle := map[string]seen{}, w.idle()
	for i := range active {
		row := &active[i]
		if need(row, at) == "" {
			continue
		}
		s, ok := w.seen[row.ID]
		if !ok || !s.is(row) {
			s = look(row, at)
		}
		if still[row.ID] = s; at.Sub(s.since) > idle {
			list = append(list, fmt.Errorf("session %s has been active without a lease for %s: %+v", row.ID, at.Sub(s.since), *row))
		}
	}
	w.seen = still
	return list
}

// taken waits until each session that is active without a lease has been taken on since taken was called. One that is
// without a lease again, as while a host's server is paused, does not count twice. It gives up after
// the given time without progress of an active session, or after lastsAtMost.
func (w *watch) taken(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, lastsAtMost)
	defer cancel()
	still := standstill{within: within}
	waiting, done := map[string]bool{}, map[string]bool{}
	for {
		active, err := w.list(ctx, driver.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionActive}})
		at := time.Now()
		if err == nil {
			lapsed := map[string]bool{}
			for i := range active {
				if id := active[i].ID; need(&active[i], at) != "" && !done[id] {
					lapsed[id] = true
				}
			}
			for id := range waiting {
				done[id] = !lapsed[id]
			}
			if waiting = lapsed; len(waiting) == 0 {
				return nil
			}
		}
		if err = testclock.Pause(ctx, 20*time.Millisecond); err == nil && still.over(active) {
			err = fmt.Errorf("there was no progress for %s", within)
		}
		if err != nil {
			return fmt.Errorf("sessions are active without a lease, and nobody has taken them on: %q: %w", slices.Sorted(maps.Keys(waiting)), err)
		}
	}
}

// left finds a session whose lease belongs to a process that closed its engine.
func (w *watch) left(ctx context.Context, pid int) error {
	active, err := w.list(ctx, driver.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionActive}})
	for i := range active {
		row := &active[i]
		if strings.Contains(row.Lease.Owner, fmt.Sprintf(":%d:", pid)) && need(row, time.Now()) == "" {
			return fmt.Errorf("it has closed its engine and has the lease of session %s: %+v", row.ID, *row)
		}
	}
	return err
}

func (w *watch) list(ctx context.Context, q driver.SessionQuery) ([]cairn.Session, error) {
	return pages(func(cursor string) (driver.Page[cairn.Session], error) {
		q.Cursor = cursor
		return w.st.List(ctx, q)
	})
}

// unless returns err, unless it is nil or the expected one.
func unless(err, expected error) []error {
	if err == nil || errors.Is(err, expected) {
		return nil
	}
	return []error{err}
}
