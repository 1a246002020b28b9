package pgstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// gathered is a store whose collectors are held up, so that steps gather.
type gathered struct {
	*Store
	t       *testing.T
	free    chan struct{} // closed to let the collectors continue
	group   sync.WaitGroup
	mu      sync.Mutex
	joined  int // statements with several steps
	holding bool
}

// gather holds a store's collectors up, with a step each.
func gather(t *testing.T, s *Store) *gathered {
	t.Helper()
	g := &gathered{Store: s, t: t, free: make(chan struct{}), holding: true}
	var blockers []*stepper
	for i := range defaultCollectors {
		blockers = append(blockers, newStepper(t, s, fmt.Sprint("blocker-", i), nil))
	}
	arrived := make(chan struct{}, defaultCollectors)
	hook := func(text string) error {
		g.mu.Lock()
		if text == joined || text == joinedLogged {
			g.joined++
		}
		hold := g.holding
		g.mu.Unlock()
		if hold {
			arrived <- struct{}{}
			<-g.free
		}
		return nil
	}
	s.intercept.Store(&hook)
	for _, st := range blockers {
		g.group.Go(func() {
			if err := st.step(); err != nil {
				t.Error(err)
			}
		})
	}
	for range blockers {
		<-arrived
	}
	return g
}

// queued waits until so many steps wait for a collector.
func (g *gathered) queued(n int) {
	g.t.Helper()
	for {
		g.joiner.mu.Lock()
		waiting := len(g.joiner.waiting)
		g.joiner.mu.Unlock()
		if waiting == n {
			return
		}
		if g.t.Context().Err() != nil {
			g.t.Fatalf("%d steps wait, want %d", waiting, n)
		}
		runtime.Gosched()
	}
}

// release lets the collectors continue and waits for all steps. It returns how many statements had several steps.
func (g *gathered) release() int {
	g.mu.Lock()
	g.holding = false
	g.mu.Unlock()
	close(g.free)
	g.group.Wait()
	g.intercept.Store(nil)
	return g.joined
}

// TestJoinedSteps makes steps of many sessions pending at the same moment: they share one statement, and each is
// committed once.
func TestJoinedSteps(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := place(t, p.simple)(t)
			var list []*stepper
			for i := range 20 {
				list = append(list, newStepper(t, s, fmt.Sprint("session-", i), nil))
			}
			g := gather(t, s)
			for _, st := range list {
				g.group.Go(func() {
					for range stepsPerRun {
						if err := st.step(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			g.queued(len(list))
			if g.release() == 0 {
				t.Error("no steps went together")
			}
			for _, st := range list {
				wantSteps(t, s, st.row.ID, stepsPerRun)
				run := must(driver.FindRun(t.Context(), s, st.row.ID, "run-0"))
				if run.Status != cairn.RunCompleted || run.EndedAt.IsZero() || st.row.Lease.Owner != "" {
					t.Errorf("run %+v, lease %+v", run, st.row.Lease)
				}
			}
		})
	}
}

// TestJoinedStepsBesideAHangingStatement makes a statement of many steps hang: a step that comes later, and would
// otherwise wait for it so as not to be sent alone, is committed through the free collector.
func TestJoinedStepsBesideAHangingStatement(t *testing.T) {
	t.Parallel()
	s := place(t, false)(t)
	var list []*stepper
	for i := range 20 {
		list = append(list, newStepper(t, s, fmt.Sprint("session-", i), nil))
	}
	late := newStepper(t, s, "late", nil)
	g := gather(t, s)
	for _, st := range list {
		g.group.Go(func() {
			if err := st.step(); err != nil {
				t.Error(err)
			}
		})
	}
	g.queued(len(list))
	hanging, resumed := make(chan struct{}), make(chan struct{})
	hook := func(text string) error {
		if text == joined || text == joinedLogged {
			close(hanging)
			<-resumed
		}
		return nil
	}
	s.intercept.Store(&hook)
	close(g.free)
	<-hanging
	done := make(chan error, 1)
	go func() { done <- late.step() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the step still waits for the hanging statement")
	}
	close(resumed)
	g.group.Wait()
	s.intercept.Store(nil)
	wantSteps(t, s, "late", 1)
	wantSteps(t, s, "session-0", 1)
}

// TestJoinedStepsFailAlone makes steps that cannot be written pending together with others: the others are written.
func TestJoinedStepsFailAlone(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := second(t, s)
	list := map[string]*stepper{}
	for _, id := range []string{"good", "stale", "fenced", "taken", "cancelled", "changed"} {
		st := newStepper(t, s, id, nil)
		list[id] = st
		for range 2 {
			if err := st.step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	message := &driver.Commit{Messages: []cairn.Message{cairn.Context("from elsewhere")}}
	elsewhere := func(id string, c *driver.Commit) {
		t.Helper()
		if _, err := other.Commit(t.Context(), id, c); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere("stale", message)
	elsewhere("fenced", &driver.Commit{Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "another"}})
	elsewhere("changed", message)

	g := gather(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	errs := map[string]error{}
	var mu sync.Mutex
	commit := func(ctx context.Context, id string, c *driver.Commit) {
		g.group.Go(func() {
			_, err := s.Commit(ctx, id, c)
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
	}
	for _, id := range []string{"good", "stale", "fenced"} {
		commit(t.Context(), id, list[id].next())
	}
	taken := list["taken"].next()
	taken.Checkpoint.ID = "cp-1" // which the server refuses, with all that goes with it
	commit(t.Context(), "taken", taken)
	commit(ctx, "cancelled", list["cancelled"].next())
	unguarded := *message
	commit(t.Context(), "changed", &unguarded)
	g.queued(6)
	cancel()
	g.queued(5)
	if g.release() != 1 {
		t.Error("the steps did not go together")
	}
	for id, want := range map[string]error{"good": nil, "stale": cairn.ErrStale, "fenced": cairn.ErrFenced, "taken": cairn.ErrInvalid,
		"cancelled": context.Canceled, "changed": nil} {
		if !errors.Is(errs[id], want) {
			t.Errorf("%s: %v, want %v", id, errs[id], want)
		}
	}
	wantSteps(t, s, "good", 3)
	wantSteps(t, s, "cancelled", 2)
	if n := must(driver.Load(t.Context(), s, "changed")).MessageCount; n != 6 {
		t.Errorf("%d messages of a session that another process had added to, want 6", n)
	}
}

// TestJoinedStepsOfOneSession makes commits to one session pending at the same moment: each statement has one of them.
func TestJoinedStepsOfOneSession(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	row := newStepper(t, s, "session", nil).row
	g := gather(t, s)
	const commits = 5
	for range commits {
		g.group.Go(func() {
			if _, err := s.Commit(t.Context(), row.ID, &driver.Commit{Messages: stepMessages("run")}); err != nil {
				t.Error(err)
			}
		})
	}
	g.queued(commits)
	g.release()
	if after := must(driver.Load(t.Context(), s, row.ID)); after.MessageCount != 2*commits || after.Version < row.Version+commits {
		t.Errorf("%d messages at version %d", after.MessageCount, after.Version)
	}
}
