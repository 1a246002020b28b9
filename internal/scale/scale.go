// Package scale fills stores with a few sessions or a million, and compares what calls cost on them. It is for the
// tests of stores.
package scale

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// How sessions are distributed. A store has a fixed number of crashed and expired sessions, however many others it has:
// their number follows from what happens, not from what is kept.
const (
	tree     = 20  // sessions of a tree
	agents   = 50  // named agent-0, agent-1, …
	tags     = 10  // one for each session
	crashed  = 100 // sessions of the agent "crashed"
	expired  = 100 // roots of the agent "expired"
	calling  = 5   // one session in this many has an open call
	owned    = 10  // trees of a user
	pageSize = 20
)

// id returns the id of a session.
func id(n int) string { return fmt.Sprintf("session-%08d", n) }

// user returns the user of a session.
func user(n int) string { return fmt.Sprint("user-", n/tree/owned) }

// Fill makes n sessions in a store, each with a run of two messages and a checkpoint. It uses that many concurrent
// writers.
func Fill(ctx context.Context, st driver.Store, n, writers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	trees := make(chan int)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for first := range trees {
				for i := first; i < min(first+tree, n); i++ {
					if _, err := st.Commit(ctx, id(i), fresh(i, first)); err != nil {
						cancel(fmt.Errorf("session %d: %w", i, err))
						return
					}
				}
			}
		})
	}
	for first := 0; first < n && ctx.Err() == nil; first += tree {
		select {
		case trees <- first:
		case <-ctx.Done():
		}
	}
	close(trees)
	group.Wait()
	return context.Cause(ctx)
}

// fresh returns the commit that creates session i, whose root is session first.
func fresh(i, first int) *driver.Commit {
	s := &cairn.Session{Agent: fmt.Sprint("agent-", i%agents), UserID: user(first), RootID: id(first),
		Tags: []string{fmt.Sprint("tag-", i%tags)}, Metadata: cairn.Metadata{"team": fmt.Sprint("team-", i%tags)}}
	if i > first {
		s.ParentID = id(first)
	}
	c := &driver.Commit{Guard: driver.Guard{New: true}, Create: s, Status: cairn.SessionCompleted, Step: 1,
		StartRun: &cairn.Run{ID: "run-1", Agent: s.Agent, Kind: cairn.RunExecute, Status: cairn.RunCompleted},
		Messages: []cairn.Message{
			{ID: "run-1/in0", Role: cairn.RoleUser, RunID: "run-1", Parts: []cairn.Part{cairn.TextPart("What is the state of my order?")}},
			{ID: "run-1/1", Role: cairn.RoleAssistant, RunID: "run-1", Parts: []cairn.Part{cairn.TextPart("It was sent this morning.")}}},
		Checkpoint: &cairn.Checkpoint{ID: "cp-1", RunID: "run-1", StepID: "run-1/1", Step: 1}}
	switch {
	case i < crashed:
		s.Agent, s.RootID, s.ParentID, c.Status = "crashed", id(i), "", cairn.SessionActive
		c.Lease = driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Millisecond}
	case i < crashed+expired:
		s.Agent, s.RootID, s.ParentID, s.ExpiresAt = "expired", id(i), "", time.Now().Add(-time.Hour)
	case i%calling == 3:
		call := cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Kind: cairn.CallApproval, Tool: fmt.Sprint("tool-", i%7)},
			StepID: "run-1/1", Status: cairn.CallOpen}
		call.ID = fmt.Sprint("call-", i)
		if i%(2*calling) == 3 {
			call.Reviewers = []string{"ann"}
		}
		c.Calls, c.Suspend = []driver.CallWrite{{Call: call}}, &driver.Suspend{StepID: "run-1/1", OpenCalls: 1}
		c.Status = cairn.SessionPaused
	}
	return c
}

