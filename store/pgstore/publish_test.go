package pgstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// eventsOf returns events of a session with names.
func eventsOf(session string, names ...string) []cairn.Event {
	list := make([]cairn.Event, len(names))
	for i, name := range names {
		list[i] = cairn.Event{Type: cairn.EventCustom, SessionID: session, Agent: "support", Name: name}
	}
	return list
}

// logged returns the names of the events on the log of a session's tree.
func logged(t *testing.T, s *Store, row *cairn.Session) string {
	t.Helper()
	var names []string
	for i, ev := range must(s.log.Read(t.Context(), row.Log(), 0, 100_000)) {
		if ev.Sequence != int64(i+1) {
			t.Fatalf("event %d of the log has the sequence %d", i+1, ev.Sequence)
		}
		names = append(names, ev.Name)
	}
	return strings.Join(names, " ")
}

// wantLog checks the names of the events on the log of a session's tree.
func wantLog(t *testing.T, s *Store, row *cairn.Session, want string) {
	t.Helper()
	if got := logged(t, s, row); got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// publish makes each commit of a stepper have two events with the number of its step.
func (s *stepper) publish() error {
	n := fmt.Sprint(s.n + 1)
	s.events = eventsOf(s.row.ID, n, n+".")
	return s.step()
}

// wantPublished checks that the log of a tree has the events of each step of some sessions once, in the order of the steps,
// and those of one step next to each other. Other events may be between steps.
func wantPublished(t *testing.T, s *Store, root *cairn.Session, list ...*stepper) {
	t.Helper()
	next := map[string]int{}
	events := must(s.log.Read(t.Context(), root.Log(), 0, 1_000_000))
	for i := 0; i < len(events); i++ {
		ev := &events[i]
		if ev.Sequence != int64(i+1) {
			t.Fatalf("event %d of the log has the sequence %d", i+1, ev.Sequence)
		}
		if ev.Type != cairn.EventCustom {
			continue
		}
		next[ev.SessionID]++
		if want := fmt.Sprint(next[ev.SessionID]); ev.Name != want || i+1 == len(events) || events[i+1].SessionID != ev.SessionID || events[i+1].Name != want+"." {
			t.Fatalf("event %d is %q of session %q, want %q and the other one of that step", i+1, ev.Name, ev.SessionID, want)
		}
		i++
	}
	for _, st := range list {
		if next[st.row.ID] != st.n {
			t.Errorf("the log has the events of %d steps of session %q, want %d", next[st.row.ID], st.row.ID, st.n)
		}
	}
}

// The events of a step with statements of tools follow its statements, with the places of the row, the checkpoint and
// the run on the log. A statement that fails appends nothing.
func TestEventsOfStatements(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	own := ownTable(t, s, "(n int PRIMARY KEY)")
	st := newStepper(t, s, "session", nil)
	st.events = eventsOf("session", "one", "two")
	begun := must(s.Commit(t.Context(), "session", st.executing(driver.Statement{SQL: "INSERT INTO " + own + " VALUES (1)"})))
	st.row, st.n = begun, 1
	wantLog(t, s, begun, "one two")
	run, cp := must(driver.FindRun(t.Context(), s, "session", "run-0")), must(driver.FindCheckpoint(t.Context(), s, "session", "cp-1"))
	if loaded := must(driver.Load(t.Context(), s, "session")); begun.LogSequence != 2 || loaded.LogSequence != 2 || cp.LogSequence != 2 || run.StartSequence != 0 {
		t.Errorf("the row is at %d, as read at %d, its checkpoint at %d, its run began at %d; want 2, 2, 2, 0", begun.LogSequence, loaded.LogSequence, cp.LogSequence, run.StartSequence)
	}
	late := driver.Writer{Session: "session", Token: begun.Lease.Token - 1}
	if _, err := s.log.AppendFenced(t.Context(), begun.Log(), driver.AnySequence, late, eventsOf("session", "late")...); !errors.Is(err, cairn.ErrFenced) {
		t.Errorf("an append of the holder before: %v", err)
	}
	failing := driver.Statement{SQL: "INSERT INTO " + own + " VALUES (1)"}
	for range 2 { // on the known row, and on the row as it is read
		if _, err := s.Commit(t.Context(), "session", st.executing(failing)); !driver.IsStatementFailed(err) {
			t.Errorf("a statement that fails: %v", err)
		}
		s.known.Drop("session")
	}
	wantLog(t, s, begun, "one two")
	again := must(s.Commit(t.Context(), "session", st.executing(driver.Statement{SQL: "INSERT INTO " + own + " VALUES (2)"})))
	repeated := must(s.Commit(t.Context(), "session", st.executing(driver.Statement{SQL: "INSERT INTO " + own + " VALUES (2)"})))
	if again.LogSequence != 4 || repeated.LogSequence != 4 {
		t.Errorf("the row is at %d, after the same step again at %d; want 4", again.LogSequence, repeated.LogSequence)
	}
	if err := s.log.Drop(t.Context(), begun.Log()); err != nil {
		t.Fatal(err)
	}
	st.row, st.n = again, 2
	if _, err := s.Commit(t.Context(), "session", st.executing(driver.Statement{SQL: "INSERT INTO " + own + " VALUES (3)"})); !errors.Is(err, cairn.ErrDeleted) {
		t.Errorf("statements with events for a dropped log: %v", err)
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+own).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v, want 2", n, err)
	}
	wantSteps(t, s, "session", 2)
}

