package dboshost_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
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

// site is a store and a DBOS database for the processes of a test.
type site struct {
	*testing.T
	database string
	st       driver.Store
}

func newSite(t *testing.T) *site {
	t.Parallel()
	dir := t.TempDir()
	return &site{t, "sqlite:" + filepath.Join(dir, "dbos.db"), openSQLite(t, filepath.Join(dir, "cairn.db"), nil)}
}

type nothing struct{}

// worker returns an agent that calls its tool once and then says "Done.".
func worker(work func(context.Context) (string, error)) *cairn.Agent {
	return &cairn.Agent{
		Name: "worker",
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
				return scripted.Text("Done.")
			}
			return scripted.Call("work", nothing{})
		}),
		Tools: []cairn.Tool{cairn.Func("work", "Works.", func(ctx context.Context, _ *cairn.Call, _ nothing) (string, error) { return work(ctx) })},
	}
}

// crash kills a process in the middle of a turn's tool and returns the agent, whose tool returns from then on.
func (s *site) crash(lease time.Duration, own *dboshost.Options) *cairn.Agent {
	s.Helper()
	var tries atomic.Int64
	working := make(chan struct{})
	agent := worker(func(ctx context.Context) (string, error) {
		if tries.Add(1) > 1 {
			return "worked", nil
		}
		close(working)
		<-ctx.Done()
		return "", ctx.Err()
	})
	eng, h := serve(s, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{LeaseTTL: lease}, own)
	if _, err := eng.Execute(s.Context(), "s", "worker", cairn.Text("Go.")); err != nil {
		s.Fatal(err)
	}
	<-working
	if err := h.Close(s.Context()); err != nil { // cancels the tool and records nothing
		s.Fatal(err)
	}
	return agent
}

// outcome waits for the session's last run.
func (s *site) outcome(eng *engine.Engine, session string) {
	s.Helper()
	run, err := eng.Attach(s.Context(), session)
	if err != nil {
		s.Fatal(err)
	}
	res, err := run.Wait(s.Context())
	if err != nil || res.Status != cairn.RunCompleted || res.Text != "Done." {
		s.Fatalf("the run came to %+v, %v", res, err)
	}
}

// workflows returns the status of each workflow, by id.
func (s *site) workflows() map[string]dbos.WorkflowStatus {
	s.Helper()
	client, err := dbos.NewClient(context.Background(), dbos.ClientConfig{DatabaseURL: s.database})
	if err != nil {
		s.Fatal(err)
	}
	defer dbos.Shutdown(client, time.Minute)
	list, err := dbos.ListWorkflows(client)
	if err != nil {
		s.Fatal(err)
	}
	found := map[string]dbos.WorkflowStatus{}
	for _, w := range list {
		found[w.ID] = w
	}
	return found
}

// A process of the same name as a dead one resumes its workflow at once: no lease has to lapse.
func TestExecutorContinues(t *testing.T) {
	s := newSite(t)
	own := &dboshost.Options{Executor: "one", PollInterval: 10 * time.Millisecond}
	agent := s.crash(time.Hour, own)
	eng, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{}, own)
	s.outcome(eng, "s")
	if list := s.workflows(); len(list) != 1 || list["cairn/worker/s/1"].Name != dboshost.WorkflowName {
		t.Errorf("the workflows are %+v", list)
	}
}

