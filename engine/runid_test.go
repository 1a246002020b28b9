package engine_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// An Execute with the id of a run is made once, however often and from wherever it is asked for.
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
			if errors.Is(err, cairn.ErrAlreadyRunning) { // it is being begun
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
	for _, opts := range [][]engine.RunOption{
		{engine.WithRunID("no\nid")}, {engine.WithRunID("a"), engine.FromMessage(0)}, {engine.WithRunID("a"), engine.WithOnBusy(engine.BusySteer)},
	} {
		if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"), opts...); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%d options: %v", len(opts), err)
		}
	}
	if _, err := eng.Resume(t.Context(), "s", engine.WithRunID("a")); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("resume: %v", err)
	}
}