// Compare measures calls on two filled stores alternately, and reports what each costs on the second as a multiple of
// its cost on the first. Each call is measured on a session that was not touched before, and again right after. The
// second time a multiple above most fails the test; 0 means no limit. The first time it is only reported: a session
// that was not touched before is in no cache, and the smaller the store, the more of it is in one.
func Compare(t *testing.T, few, many driver.Store, fewSessions, manySessions, rounds int, most float64) {
	t.Helper()
	sides := [2]*side{{t: t, st: few, n: fewSessions}, {t: t, st: many, n: manySessions}}
	for range rounds {
		for _, s := range sides {
			s.round()
		}
	}
	for _, name := range sides[0].names {
		measured := func(times string) (ratio float64) {
			a, b := median(sides[0].times[times]), median(sides[1].times[times])
			ratio = float64(b) / float64(a)
			t.Logf("%-28s %9s %9s  %.2f", times, a.Round(time.Microsecond), b.Round(time.Microsecond), ratio)
			return ratio
		}
		measured(name + untouched)
		ratio := measured(name)
		if most > 0 && ratio > most {
			t.Errorf("%s costs %.2f times as much beside %d sessions as beside %d, at most %.2f are allowed", name, ratio,
				manySessions, fewSessions, most)
		}
	}
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// side is one of the compared stores.
type side struct {
	t     *testing.T
	st    driver.Store
	n     int  // sessions in the filled store
	made  int  // sessions created since then
	first bool // the round's session was not touched before
	names []string
	times map[string][]time.Duration
}

// untouched marks the times of calls on sessions that were not touched before.
const untouched = ", untouched"

// time runs call and records how long it took.
func (s *side) time(name string, call func() error) {
	s.t.Helper()
	began := time.Now()
	err := call()
	took := time.Since(began)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	if s.times == nil {
		s.times = map[string][]time.Duration{}
	}
	if s.first {
		name += untouched
	} else if s.times[name] == nil {
		s.names = append(s.names, name)
	}
	s.times[name] = append(s.times[name], took)
}

// round makes every call on a session, twice.
func (s *side) round() {
	s.t.Helper()
	at := crashed + expired + (s.made/2+1)*7919%(s.n-crashed-expired)
	for _, s.first = range []bool{true, false} {
		s.made++
		s.lists(at)
		s.calls(at)
		s.sweeps()
		s.turn(at)
		s.removal()
	}
}

func (s *side) lists(at int) {
	s.t.Helper()
	ctx := s.t.Context()
	now := time.Now()
	for _, q := range []struct {
		name string
		q    driver.SessionQuery
	}{
		{"list", driver.SessionQuery{}},
		{"list of a user", driver.SessionQuery{UserID: user(at)}},
		{"list of a user's chats", driver.SessionQuery{UserID: user(at), RootsOnly: true, Archived: new(false)}},
		{"list of an agent", driver.SessionQuery{Agent: fmt.Sprint("agent-", at%agents)}},
		{"list of a parent", driver.SessionQuery{ParentID: id(at - at%tree)}},
		{"list of a tree", driver.SessionQuery{RootID: id(at - at%tree)}},
		{"list of roots", driver.SessionQuery{RootsOnly: true}},
		{"list by status", driver.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionCompleted}}},
		{"list by tag", driver.SessionQuery{Tags: []string{"tag-3"}}},
		{"list by metadata", driver.SessionQuery{Metadata: cairn.Metadata{"team": "team-3"}}},
		{"list of those made before", driver.SessionQuery{CreatedBefore: now}},
		{"list of those made after", driver.SessionQuery{CreatedAfter: now.Add(-24 * time.Hour)}},
		{"list of those changed after", driver.SessionQuery{UpdatedAfter: now.Add(-24 * time.Hour)}},
		{"list of those changed before", driver.SessionQuery{UpdatedBefore: now}},
	} {
		q.q.Limit = pageSize
		s.time(q.name, func() error { _, err := s.st.List(ctx, q.q); return err })
	}
}

