package hosttest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// RunWrites checks the number of writes of a turn on a store with a log of its own: one commit for its beginning and
// one for each step, one append for the first text of a step, and no reads. The commits include the events.
func RunWrites(t *testing.T, place Store) {
	moment := scripted.Pause(5 * time.Millisecond) // shorter than events are held back
	for name, steps := range map[string][]scripted.Step{
		"one step": {scripted.Text("Done.")},
		"three steps": {scripted.Reply(moment, asks("c1", "note", "a")), scripted.Reply(moment, asks("c2", "note", "b")),
			scripted.Reply(moment, scripted.Text("Done."))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if place.Bubble {
				synctest.Test(t, func(t *testing.T) { countWrites(t, place, steps) })
			} else {
				countWrites(t, place, steps)
			}
		})
	}
}

func countWrites(t *testing.T, place Store, steps []scripted.Step) {
	s := newScene(t, InProcess, place)
	var mu sync.Mutex
	var calls []string
	line := &tap{Store: s.st, log: s.log}
	line.watch(func(o operation) error {
		if place.Bubble {
			testclock.Deaf(50 * time.Millisecond) // a commit that takes longer than events are held back
		}
		mu.Lock()
		defer mu.Unlock()
		if o.name != "Renew" { // also by a watcher of stops, once it watches
			calls = append(calls, o.name)
		}
		return nil
	}, nil)
	o := &engine.Options{}
	if !place.Bubble { // however slow the store is
		o.Coalesce, o.LeaseTTL = time.Hour, time.Hour
	}
	eng := s.host.Start(t, line.line(), []*cairn.Agent{bot(plays(steps...), s.note())}, o)
	defer func() {
		if err := eng.Close(s.Context()); err != nil {
			t.Error(err)
		}
	}()
	mu.Lock()
	calls = nil // of the engine's start
	mu.Unlock()
	run, err := eng.Execute(s.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(s.Context()); err != nil || res.Status != cairn.RunCompleted {
		t.Fatal(res, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) > 0 && calls[0] == "Read" { // that there is no session yet
		calls = calls[1:]
	}
	commits := slices.DeleteFunc(slices.Clone(calls), func(op string) bool { return op == "Append" })
	if want := slices.Repeat([]string{"Commit"}, len(steps)+1); !slices.Equal(commits, want) || len(calls)-len(want) > 1 {
		t.Errorf("a turn of %d steps cost %s; want %d commits and at most one append", len(steps), strings.Join(calls, ", "), len(want))
	}
	if problems, err := Unsound(s.Context(), s.st, s.log, "s"); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
