package crosshost_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"go.temporal.io/sdk/worker"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// service is one deployment: each process finds what its predecessors left under way.
type service struct {
	// start starts a process. It returns the process's engine and a function that ends it and releases its leases.
	start func(st driver.Store, a *cairn.Agent) (*engine.Engine, func())
	// recovers reports whether the host makes a new process drive the runs that are under way. Otherwise the test
	// has to resume them.
	recovers bool
}

// services returns one service for each host.
func services(t *testing.T) map[string]service {
	t.Helper()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	c := dial(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "dbos.db")
	return map[string]service{
		"inprocess": {start: func(st driver.Store, a *cairn.Agent) (*engine.Engine, func()) {
			eng := inProcess(t, st, []*cairn.Agent{a}, &engine.Options{})
			return eng, func() { _ = eng.Close(done) } // the error reports that it released a run
		}},
		"temporal": {recovers: true, start: func(st driver.Store, a *cairn.Agent) (*engine.Engine, func()) {
			h, err := temporalhost.New(c, &temporalhost.Options{TaskQueue: t.Name(), Prefix: t.Name()})
			if err != nil {
				t.Fatal(err)
			}
			eng := inProcess(t, st, []*cairn.Agent{a}, &engine.Options{Host: h})
			w := h.Worker(eng, worker.Options{})
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			return eng, func() {
				_ = eng.Close(done)
				w.Stop()
			}
		}},
		"dbos": {recovers: true, start: func(st driver.Store, a *cairn.Agent) (*engine.Engine, func()) {
			h, err := dboshost.Open(t.Context(), database, &dboshost.Options{Executor: "one"})
			if err != nil {
				t.Fatal(err)
			}
			eng := inProcess(t, st, []*cairn.Agent{a}, &engine.Options{Host: h})
			if err := h.Serve(eng); err != nil {
				t.Fatal(err)
			}
			return eng, func() {
				_ = eng.Close(done)
				if err := h.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}},
	}
}

// onEach runs a test on each host.
func onEach(t *testing.T, test func(t *testing.T, on service, place hosttest.Store)) {
	t.Parallel()
	place := files(t)
	for _, name := range []string{"inprocess", "temporal", "dbos"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, services(t)[name], place)
		})
	}
}

func outcome(t *testing.T, run *engine.Run, err error) *cairn.Result {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := run.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// successor is another agent of the same name: with other instructions, another model, a refund that does something
// else, and a new tool. It reports every request that is not its own.
func successor(t *testing.T) *cairn.Agent {
	settle := cairn.Func("refund", "Refunds twice.", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "refunded twice " + in.Text, call.Append([]string{"refunds"}, in.Text, in.Text)
	}, cairn.RequireApproval())
	return &cairn.Agent{Name: "bot", Instructions: "Be brief.", Tools: []cairn.Tool{settle, note()},
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			var tools []string
			for i := range req.Tools {
				tools = append(tools, req.Tools[i].Name)
			}
			slices.Sort(tools)
			if req.System != "Be brief." || !slices.Equal(tools, []string{"note", "refund"}) {
				t.Errorf("the new model has the instructions %q and has the tools %q", req.System, tools)
			}
			if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool && last.ToolResults()[0].Tool != "note" {
				return asks("c9", "note", "new")
			}
			return scripted.Text("From the new one.")
		})}
}

// A suspended session is resumed with the agent that has its name then, and so is its next turn.
func TestAgentIsReplacedBetweenTurns(t *testing.T) {
	onEach(t, func(t *testing.T, on service, place hosttest.Store) {
		st := place.Open(t, nil)
		old := agent("bot", []scripted.Step{asks("c1", "refund", "42"), scripted.Text("From the old one.")}, refund())
		old.Instructions = "Be verbose."
		one, leave := on.start(place.Another(t, st), old)
		run, err := one.Execute(t.Context(), "s", "bot", cairn.Text("go"))
		if res := outcome(t, run, err); res.Status != cairn.RunSuspended {
			t.Fatalf("the turn came to %+v", res)
		}
		leave()
		answer(t, place.Another(t, st))
		two, leave := on.start(place.Another(t, st), successor(t))
		defer leave()
		run, err = two.Resume(t.Context(), "s")
		if res := outcome(t, run, err); res.Text != "From the new one." {
			t.Errorf("the turn came to %+v", res)
		}
		run, err = two.Execute(t.Context(), "s", "bot", cairn.Text("and?"))
		if res := outcome(t, run, err); res.Text != "From the new one." {
			t.Errorf("the next turn came to %+v", res)
		}
		if raw, err := driver.State(t.Context(), st, "s", ""); err != nil || string(raw) != `{"notes":["new"],"refunds":["42","42"]}` {
			t.Errorf("the state is %s, %v", raw, err)
		}
	})
}

// A turn that is under way with the old agent is completed by the new one: the host's records of it do not depend
// on the agent.
func TestAgentIsReplacedUnderATurn(t *testing.T) {
	onEach(t, func(t *testing.T, on service, place hosttest.Store) {
		st := place.Open(t, nil)
		working := make(chan struct{})
		one, leave := on.start(place.Another(t, st), agent("bot", []scripted.Step{
			scripted.Reply(asks("c1", "note", "old"), asks("c2", "note", "older")),
			scripted.Reply(scripted.Text("well "), scripted.Do(func() { close(working) }), scripted.Gate(make(chan struct{}))),
		}, note()))
		if _, err := one.Execute(t.Context(), "s", "bot", cairn.Text("go")); err != nil {
			t.Fatal(err)
		}
		<-working
		leave()
		two, leave := on.start(place.Another(t, st), successor(t))
		defer leave()
		find := two.Attach
		if !on.recovers {
			find = func(ctx context.Context, id string) (*engine.Run, error) { return two.Resume(ctx, id) }
		}
		run, err := find(t.Context(), "s")
		if res := outcome(t, run, err); res.Text != "From the new one." || res.Turn != 1 || res.Steps != 2 {
			t.Errorf("the turn came to %+v", res)
		}
		if raw, err := driver.State(t.Context(), st, "s", ""); err != nil || string(raw) != `{"notes":["old","older"]}` {
			t.Errorf("the state is %s, %v", raw, err)
		}
		problems, err := hosttest.Unsound(t.Context(), st, st.(driver.LogProvider).EventLog(), "s")
		if err != nil || len(problems) > 0 {
			t.Errorf("unsound: %q, %v", problems, err)
		}
	})
}