// The events of statements that are not those of the run under way leave the session's place on the log.
func TestEventsOfStatementsBesideARun(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	st := newStepper(t, s, "session", nil)
	if err := st.publish(); err != nil {
		t.Fatal(err)
	}
	beside := must(s.Commit(t.Context(), "session", &driver.Commit{Guard: driver.Guard{Version: st.row.Version}, Events: eventsOf("session", "beside"),
		Checkpoint: &cairn.Checkpoint{ID: "beside", StepID: "beside", LogSequence: 1},
		Statements: []driver.Statement{{Dialect: dialect, Tool: "pay", SQL: "SELECT 1"}}}))
	cp := must(driver.FindCheckpoint(t.Context(), s, "session", "beside"))
	if loaded := must(driver.Load(t.Context(), s, "session")); beside.LogSequence != 2 || loaded.LogSequence != 2 || cp.LogSequence != 1 {
		t.Errorf("the row is at %d, as read at %d, its checkpoint at %d; want 2, 2, 1", beside.LogSequence, loaded.LogSequence, cp.LogSequence)
	}
	wantLog(t, s, beside, "1 1. beside")
}

// While a statement of a tool takes long, the log of its tree is free for others.
func TestSlowStatementsHoldUpNoLog(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.FastPostgres(t), &Options{Schema: newSchema(), ExecTimeout: time.Minute})
	root := newStepper(t, s, "root", nil)
	child := newChild(t, s, "child", root.row)
	if err := root.publish(); err != nil {
		t.Fatal(err)
	}
	holder := must(s.pool.Begin(t.Context()))
	const lock = 8272 // no other test takes it
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", lock); err != nil {
		t.Fatal(err)
	}
	running, ended := make(chan struct{}), make(chan error, 1)
	hook := func(text string) error {
		if text == sqlExecTimeout {
			close(running)
		}
		return nil
	}
	s.intercept.Store(&hook)
	go func() {
		root.events = eventsOf("root", "2", "2.")
		_, err := s.Commit(t.Context(), "root", root.executing(driver.Statement{SQL: "SELECT pg_advisory_xact_lock($1)", Args: driver.Args{int64(lock)}}))
		ended <- err
	}()
	<-running
	for range 3 {
		if err := child.publish(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.log.Append(t.Context(), root.row.Log(), driver.AnySequence, textEvent("live")); err != nil {
			t.Fatal(err)
		}
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	root.n++
	wantPublished(t, s, root.row, root, child)
	if last := must(driver.Load(t.Context(), s, "root")).LogSequence; last != 13 {
		t.Errorf("the row of the slow step is at %d, want 13", last)
	}
}

// The first holder of a new session's lease has a token that the server makes. It fences off lower ones.
func TestNewSessionFences(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	create := func(id string, root *cairn.Session) *cairn.Session {
		t.Helper()
		c := &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: "support"}, StartRun: &cairn.Run{ID: "run-of-" + id, Status: cairn.RunRunning},
			Status: cairn.SessionActive, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}, Events: eventsOf(id, "born")}
		if root != nil {
			c.Create.ParentID, c.Create.RootID, c.Create.Incarnation = root.ID, root.ID, root.Incarnation
		}
		return must(s.Commit(t.Context(), id, c))
	}
	root := create("root", nil)
	child := create("child", root)
	for _, row := range []*cairn.Session{root, child} {
		for off, want := range []error{nil, cairn.ErrFenced} {
			w := driver.Writer{Session: row.ID, Token: row.Lease.Token - int64(off)}
			if _, err := s.log.AppendFenced(t.Context(), root.Log(), driver.AnySequence, w, eventsOf(row.ID, "live")...); !errors.Is(err, want) {
				t.Errorf("an append to the log of %s, %d below the token: %v, want %v", row.ID, off, err, want)
			}
		}
	}
	wantLog(t, s, root, "born born live live")
	if err := s.log.Drop(t.Context(), root.Log()); err != nil {
		t.Fatal(err)
	}
	c := &driver.Commit{Guard: driver.Guard{New: true}, Events: eventsOf("late", "born"), Messages: stepMessages("run"),
		Create: &cairn.Session{Agent: "support", ParentID: root.ID, RootID: root.ID, Incarnation: root.Incarnation}}
	for range 2 {
		if _, err := s.Commit(t.Context(), "late", c); !errors.Is(err, cairn.ErrDeleted) {
			t.Errorf("a new child of a tree whose log was dropped: %v", err)
		}
	}
	if _, err := driver.Load(t.Context(), s, "late"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the child is there: %v", err)
	}
}

