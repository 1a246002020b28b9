package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// The steps of one tree that are pending at the same moment share one statement; a step of a tree waits while a
// statement under way appends to its log, and steps of other trees do not.
func TestJoinedStepsOfOneTree(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := place(t, p.simple)(t)
			root := newStepper(t, s, "root", nil)
			var list []*stepper
			for i := range 20 {
				list = append(list, newChild(t, s, fmt.Sprint("child-", i), root.row))
			}
			other := newStepper(t, s, "other", nil)
			for _, st := range append(list, root, other) {
				if err := st.publish(); err != nil {
					t.Fatal(err)
				}
			}
			g := gather(t, s)
			for _, st := range list {
				g.group.Go(func() {
					if err := st.publish(); err != nil {
						t.Error(err)
					}
				})
			}
			g.queued(len(list))
			holding, resume := make(chan struct{}), make(chan struct{})
			joins := 0
			hook := func(text string) error {
				if text == joinedLogged {
					joins++
					close(holding)
					<-resume
				}
				return nil
			}
			s.intercept.Store(&hook)
			close(g.free)
			<-holding
			g.group.Go(func() {
				if err := root.publish(); err != nil {
					t.Error(err)
				}
			})
			g.queued(1)
			for range 3 { // the other collector is free
				if err := other.publish(); err != nil {
					t.Error(err)
				}
			}
			g.queued(1)
			close(resume)
			g.group.Wait()
			if joins != 1 {
				t.Errorf("%d statements with several steps, want 1", joins)
			}
			s.joiner.wait()
			if s.joiner.blocked != 0 || len(s.joiner.logs) != 0 || s.joiner.sent != 0 {
				t.Errorf("the idle joiner counts %d blocked steps, %d logs and %d steps", s.joiner.blocked, len(s.joiner.logs), s.joiner.sent)
			}
			wantPublished(t, s, root.row, append(list, root)...)
			wantPublished(t, s, other.row, other)
		})
	}
}

