package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// An Execute with a run id happens once, however often and from wherever it is called.
func TestExecuteWithRunIDIsIdempotent(t *testing.T) {
	st := memstore.New(nil)
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("one"), scripted.Text("two"), scripted.Text("three"))}
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.WithRunID("mine"))
			if errors.Is(err, cairn.ErrAlreadyRunning) { // its begin is under way
				return
			}
			if err != nil || run.ID() != "mine" {
				t.Errorf("%v, %v", run, err)
				return
			}
			if res, err := run.Wait(t.Context()); err != nil || res.Text != "one" {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	all.Wait()
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.WithRunID("mine"))
	if err != nil || run.ID() != "mine" || run.Turn() != 1 {
		t.Fatalf("after the end: %v, %v", run, err)
	}
	if run, err = eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.WithRunID("other")); err != nil || run.Turn() != 2 {
		t.Fatalf("another id: %v, %v", run, err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A turn that has to be queued has its id in the queue, and is queued once.
func TestQueuedTurnHasItsRunID(t *testing.T) {
	st := memstore.New(nil)
	release := make(chan struct{})
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Reply(scripted.Do(func() { <-release }), scripted.Text("one")), scripted.Text("two"))}
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi")); err != nil {
		t.Fatal(err)
	}
	var runs []*engine.Run
	for range 2 {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("and"), engine.WithRunID("mine"), engine.WithOnBusy(engine.BusyEnqueue))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if queue, err := eng.Queue(t.Context(), "s"); err != nil || len(queue) != 1 || queue[0].ID != "mine" {
		t.Fatalf("queued: %+v, %v", queue, err)
	}
	close(release)
	for _, run := range runs {
		if res, err := run.Wait(t.Context()); err != nil || res.RunID != "mine" || res.Text != "two" || res.Turn != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

func TestRunIDIsRefused(t *testing.T) {
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "bot", Model: scripted.New(scripted.Text("hi"))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), engine.WithRunID("no\nid")); !errors.Is(err, cairn.ErrInvalid) {
		t.Error(err)
	}
	if _, err := eng.Create(t.Context(), "s", "bot", engine.WithRunID("a")); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("create: %v", err)
	}
}

// However often, from however many processes and in whatever way a turn with a run id is begun, it begins once.
func TestNamedRunBeginsOnce(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]engine.RunOption{
		"alone":     nil,
		"enqueue":   {engine.WithOnBusy(engine.BusyEnqueue)},
		"interrupt": {engine.WithOnBusy(engine.BusyInterrupt)},
		"rollback":  {engine.WithOnBusy(engine.BusyRollback)},
		"steer":     {engine.WithOnBusy(engine.BusySteer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			gate := make(chan struct{})
			model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
				if r.Messages[len(r.Messages)-1].Text() == "first" {
					<-gate
				}
				return scripted.Text("yes")
			})
			engines := []*engine.Engine{open(t, st, bot(model)), open(t, st, bot(model))}
			if opts == nil {
				close(gate)
				start(t, engines[0], "s", "first").Wait(t.Context())
			} else {
				start(t, engines[0], "s", "first")
				if name != "enqueue" && name != "steer" {
					close(gate)
				}
			}
			var all sync.WaitGroup
			for i := range 12 {
				all.Go(func() {
					run, err := engines[i%2].Execute(t.Context(), "s", "bot", cairn.Text("second"), append(opts, engine.WithRunID("named"))...)
					if err != nil || name != "steer" && run.ID() != "named" {
						t.Errorf("got %v, %v", run, err)
					}
				})
			}
			all.Wait()
			if name == "enqueue" || name == "steer" {
				close(gate)
			}
			run, err := engines[1].Execute(t.Context(), "s", "bot", cairn.Text("third"), engine.WithRunID("named"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			list, err := engines[0].Messages(t.Context(), "s", 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			said := 0
			for i := range list {
				if list[i].Role == cairn.RoleUser && list[i].Text() == "second" {
					said++
				}
			}
			runs, err := engines[0].Runs(t.Context(), "s", store.PageQuery{})
			if err != nil || said != 1 || len(runs.Items) > 2 {
				t.Errorf("said %d times in %d runs, %v: %s", said, len(runs.Items), err, texts(list))
			}
		})
	}
}

// A Resume and a Retry with a run id happen once, too.
func TestNamedRunResumesOnce(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "no")), scripted.Text("a"), scripted.Text("b"))))
	if _, err := start(t, eng, "s", "hi").Wait(t.Context()); err == nil {
		t.Fatal("it did not fail")
	}
	for range 2 {
		run, err := eng.Retry(t.Context(), "s", engine.WithRunID("again"))
		if err != nil || run.ID() != "again" {
			t.Fatalf("got %v, %v", run, err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := eng.Retry(t.Context(), "s", engine.WithRunID("no\x00id")); err == nil {
		t.Error("a name that cannot be kept is accepted")
	}
	if row, err := eng.Session(t.Context(), "s"); err != nil || row.Turn != 2 {
		t.Errorf("got %+v, %v", row, err)
	}
}

// slowBegin is a store whose first commit waits.
type slowBegin struct {
	*memstore.Store
	first sync.Once
	gate  chan struct{}
}

func (s *slowBegin) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	s.first.Do(func() { <-s.gate })
	return s.Store.Commit(ctx, id, c)
}

// A caller that comes while another one is about to begin the run of that id waits for it, and gets the run.
func TestNamedRunIsBeingBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &slowBegin{Store: memstore.New(nil), gate: make(chan struct{})}
		eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("yes") })))
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"), engine.WithRunID("named"))
				if err != nil || run.ID() != "named" {
					t.Errorf("got %v, %v", run, err)
				}
			})
		}
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := eng.Execute(impatient, "s", "bot", cairn.Text("go"), engine.WithRunID("named")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait got %v", err)
		}
		close(st.gate)
		all.Wait()
		if row := load(t, st, "s"); row.Turn != 1 {
			t.Errorf("%d runs were begun", row.Turn)
		}
	})
}