// A commit with many events, and large ones, is written alone and read back.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	st := newStepper(t, s, "session", nil)
	large := textEvent(strings.Repeat("\u2028\\\"'$1 ", 8<<10))
	st.events = slices.Repeat([]cairn.Event{large, textEvent("small")}, 50)
	for n := range 3 {
		w := must(s.prepare("session", st.next()))
		if w.d = plan.Try(w.c, &plan.Seen{ID: "session", Row: st.row, Checkpoints: int64(n)}); w.d == nil || w.encodeDelta() != nil || w.joins() {
			t.Errorf("step %d joins others", n+1)
		}
		if err := st.step(); err != nil {
			t.Fatal(err)
		}
		if want := int64(100 * (n + 1)); st.row.LogSequence != want {
			t.Errorf("the row is at %d, want %d", st.row.LogSequence, want)
		}
	}
	list := must(s.log.Read(t.Context(), st.row.Log(), 99, 4))
	for i, want := range []string{"small", large.Text, "small", large.Text} {
		if list[i].Text != want || list[i].Sequence != int64(100+i) {
			t.Errorf("event %d has %d bytes and the sequence %d", i, len(list[i].Text), list[i].Sequence)
		}
	}
}

// Events of an outbox without a time have that of their commit, whatever is written or restored later.
func TestOutboxIsDated(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := second(t, s)
	boxed := must(s.Commit(t.Context(), "session", &driver.Commit{Create: &cairn.Session{Agent: "support"}, Events: eventsOf("session", "kept"), Outbox: true}))
	want := boxed.UpdatedAt
	check := func(what string, row *cairn.Session) {
		t.Helper()
		if row.Outbox == nil || !row.Outbox.Events[0].Time.Equal(want) {
			t.Errorf("%s: the outbox is %+v, want one of %v", what, row.Outbox, want)
		}
	}
	check("the answer", boxed)
	check("read", must(driver.Load(t.Context(), other, "session")))
	if _, err := s.Remove(t.Context(), "session", driver.Deleted); err != nil {
		t.Fatal(err)
	}
	check("restored", must(s.Restore(t.Context(), "session")))
	check("read after it was restored", must(driver.Load(t.Context(), s, "session")))
	check("after another commit", must(other.Commit(t.Context(), "session", &driver.Commit{Messages: stepMessages("run")})))
	check("read after another commit", must(driver.Load(t.Context(), s, "session")))
}