// A process that began or took over a run, but lost it before it could start its workflow, leaves the new holder's
// workflow alone.
func TestLateStartIsFenced(t *testing.T) {
	s := newSite(t)
	working, goOn := make(chan struct{}), make(chan struct{})
	agent := worker(func(context.Context) (string, error) {
		close(working)
		<-goOn
		return "worked", nil
	})
	eng, h := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{}, nil)
	if _, err := eng.Execute(t.Context(), "s", "worker", cairn.Text("Go.")); err != nil {
		t.Fatal(err)
	}
	<-working
	row, err := driver.Load(t.Context(), s.st, "s")
	if err != nil {
		t.Fatal(err)
	}
	late := host.Run{Position: host.Position{SessionID: "s", Agent: "worker", RunID: row.RunID, Token: row.Lease.Token - 1}, RootID: "s", Turn: 1}
	_, err = h.Start(t.Context(), late)
	close(goOn)
	if !errors.Is(err, cairn.ErrFenced) {
		t.Fatalf("the late start: %v", err)
	}
	s.outcome(eng, "s")
	testclock.Await(t, "the workflow to end", func() bool { // a moment after its outcome
		return s.workflows()["cairn/worker/s/1"].Status != dbos.WorkflowStatusPending
	})
	if list := s.workflows(); len(list) != 1 || list["cairn/worker/s/1"].Status != dbos.WorkflowStatusSuccess {
		t.Errorf("the workflows are %+v", list)
	}
}

// DBOS never recovers a workflow of another version, whatever the process's name; a worker takes its run over.
func TestAnotherVersionTakesOver(t *testing.T) {
	s := newSite(t)
	agent := s.crash(200*time.Millisecond, &dboshost.Options{Executor: "one", Version: "old"})
	eng, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{WorkInterval: 10 * time.Millisecond},
		&dboshost.Options{Executor: "one", Version: "new"})
	if w := s.workflows()["cairn/worker/s/1"]; w.Status != dbos.WorkflowStatusPending || w.ApplicationVersion != "old" {
		t.Errorf("what the dead process left is %+v", w)
	}
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error)
	go func() { worked <- eng.Work(ctx) }()
	s.outcome(eng, "s")
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	for id, w := range s.workflows() {
		first := id == "cairn/worker/s/1"
		if first != (w.Status == dbos.WorkflowStatusCancelled) || first != (w.ApplicationVersion == "old") {
			t.Errorf("workflow %s of version %s is %s", id, w.ApplicationVersion, w.Status)
		}
	}
}

