package cairntest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// clock is the store's clock: the time of the process, or of a synctest bubble, plus the time by which it was
// advanced.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Advance waits until no run is under way, moves the store's clock forward, and does the work of a worker. It closes
// the calls whose deadline has passed, resumes the runs that waited for them, and removes expired sessions. It returns
// when that is done. Timeouts within a process (a tool's, a pause between two attempts) use another clock: test them
// inside testing/synctest.
func (s *Session) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	s.await(t, s.busy)
	s.clock.ahead.Add(int64(d))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- s.Engine.Work(ctx) }()
	s.await(t, func(t testing.TB) bool { return s.due(t) || s.busy(t) })
	stop()
	if err := <-worked; err != nil {
		t.Fatalf("cairntest: worker: %v", err)
	}
	r, err := s.Engine.Sweep(t.Context())
	if r.ClockJump != 0 { // this function's doing
		_, err = s.Engine.Sweep(t.Context())
	}
	if err != nil {
		t.Fatalf("cairntest: sweep: %v", err)
	}
}

// await waits while a condition holds.
func (s *Session) await(t testing.TB, holds func(testing.TB) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for holds(t) {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("cairntest: the test ended while runs were under way")
		}
	}
}

// due reports whether a session needs a worker.
func (s *Session) due(t testing.TB) bool {
	t.Helper()
	page, err := s.Store.Due(t.Context(), driver.DueQuery{Limit: 1})
	if err != nil {
		t.Fatalf("cairntest: due sessions: %v", err)
	}
	return len(page.Items) > 0
}

// busy reports whether a run is under way.
func (s *Session) busy(t testing.TB) bool {
	t.Helper()
	page, err := s.Store.List(t.Context(), store.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionActive}, Limit: 1})
	if err != nil {
		t.Fatalf("cairntest: active sessions: %v", err)
	}
	return len(page.Items) > 0
}