func (s *side) calls(at int) {
	s.t.Helper()
	open := []cairn.CallStatus{cairn.CallOpen}
	for _, q := range []struct {
		name string
		q    driver.CallQuery
	}{
		{"inbox", driver.CallQuery{Statuses: open}},
		{"inbox of a reviewer", driver.CallQuery{Statuses: open, Reviewer: "ann"}},
		{"inbox of a tool", driver.CallQuery{Statuses: open, Tool: "tool-3"}},
		{"inbox of a user", driver.CallQuery{Statuses: open, UserID: user(at)}},
		{"inbox of a tree", driver.CallQuery{Statuses: open, RootID: id(at - at%tree)}},
		{"calls of a session", driver.CallQuery{SessionID: id(at)}},
	} {
		q.q.Limit = pageSize
		s.time(q.name, func() error { _, err := s.st.Calls(s.t.Context(), q.q); return err })
	}
}

func (s *side) sweeps() {
	s.t.Helper()
	ctx := s.t.Context()
	s.time("due", func() error {
		_, err := s.st.Due(ctx, driver.DueQuery{Agents: []string{"crashed"}, Limit: pageSize})
		return err
	})
	sweeper := s.st.(driver.Sweeper)
	s.time("stale", func() error { _, err := sweeper.Stale(ctx, driver.PageQuery{Limit: pageSize}); return err })
	s.time("removed", func() error { _, err := sweeper.Removed(ctx, 0, driver.PageQuery{Limit: pageSize}); return err })
}

// turn reads a session that no process has in memory, and makes a turn of two steps on it.
func (s *side) turn(at int) {
	s.t.Helper()
	ctx := s.t.Context()
	s.time("read", func() error { _, err := s.st.Read(ctx, id(at), driver.ToDrive(0)); return err })
	run := fmt.Sprint("run-of-round-", s.made)
	commit := func(name string, c *driver.Commit) (row *cairn.Session) {
		s.t.Helper()
		s.time(name, func() (err error) { row, err = s.st.Commit(ctx, id(at), c); return err })
		return row
	}
	message := []cairn.Message{{ID: run + "/1", Role: cairn.RoleUser, RunID: run, Parts: []cairn.Part{cairn.TextPart("And now?")}}}
	row := commit("begin", &driver.Commit{StartRun: &cairn.Run{ID: run, Agent: "agent", Status: cairn.RunRunning},
		Status: cairn.SessionActive, Messages: message, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}})
	for n := range 2 {
		step := fmt.Sprint(run, "/", n+2)
		c := &driver.Commit{Guard: driver.Guard{Token: row.Lease.Token, Version: row.Version}, Step: n + 1, DropStaged: true,
			Messages:   []cairn.Message{{ID: step, Role: cairn.RoleAssistant, RunID: run, Parts: []cairn.Part{cairn.TextPart("Soon.")}}},
			Checkpoint: &cairn.Checkpoint{ID: "cp-" + step, RunID: run, StepID: step, Step: n + 1},
			Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Hour}}
		if n == 1 {
			c.EndRun = &cairn.Run{ID: run, Agent: "agent", Status: cairn.RunCompleted}
			c.Status, c.Lease = cairn.SessionCompleted, driver.LeaseChange{Action: driver.LeaseRelease}
		}
		row = commit([]string{"step", "end"}[n], c)
	}
}

// removal makes a session, removes it, and purges it.
func (s *side) removal() {
	s.t.Helper()
	ctx, sweeper := s.t.Context(), s.st.(driver.Sweeper)
	name := fmt.Sprint("removed-", s.made)
	s.time("create", func() error {
		c := fresh(s.n+s.made*tree, s.n+s.made*tree)
		c.Create.RootID, c.Calls, c.Suspend = "", nil, nil
		_, err := s.st.Commit(ctx, name, c)
		return err
	})
	var removed *driver.Removed
	s.time("remove", func() (err error) { removed, err = sweeper.Remove(ctx, name, driver.Deleted); return err })
	s.time("purge", func() error { _, err := sweeper.Purge(ctx, removed.Key); return err })
}
