package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// named returns events of a session, each with a name.
func named(session string, names ...string) (list []cairn.Event) {
	for _, name := range names {
		list = append(list, cairn.Event{Type: cairn.EventCustom, SessionID: session, Name: name, Time: time.UnixMicro(1)})
	}
	return list
}

// wantNames checks the names of a log's events, whose sequences have no gap.
func wantNames(t *testing.T, l driver.Log, log, want string) {
	t.Helper()
	list, err := l.Read(t.Context(), log, 0, 0)
	var got []string
	for i, ev := range list {
		got = append(got, ev.Name)
		if ev.Sequence != int64(i+1) {
			t.Errorf("event %d has the sequence %d", i+1, ev.Sequence)
		}
	}
	if names := strings.Join(got, " "); err != nil || names != want {
		t.Errorf("the log has %q (%v), want %q", names, err, want)
	}
}

// family makes n sessions, the first of which is the root of the others, and a commit with two events for each.
func family(t *testing.T, s *Store, n int) (log string, commits []*driver.Commit) {
	t.Helper()
	root := must(driver.Create(t.Context(), s, &cairn.Session{ID: "session-0", Agent: "support"}, nil))
	for i := range n {
		id := fmt.Sprint("session-", i)
		if i > 0 {
			must(driver.Create(t.Context(), s, &cairn.Session{ID: id, Agent: "support", ParentID: root.ID, RootID: root.ID, Incarnation: root.Incarnation}, nil))
		}
		commits = append(commits, &driver.Commit{Guard: driver.Guard{Version: 1}, Messages: large(1), Events: named(id, fmt.Sprint(i), fmt.Sprint(i))})
	}
	return root.Log(), commits
}

// Commits of one tree that share a transaction have their events one after another, without those that are refused.
func TestEventsOfASharedTransaction(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	log, commits := family(t, s, 5)
	commits[1].Guard.Version = 7
	commits[3].Rewind = "no such checkpoint"
	ctxs := slices.Repeat([]context.Context{t.Context()}, len(commits))
	errs, transactions := commitAll(t, s, commits, ctxs, func() {})
	if transactions != 1 || !errors.Is(errs[1], cairn.ErrStale) || !errors.Is(errs[3], cairn.ErrNotFound) {
		t.Errorf("%d transactions, %v", transactions, errs)
	}
	checkCommitted(t, s, errs)
	wantNames(t, s.log, log, "0 0 2 2 4 4")
	for i, want := range []int64{2, 0, 4, 0, 6} {
		if row := must(driver.Load(t.Context(), s, fmt.Sprint("session-", i))); row.LogSequence != want {
			t.Errorf("session %d is at %d, want %d", i, row.LogSequence, want)
		}
	}
}