// A process that does not serve hands its turns to one that does.
func TestQueue(t *testing.T) {
	s := newSite(t)
	var at, most atomic.Int64
	agent := worker(func(context.Context) (string, error) {
		defer at.Add(-1)
		if n := at.Add(1); n > most.Load() {
			most.Store(n)
		}
		return "worked", nil
	})
	own := &dboshost.Options{Concurrency: 1, PollInterval: 10 * time.Millisecond}
	h, err := dboshost.Open(t.Context(), s.database, own)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	front, err := engine.New(s.st, []*cairn.Agent{agent}, &engine.Options{Host: h})
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close(context.Background())
	back, _ := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{}, own)
	var runs []*engine.Run
	for i, eng := range []*engine.Engine{front, back, front, back} {
		run, err := eng.Execute(t.Context(), string(rune('a'+i)), "worker", cairn.Text("Go."))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	for _, run := range runs {
		if res, err := run.Wait(t.Context()); err != nil || res.Status != cairn.RunCompleted {
			t.Errorf("the run came to %+v, %v", res, err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d turns were driven at once, the limit is 1", most.Load())
	}
}

// A workflow's row shows how its run ended, which DBOS's own status does not, and its steps show their tools.
func TestWorkflowsShowOutcomeAndTools(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{
		"sqlite":     "sqlite:" + filepath.Join(t.TempDir(), "dbos.db"),
		"postgresql": testenv.FastPostgres(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := "shown" + strconv.FormatInt(processes.Add(1), 10)
			fails := &cairn.Agent{Name: "fails", Model: scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "no")))}
			works := worker(func(context.Context) (string, error) { return "worked", nil })
			st := openSQLite(t, filepath.Join(t.TempDir(), "cairn.db"), nil)
			eng, _ := serve(t, database, st, []*cairn.Agent{fails, works}, &engine.Options{}, &dboshost.Options{Schema: schema, PollInterval: 10 * time.Millisecond})
			for agent, want := range map[string]cairn.RunStatus{"fails": cairn.RunFailed, "worker": cairn.RunCompleted} {
				run, err := eng.Execute(t.Context(), agent, agent, cairn.Text("Go."))
				if err != nil {
					t.Fatal(err)
				}
				if res, _ := run.Wait(t.Context()); res.Status != want {
					t.Fatalf("the turn of %s came to %+v", agent, res)
				}
			}
			client, err := dbos.NewClient(t.Context(), dbos.ClientConfig{DatabaseURL: database, DatabaseSchema: schema})
			if err != nil {
				t.Fatal(err)
			}
			defer dbos.Shutdown(client, time.Minute)
			var list []dbos.WorkflowStatus
			for len(list) < 2 { // a moment longer than their outcome
				if list, err = dbos.ListWorkflows(client, dbos.WithFilterStatus(dbos.WorkflowStatusSuccess)); err != nil {
					t.Fatal(err)
				}
			}
			for _, w := range list {
				want := map[any]string{"fails": "failed", "worker": "completed"}[w.Attributes["agent"]]
				if w.Attributes["status"] != want {
					t.Errorf("workflow %s has the attributes %v, want status %s", w.ID, w.Attributes, want)
				}
			}
			if name == "postgresql" {
				failed, err := dbos.ListWorkflows(client, dbos.WithFilterAttributes(map[string]any{"status": "failed"}))
				if err != nil || len(failed) != 1 {
					t.Errorf("%d workflows are listed as failed, want 1; %v", len(failed), err)
				}
			}
			steps, err := dbos.GetWorkflowSteps(client, "cairn/worker/worker/1")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, step := range steps {
				names = append(names, step.StepName)
			}
			if got, want := strings.Join(names, ", "), "plan, tool work, commit, plan, commit"; got != want {
				t.Errorf("the steps are %s, want %s", got, want)
			}
		})
	}
}

// A host that is closed while a tool does not stop says so with the deadline's own error.
func TestCloseAtItsDeadline(t *testing.T) {
	s := newSite(t)
	working, enough := make(chan struct{}), make(chan struct{})
	agent := worker(func(context.Context) (string, error) {
		close(working)
		<-enough
		return "worked", nil
	})
	eng, h := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{}, nil)
	if _, err := eng.Execute(t.Context(), "s", "worker", cairn.Text("Go.")); err != nil {
		t.Fatal(err)
	}
	<-working
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	close(enough)
}

// DBOS is given ids, and nothing of the conversation.
func TestRecordsHoldIDsOnly(t *testing.T) {
	s := newSite(t)
	const secret = "xyzzy-plugh"
	agent := worker(func(context.Context) (string, error) { return secret, nil })
	eng, h := serve(t, s.database, s.st, []*cairn.Agent{agent}, &engine.Options{}, nil)
	run, err := eng.Execute(t.Context(), "session-in-question", "worker", cairn.Text(secret))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(eng.Close(t.Context()), h.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(strings.TrimPrefix(s.database, "sqlite:") + "*")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw...)
	}
	if !bytes.Contains(all, []byte("session-in-question")) {
		t.Error("the workflow is not there")
	}
	if bytes.Contains(all, []byte(secret)) {
		t.Error("DBOS keeps what was said")
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	database := "sqlite:" + filepath.Join(t.TempDir(), "dbos.db")
	for _, c := range []struct {
		field, database string
		opts            dboshost.Options
	}{
		{"database", "", dboshost.Options{}},
		{"concurrency", database, dboshost.Options{Concurrency: -1}},
		{"poll_interval", database, dboshost.Options{PollInterval: -1}},
	} {
		_, err := dboshost.Open(t.Context(), c.database, &c.opts)
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	h, err := dboshost.Open(t.Context(), database, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	if err := h.Serve(nil); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("serving no engine: %v", err)
	}
}