// Steps go together whose trees have a log, have none yet, or had one that was dropped. The latter are refused.
func TestJoinedStepsAndTheirLogs(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	list := map[string]*stepper{}
	for _, id := range []string{"there", "missing", "dropped", "silent"} {
		list[id] = newStepper(t, s, id, nil)
		step := list[id].publish
		if id == "missing" || id == "silent" {
			step = list[id].step
		}
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.log.Drop(t.Context(), list["dropped"].row.Log()); err != nil {
		t.Fatal(err)
	}
	g := gather(t, s)
	errs := map[string]error{}
	var mu sync.Mutex
	for id, st := range list {
		step := st.publish
		if id == "silent" {
			step = st.step
		}
		g.group.Go(func() {
			err := step()
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
	}
	g.queued(len(list))
	if g.release() != 1 {
		t.Error("the steps did not go together")
	}
	for id, want := range map[string]error{"there": nil, "missing": nil, "dropped": cairn.ErrDeleted, "silent": nil} {
		if !errors.Is(errs[id], want) {
			t.Errorf("%s: %v, want %v", id, errs[id], want)
		}
	}
	wantSteps(t, s, "there", 2)
	wantSteps(t, s, "missing", 2)
	wantSteps(t, s, "dropped", 1)
	wantSteps(t, s, "silent", 2)
	wantPublished(t, s, list["there"].row, list["there"])
	wantLog(t, s, list["missing"].row, "2 2.")
	if n := list["missing"].row.LogSequence; n != 2 {
		t.Errorf("the row with a new log is at %d, want 2", n)
	}
}

// A commit that takes the lease together with others fences off the holder before from the log.
func TestJoinedStepsFence(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	root := newStepper(t, s, "root", nil)
	if err := root.publish(); err != nil {
		t.Fatal(err)
	}
	var list []*stepper
	append1 := func(st *stepper, token, batch int64) error {
		w := driver.Writer{Session: st.row.ID, Token: token, ID: "writer", Batch: batch}
		_, err := s.log.AppendFenced(t.Context(), root.row.Log(), driver.AnySequence, w, textEvent("live"))
		return err
	}
	for i := range 8 {
		st := newChild(t, s, fmt.Sprint("child-", i), root.row)
		for range stepsPerRun { // the next one takes the lease
			if err := st.publish(); err != nil {
				t.Fatal(err)
			}
		}
		if err := append1(st, st.row.Lease.Token, 7); err != nil {
			t.Fatal(err)
		}
		list = append(list, st)
	}
	g := gather(t, s)
	for i, st := range list {
		g.group.Go(func() {
			before := st.row.Lease.Token
			if err := st.publish(); err != nil {
				t.Error(err)
			}
			if err := append1(st, before, 8); !errors.Is(err, cairn.ErrFenced) {
				t.Errorf("session %d: an append of the holder before: %v", i, err)
			}
			if err := append1(st, st.row.Lease.Token, 1); err != nil { // batches of the writer before do not count
				t.Errorf("session %d: an append of the holder: %v", i, err)
			}
		})
	}
	g.queued(len(list))
	if g.release() != 1 {
		t.Error("the steps did not go together")
	}
	wantPublished(t, s, root.row, append(list, root)...)
	if n := len(must(s.log.Read(t.Context(), root.row.Log(), 0, 10_000))); n != 2+8*(2*11+2) {
		t.Errorf("the log has %d events", n)
	}
}

// TestEventsOfManyWriters has commits that join, commits that go alone, live appends, verbs of another process, new
// children, branches and drops write to a few logs at once, through two stores. Nothing blocks for ever, the server
// finds no deadlock, and the log has each commit's events once.
func TestEventsOfManyWriters(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var two []*Store
	for range 2 {
		two = append(two, openAt(t, server.URL(), &Options{Collectors: 3}))
	}
	const trees, children, steps = 3, 8, 25
	var roots, all []*stepper
	var first []*cairn.Session // the rows of roots
	for i := range trees {
		root := newStepper(t, two[i%2], fmt.Sprint("root-", i), nil)
		roots, all, first = append(roots, root), append(all, root), append(first, root.row)
		for k := range children {
			all = append(all, newChild(t, two[k%2], fmt.Sprintf("child-%d-%d", i, k), root.row))
		}
	}
	var group sync.WaitGroup
	do := func(what string, work func() error) {
		group.Go(func() {
			if err := work(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	for _, st := range all {
		do("steps of "+st.row.ID, func() error {
			for range steps {
				if err := st.publish(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range roots {
		s, root := two[i%2], first[i]
		do("live events", func() error {
			for range 4 * steps {
				if _, err := s.log.Append(ctx, root.Log(), driver.AnySequence, textEvent("live"), textEvent("live")); err != nil {
					return err
				}
			}
			return nil
		})
		do("verbs", func() error { // which make steps stale
			for range steps {
				id := fmt.Sprintf("child-%d-%d", i, rand.IntN(children))
				_, err := s.Commit(ctx, id, &driver.Commit{Usage: cairn.Usage{WaitSeconds: 1}, Events: []cairn.Event{textEvent("verb")}})
				if err != nil {
					return err
				}
			}
			return nil
		})
		do("branches and drops", func() error {
			for k := range steps {
				row, err := s.Branch(ctx, root.ID, driver.BranchPoint{Events: eventsOf("branch", "branched")}, &cairn.Session{ID: fmt.Sprintf("branch-%d-%d", i, k), Agent: "support"})
				if err == nil {
					err = s.log.Drop(ctx, row.Log())
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		do("new children", func() error {
			for k := range steps {
				c := &driver.Commit{Guard: driver.Guard{New: true}, Events: []cairn.Event{textEvent("born")},
					Create: &cairn.Session{Agent: "support", ParentID: root.ID, RootID: root.ID, Incarnation: root.Incarnation}}
				if _, err := s.Commit(ctx, fmt.Sprintf("late-%d-%d", i, k), c); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		t.Fatal("the writers took too long")
	}
	for i, root := range roots {
		wantPublished(t, two[0], root.row, all[i*(children+1):(i+1)*(children+1)]...)
		if n, want := len(must(two[1].log.Read(t.Context(), root.row.Log(), 0, 100_000))), steps*(2*(children+1)+4*2+1+1); n != want {
			t.Errorf("the log has %d events, want %d", n, want)
		}
	}
	for _, s := range two {
		if err := s.Close(); err != nil { // the server counts when connections end
			t.Error(err)
		}
	}
	var deadlocks int
	if oneValue(t, server.URL(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", &deadlocks); deadlocks > 0 {
		t.Errorf("the server found %d deadlocks", deadlocks)
	}
}