// A commit that fails after it has written leaves neither its own events nor a gap, and takes those of no other.
func TestEventsBesideAFailedCommit(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	log, commits := family(t, s, 5)
	must(s.log.Append(t.Context(), log, 0, named("session-0", "live")...))
	commits[2].Enqueue = &driver.QueuedTurn{ID: "turn"}
	ctxs := slices.Repeat([]context.Context{t.Context()}, len(commits))
	last := ""
	errs, _ := commitAll(t, s, commits, ctxs, func() {}, func(text string) error {
		failed := last == sqlEnqueue // the write of the events comes right after
		last = text
		if failed {
			return cairn.Errorf(cairn.ErrInvalid, "no events today")
		}
		return nil
	})
	for i, err := range errs {
		if (i == 2) != errors.Is(err, cairn.ErrInvalid) || i != 2 && err != nil {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	checkCommitted(t, s, errs)
	wantNames(t, s.log, log, "live 0 0 1 1 3 3 4 4")
	commits[2].Enqueue = nil
	must(s.Commit(t.Context(), "session-2", commits[2]))
	must(s.log.Append(t.Context(), log, 9+2, named("session-0", "end")...))
	wantNames(t, s.log, log, "live 0 0 1 1 3 3 4 4 2 2 end")
}

// A statement of a tool that fails leaves no event.
func TestEventsBesideAFailedStatement(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	ownTables(t, s, "CREATE TABLE refunds (key TEXT PRIMARY KEY)")
	row := newSession(t, s, "session")
	insert := driver.Statement{SQL: "INSERT INTO refunds VALUES ('a')"}
	c := inserting(row, insert, insert)
	c.Events = named("session", "never")
	if _, err := s.Commit(t.Context(), "session", c); !driver.IsStatementFailed(err) {
		t.Errorf("a statement that fails: %v", err)
	}
	wantNames(t, s.log, row.Log(), "")
	c = inserting(row, insert)
	c.Events = named("session", "paid")
	must(s.Commit(t.Context(), "session", c))
	wantNames(t, s.log, row.Log(), "paid")
}

// Events of commits and appends share small batches, also if others were added since a commit was encoded.
func TestEventsOfCommitsGrowABatch(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	row := newSession(t, s, "session")
	log := row.Log()
	commit := func(names ...string) {
		row = must(s.Commit(t.Context(), "session", &driver.Commit{Events: named("session", names...), Status: cairn.SessionActive,
			Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}}))
	}
	commit("one")
	must(s.log.Append(t.Context(), log, 1, named("session", "two")...))
	commit("three", "four")
	s.wantBatches(t, 1)
	other := second(t, s)
	must(other.log.Append(t.Context(), log, 4, named("session", "five")...))
	commit("six")
	must(s.log.Append(t.Context(), log, 6, named("session", "seven")...))
	s.wantBatches(t, 3) // each handle knows its own
	wantNames(t, other.log, log, "one two three four five six seven")
}

// A row that is cached may be of a tree that was removed since and has another of its id in its place: the events are for
// the log of that.
func TestEventsOfAnOutdatedRow(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
	take := driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}
	was := must(s.Commit(t.Context(), "session", &driver.Commit{Status: cairn.SessionActive, Lease: driver.LeaseChange{Action: driver.LeaseRelease}}))
	other := second(t, s)
	must(other.Remove(t.Context(), "session", driver.Deleted))
	gone := must(other.Removed(t.Context(), 0, driver.PageQuery{})).Items[0]
	must(other.Purge(t.Context(), gone.Key))
	if err := other.log.Drop(t.Context(), was.Log()); err != nil {
		t.Fatal(err)
	}
	now := newSession(t, other, "session")
	if now.Log() == was.Log() {
		t.Fatal("the log has the name of the one that was dropped")
	}
	if row := must(s.Commit(t.Context(), "session", &driver.Commit{Events: named("session", "here"), Lease: take})); row.Log() != now.Log() || row.LogSequence != 1 {
		t.Errorf("the row is of the log %q at %d", row.Log(), row.LogSequence)
	}
	wantNames(t, other.log, now.Log(), "here")
}

// A session with an outbox is due whatever the time, also one that waits for a later deadline.
func TestOutboxIsDueAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_000_000_000)
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal, Now: func() time.Time { return now }})
	newSession(t, s, "session")
	row := must(s.Commit(t.Context(), "session", &driver.Commit{Status: cairn.SessionPaused, Outbox: true, Events: named("session", "kept"),
		Suspend: &driver.Suspend{StepID: "step", OpenCalls: 1, NextDeadline: now.Add(time.Hour)}}))
	now = now.Add(-time.Minute)
	if list := must(s.Due(t.Context(), driver.DueQuery{})).Items; len(list) != 1 || list[0].Kind != driver.DueOutbox {
		t.Errorf("due: %+v, want an outbox", list)
	}
	must(s.Commit(t.Context(), "session", &driver.Commit{Drained: row.Outbox.Version}))
	if list := must(s.Due(t.Context(), driver.DueQuery{})).Items; len(list) != 0 {
		t.Errorf("due with an empty outbox: %+v", list)
	}
}
