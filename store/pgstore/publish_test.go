package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/plan"
)

// told returns events of a session with names.
func told(session string, names ...string) []cairn.Event {
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

// telling makes each commit of a stepper have two events with the number of its step.
func (s *stepper) telling() error {
	n := fmt.Sprint(s.n + 1)
	s.events = told(s.row.ID, n, n+".")
	return s.step()
}

// wantTold checks that the log of a tree has the events of each step of some sessions once, in the order of the steps,
// and those of one step next to each other. Other events may be between steps.
func wantTold(t *testing.T, s *Store, root *cairn.Session, list ...*stepper) {
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
	st.events = told("session", "one", "two")
	begun := must(s.Commit(t.Context(), "session", st.executing(store.Statement{SQL: "INSERT INTO " + own + " VALUES (1)"})))
	st.row, st.n = begun, 1
	wantLog(t, s, begun, "one two")
	run, cp := must(store.FindRun(t.Context(), s, "session", "run-0")), must(store.FindCheckpoint(t.Context(), s, "session", "cp-1"))
	if loaded := must(store.Load(t.Context(), s, "session")); begun.LogSequence != 2 || loaded.LogSequence != 2 || cp.LogSequence != 2 || run.StartSequence != 0 {
		t.Errorf("the row is at %d, as read at %d, its checkpoint at %d, its run began at %d; want 2, 2, 2, 0", begun.LogSequence, loaded.LogSequence, cp.LogSequence, run.StartSequence)
	}
	late := store.Writer{Session: "session", Token: begun.Lease.Token - 1}
	if _, err := s.log.AppendFenced(t.Context(), begun.Log(), store.AnySequence, late, told("session", "late")...); !errors.Is(err, cairn.ErrFenced) {
		t.Errorf("an append of the holder before: %v", err)
	}
	failing := store.Statement{SQL: "INSERT INTO " + own + " VALUES (1)"}
	for range 2 { // on the known row, and on the row as it is read
		if _, err := s.Commit(t.Context(), "session", st.executing(failing)); !store.IsStatementFailed(err) {
			t.Errorf("a statement that fails: %v", err)
		}
		s.known.Drop("session")
	}
	wantLog(t, s, begun, "one two")
	again := must(s.Commit(t.Context(), "session", st.executing(store.Statement{SQL: "INSERT INTO " + own + " VALUES (2)"})))
	repeated := must(s.Commit(t.Context(), "session", st.executing(store.Statement{SQL: "INSERT INTO " + own + " VALUES (2)"})))
	if again.LogSequence != 4 || repeated.LogSequence != 4 {
		t.Errorf("the row is at %d, after the same step again at %d; want 4", again.LogSequence, repeated.LogSequence)
	}
	if err := s.log.Drop(t.Context(), begun.Log()); err != nil {
		t.Fatal(err)
	}
	st.row, st.n = again, 2
	if _, err := s.Commit(t.Context(), "session", st.executing(store.Statement{SQL: "INSERT INTO " + own + " VALUES (3)"})); !errors.Is(err, cairn.ErrDeleted) {
		t.Errorf("statements with events for a dropped log: %v", err)
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+own).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v, want 2", n, err)
	}
	wantSteps(t, s, "session", 2)
}

