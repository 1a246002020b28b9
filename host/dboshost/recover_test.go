package dboshost_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// Any number of processes may open a new database at once.
func TestProcessesOpenANewDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{
		"sqlite":     "sqlite:" + filepath.Join(t.TempDir(), "new", "dbos.db"),
		"postgresql": testenv.FastPostgres(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 4
			schema := "new" + strconv.FormatInt(processes.Add(1), 10)
			failed := make(chan error, n)
			for range n {
				go func() {
					h, err := dboshost.Open(context.Background(), database, &dboshost.Options{Schema: schema})
					if err == nil {
						err = h.Close(context.Background())
					}
					failed <- err
				}()
			}
			for range n {
				if err := <-failed; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// working runs the engine's Work until rest is called or the test ends.
func working(t *testing.T, eng *engine.Engine) (rest func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- eng.Work(ctx) }()
	rest = sync.OnceFunc(func() {
		cancel()
		if err := <-worked; err != nil && !errors.Is(err, cairn.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(rest)
	return rest
}

// token returns the fencing token of the session's lease.
func (s *site) token() int64 {
	s.Helper()
	row, err := driver.Load(s.Context(), s.st, "s")
	if err != nil {
		s.Fatal(err)
	}
	return row.Lease.Token
}

// front opens a process that begins turns but does not serve.
func (s *site) front(agent *cairn.Agent, opts engine.Options) *engine.Engine {
	s.Helper()
	h, err := dboshost.Open(s.Context(), s.database, &dboshost.Options{PollInterval: 10 * time.Millisecond})
	if err != nil {
		s.Fatal(err)
	}
	opts.Host = h
	eng, err := engine.New(s.st, []*cairn.Agent{agent}, &opts)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		eng.Close(context.Background())
		h.Close(context.Background())
	})
	return eng
}

// A process without the agent, as in a rolling deploy, leaves a turn to one that has it.
func TestProcessWithoutTheAgent(t *testing.T) {
	s := newSite(t)
	agent := worker(func(context.Context) (string, error) { return "worked", nil })
	front := s.front(agent, engine.Options{LeaseTTL: time.Hour})
	own := &dboshost.Options{PollInterval: 10 * time.Millisecond}
	serve(t, s.database, s.st, nil, &engine.Options{}, own)
	if _, err := front.Execute(t.Context(), "s", "worker", cairn.Text("Go.")); err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "the workflow to end", func() bool {
		return s.workflows()["cairn/worker/s/1"].Status == dbos.WorkflowStatusSuccess
	})
	eng, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{WorkInterval: 10 * time.Millisecond}, nil)
	working(t, eng)
	s.outcome(eng, "s")
}

// A turn that waits in the queue for longer than its lease stays there.
func TestTurnIsLeftInTheQueue(t *testing.T) {
	s := newSite(t)
	agent := worker(func(context.Context) (string, error) { return "worked", nil })
	front := s.front(agent, engine.Options{LeaseTTL: time.Second, WorkInterval: 10 * time.Millisecond})
	if _, err := front.Execute(t.Context(), "s", "worker", cairn.Text("Go.")); err != nil {
		t.Fatal(err)
	}
	first := s.token()
	rest := working(t, front)
	// Three leases of real time: nothing happens meanwhile, so there is no event to wait for.
	time.Sleep(3 * time.Second)
	rest() // once another process has dequeued the turn, only the lease shows that it is driven
	eng, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{}, &dboshost.Options{PollInterval: 10 * time.Millisecond})
	s.outcome(eng, "s")
	if list := s.workflows(); s.token() != first || len(list) != 1 {
		t.Errorf("the turn was taken over: its token is %d, the first one was %d; the workflows are %+v", s.token(), first, list)
	}
}

// DBOS retries without limit while its database is away. The host answers for it within the caller's time, so that a
// turn begins at once, and is driven as soon as the database is back.
func TestTurnBeginsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	st := openSQLite(t, filepath.Join(t.TempDir(), "cairn.db"), nil)
	agent := worker(func(context.Context) (string, error) { return "worked", nil })
	eng, h := serve(t, server.URL(), st, []*cairn.Agent{agent}, &engine.Options{}, &dboshost.Options{PollInterval: 10 * time.Millisecond})
	server.Kill()
	run, err := eng.Execute(t.Context(), "s", "worker", cairn.Text("Go."))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.Driving(ctx, host.Run{Position: host.Position{SessionID: "s", Agent: "worker"}}); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("the host that is away says %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "Done." {
		t.Errorf("the turn came to %+v, %v", res, err)
	}
	row, err := driver.Load(t.Context(), st, "s")
	if err != nil || row.Recoveries != 0 {
		t.Errorf("the run was taken over %d times, %v", row.Recoveries, err)
	}
}

// A run keeps its lease while it waits for a sub-agent, so that no other process takes it over.
func TestWaitingRunKeepsItsLease(t *testing.T) {
	s := newSite(t)
	busy := make(chan struct{})
	helper := worker(func(ctx context.Context) (string, error) {
		close(busy)
		return "worked", testclock.Pause(ctx, 5*time.Second)
	})
	agent := &cairn.Agent{Name: "boss", Tools: []cairn.Tool{cairn.SubAgent(helper)},
		Model: scripted.New(scripted.Call("worker", map[string]string{"input": "work"}), scripted.Text("Done."))}
	opts := &engine.Options{LeaseTTL: 3 * time.Second, WorkInterval: 10 * time.Millisecond}
	one, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, opts, &dboshost.Options{Executor: "one"})
	two, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, opts, &dboshost.Options{Executor: "two"})
	run, err := one.Execute(t.Context(), "s", "boss", cairn.Text("Go."))
	if err != nil {
		t.Fatal(err)
	}
	first := s.token()
	<-busy
	working(t, two)
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "Done." {
		t.Fatal(res, err)
	}
	if s.token() != first {
		t.Errorf("the run was taken over: its token is %d, the first one was %d", s.token(), first)
	}
}