// While a statement of a tool takes long, the log of its tree is free for others.
func TestSlowStatementsHoldUpNoLog(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.FastPostgres(t), &Options{Schema: newSchema(), ExecTimeout: time.Minute})
	root := newStepper(t, s, "root", nil)
	child := newChild(t, s, "child", root.row)
	if err := root.telling(); err != nil {
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
		root.events = told("root", "2", "2.")
		_, err := s.Commit(t.Context(), "root", root.executing(store.Statement{SQL: "SELECT pg_advisory_xact_lock($1)", Args: store.Args{int64(lock)}}))
		ended <- err
	}()
	<-running
	for range 3 {
		if err := child.telling(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.log.Append(t.Context(), root.row.Log(), store.AnySequence, textEvent("live")); err != nil {
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
	wantTold(t, s, root.row, root, child)
	if last := must(store.Load(t.Context(), s, "root")).LogSequence; last != 13 {
		t.Errorf("the row of the slow step is at %d, want 13", last)
	}
}

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
				if err := st.telling(); err != nil {
					t.Fatal(err)
				}
			}
			g := gather(t, s)
			for _, st := range list {
				g.group.Go(func() {
					if err := st.telling(); err != nil {
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
				if err := root.telling(); err != nil {
					t.Error(err)
				}
			})
			g.queued(1)
			for range 3 { // the other collector is free
				if err := other.telling(); err != nil {
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
			wantTold(t, s, root.row, append(list, root)...)
			wantTold(t, s, other.row, other)
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
		tell := list[id].telling
		if id == "missing" || id == "silent" {
			tell = list[id].step
		}
		if err := tell(); err != nil {
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
		tell := st.telling
		if id == "silent" {
			tell = st.step
		}
		g.group.Go(func() {
			err := tell()
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
	wantTold(t, s, list["there"].row, list["there"])
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
	if err := root.telling(); err != nil {
		t.Fatal(err)
	}
	var list []*stepper
	append1 := func(st *stepper, token, batch int64) error {
		w := store.Writer{Session: st.row.ID, Token: token, ID: "writer", Batch: batch}
		_, err := s.log.AppendFenced(t.Context(), root.row.Log(), store.AnySequence, w, textEvent("live"))
		return err
	}
	for i := range 8 {
		st := newChild(t, s, fmt.Sprint("child-", i), root.row)
		for range stepsPerRun { // the next one takes the lease
			if err := st.telling(); err != nil {
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
			if err := st.telling(); err != nil {
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
	wantTold(t, s, root.row, append(list, root)...)
	if n := len(must(s.log.Read(t.Context(), root.row.Log(), 0, 10_000))); n != 2+8*(2*11+2) {
		t.Errorf("the log has %d events", n)
	}
}

// The first holder of a new session's lease has a token that the server makes. It fences off lower ones.
func TestNewSessionFences(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	create := func(id string, root *cairn.Session) *cairn.Session {
		t.Helper()
		c := &store.Commit{Guard: store.Guard{New: true}, Create: &cairn.Session{Agent: "support"}, StartRun: &cairn.Run{ID: "run-of-" + id, Status: cairn.RunRunning},
			Status: cairn.SessionActive, Lease: store.LeaseChange{Action: store.LeaseTake, Owner: "worker", TTL: time.Hour}, Events: told(id, "born")}
		if root != nil {
			c.Create.ParentID, c.Create.RootID, c.Create.Incarnation = root.ID, root.ID, root.Incarnation
		}
		return must(s.Commit(t.Context(), id, c))
	}
	root := create("root", nil)
	child := create("child", root)
	for _, row := range []*cairn.Session{root, child} {
		for off, want := range []error{nil, cairn.ErrFenced} {
			w := store.Writer{Session: row.ID, Token: row.Lease.Token - int64(off)}
			if _, err := s.log.AppendFenced(t.Context(), root.Log(), store.AnySequence, w, told(row.ID, "live")...); !errors.Is(err, want) {
				t.Errorf("an append to the log of %s, %d below the token: %v, want %v", row.ID, off, err, want)
			}
		}
	}
	wantLog(t, s, root, "born born live live")
	if err := s.log.Drop(t.Context(), root.Log()); err != nil {
		t.Fatal(err)
	}
	c := &store.Commit{Guard: store.Guard{New: true}, Events: told("late", "born"), Messages: stepMessages("run"),
		Create: &cairn.Session{Agent: "support", ParentID: root.ID, RootID: root.ID, Incarnation: root.Incarnation}}
	for range 2 {
		if _, err := s.Commit(t.Context(), "late", c); !errors.Is(err, cairn.ErrDeleted) {
			t.Errorf("a new child of a tree whose log was dropped: %v", err)
		}
	}
	if _, err := store.Load(t.Context(), s, "late"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the child is there: %v", err)
	}
}

// TestFaultsOfEvents makes each internal write of commits that append events in several statements fail: the log has the
// events if and only if the commit was written.
func TestFaultsOfEvents(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	own := ownTable(t, s, "(n int)")
	taking := func(id string) *store.Commit {
		return &store.Commit{Messages: stepMessages("run"), Events: told(id, "one", "two"), Lease: store.LeaseChange{Action: store.LeaseTake, Owner: "worker", TTL: time.Hour}}
	}
	three := func(t *testing.T, id string) *cairn.Session {
		st := newStepper(t, s, id, nil)
		for range 3 {
			if err := st.step(); err != nil {
				t.Fatal(err)
			}
		}
		return st.row
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, id string) *cairn.Session
		write   func(id string) (*cairn.Session, error)
	}{
		"a log that is missing": {three, func(id string) (*cairn.Session, error) { return s.Commit(t.Context(), id, taking(id)) }},
		"rewind": {three, func(id string) (*cairn.Session, error) {
			c := taking(id)
			c.Rewind = "cp-1"
			return s.Commit(t.Context(), id, c)
		}},
		"statements": {three, func(id string) (*cairn.Session, error) {
			c := taking(id)
			c.Statements = []store.Statement{{Dialect: dialect, SQL: "INSERT INTO " + own + " VALUES (1)"}}
			return s.Commit(t.Context(), id, c)
		}},
		"branch": {nil, func(id string) (*cairn.Session, error) {
			return s.Branch(t.Context(), "source", store.BranchPoint{Events: told(id, "one", "two")}, &cairn.Session{ID: id, Agent: "support"})
		}},
		"creation": {nil, func(id string) (*cairn.Session, error) {
			c := taking(id)
			c.Guard, c.Create = store.Guard{New: true}, &cairn.Session{Agent: "support"}
			return s.Commit(t.Context(), id, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "branch" {
				three(t, "source")
			}
			for n, failed := 1, true; failed; n++ {
				id := fmt.Sprintf("%s %d", name, n)
				var before *cairn.Session
				if c.prepare != nil {
					before = c.prepare(t, id)
				}
				disarm := failNth(t, s, n)
				row, err := c.write(id)
				if failed = disarm(); err != nil {
					if now, gone := store.Load(t.Context(), s, id); before != nil && (gone != nil || now.Version != before.Version || now.LogSequence != 0) || before == nil && !errors.Is(gone, cairn.ErrNotFound) {
						t.Fatalf("after the failure of write %d there is %+v, %v", n, now, gone)
					}
					if before != nil {
						wantLog(t, s, before, "")
					}
					row = must(c.write(id))
				}
				wantLog(t, s, row, "one two")
				if row.LogSequence != 2 || must(store.Load(t.Context(), s, id)).LogSequence != 2 {
					t.Errorf("the row is at %d, want 2", row.LogSequence)
				}
			}
		})
	}
}

// The answer to a commit with events is lost, and its followers see them all the same, once.
func TestLostAnswerWithEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]fate{"before": cutBefore, "after": cutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, wire := throughProxy(t, Options{PollInterval: time.Hour})
			other := openAt(t, testenv.FastPostgres(t), &s.opts)
			st := newStepper(t, s, "session", nil)
			const steps = 13 // with the end of a run and the beginning of the next
			var following sync.WaitGroup
			for _, on := range []*Store{s, other} {
				following.Go(func() {
					n := int64(0)
					for ev, err := range on.log.Follow(t.Context(), st.row.Log(), 0) {
						if err != nil || ev.Sequence != n+1 {
							t.Errorf("event %d after %d: %v", ev.Sequence, n, err)
							return
						}
						if n++; n == 2*steps {
							return
						}
					}
				})
			}
			for range steps {
				wire.plan(func(n int64) fate {
					if n == 1 {
						return c
					}
					return pass
				})
				if err := st.telling(); err != nil {
					t.Fatal(err)
				}
			}
			following.Wait()
			wantTold(t, s, st.row, st)
			wantSteps(t, s, "session", steps)
		})
	}
}

// The answer to a commit that cannot be repeated is lost: its followers here look whether the log has its events.
func TestUnknownOutcomeWithEvents(t *testing.T) {
	t.Parallel()
	s, wire := throughProxy(t, Options{PollInterval: time.Hour})
	direct := openAt(t, testenv.FastPostgres(t), &s.opts)
	st := newStepper(t, s, "session", nil)
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string)
	var following sync.WaitGroup
	following.Go(func() {
		for ev, err := range s.log.Follow(ctx, st.row.Log(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			seen <- ev.Name
		}
	})
	commit := func(name string) error {
		_, err := s.Commit(t.Context(), "session", &store.Commit{Events: told("session", name)})
		return err
	}
	want := func(name string) {
		t.Helper()
		if got := <-seen; got != name {
			t.Fatalf("event %q follows, want %q", got, name)
		}
	}
	for n := 0; ; n++ { // until the request that is cut is that of the commit
		name := fmt.Sprint("commit ", n)
		if err := commit(name); err != nil { // prepares the statement
			t.Fatal(err)
		}
		want(name)
		wire.plan(func(n int64) fate { return []fate{cutAfter, pass}[min(n, 2)-1] })
		err := commit("lost")
		wire.plan(nil)
		written := strings.HasSuffix(logged(t, direct, st.row), "lost")
		if written {
			want("lost")
		}
		if err != nil && !errors.Is(err, cairn.ErrUnavailable) {
			t.Fatal(err)
		}
		if err != nil && written {
			break
		}
	}
	cancel()
	following.Wait()
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
	var roots []*stepper
	var all []*stepper
	for i := range trees {
		root := newStepper(t, two[i%2], fmt.Sprint("root-", i), nil)
		roots, all = append(roots, root), append(all, root)
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
				if err := st.telling(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i, root := range roots {
		s := two[i%2]
		do("live events", func() error {
			for range 4 * steps {
				if _, err := s.log.Append(ctx, root.row.Log(), store.AnySequence, textEvent("live"), textEvent("live")); err != nil {
					return err
				}
			}
			return nil
		})
		do("verbs", func() error { // which make steps stale
			for range steps {
				id := fmt.Sprintf("child-%d-%d", i, rand.IntN(children))
				_, err := s.Commit(ctx, id, &store.Commit{Usage: cairn.Usage{WaitSeconds: 1}, Events: []cairn.Event{textEvent("verb")}})
				if err != nil {
					return err
				}
			}
			return nil
		})
		do("branches and drops", func() error {
			for k := range steps {
				row, err := s.Branch(ctx, root.row.ID, store.BranchPoint{Events: told("branch", "branched")}, &cairn.Session{ID: fmt.Sprintf("branch-%d-%d", i, k), Agent: "support"})
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
				c := &store.Commit{Guard: store.Guard{New: true}, Events: []cairn.Event{textEvent("born")},
					Create: &cairn.Session{Agent: "support", ParentID: root.row.ID, RootID: root.row.ID, Incarnation: root.row.Incarnation}}
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
		wantTold(t, two[0], root.row, all[i*(children+1):(i+1)*(children+1)]...)
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
	boxed := must(s.Commit(t.Context(), "session", &store.Commit{Create: &cairn.Session{Agent: "support"}, Events: told("session", "kept"), Outbox: true}))
	want := boxed.UpdatedAt
	check := func(what string, row *cairn.Session) {
		t.Helper()
		if row.Outbox == nil || !row.Outbox.Events[0].Time.Equal(want) {
			t.Errorf("%s: the outbox is %+v, want one of %v", what, row.Outbox, want)
		}
	}
	check("the answer", boxed)
	check("read", must(store.Load(t.Context(), other, "session")))
	if _, err := s.Remove(t.Context(), "session", store.Deleted); err != nil {
		t.Fatal(err)
	}
	check("restored", must(s.Restore(t.Context(), "session")))
	check("read after it was restored", must(store.Load(t.Context(), s, "session")))
	check("after another commit", must(other.Commit(t.Context(), "session", &store.Commit{Messages: stepMessages("run")})))
	check("read after another commit", must(store.Load(t.Context(), s, "session")))
}
