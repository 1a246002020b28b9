package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// An option that a verb cannot honor is refused by name, and nothing happens.
func TestOptionsAreHonouredOrRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()))
		start(t, eng, "s", "go")
		synctest.Wait()
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		before := load(t, st, "s").Version
		verbs := map[string]func(...engine.RunOption) (*engine.Run, error){
			"Resume": func(o ...engine.RunOption) (*engine.Run, error) { return eng.Resume(t.Context(), "s", o...) },
			"Retry":  func(o ...engine.RunOption) (*engine.Run, error) { return eng.Retry(t.Context(), "s", o...) },
		}
		for name, option := range map[string]engine.RunOption{
			"WithTags": engine.WithTags("x"), "WithMetadata": engine.WithMetadata(map[string]string{"k": "v"}),
			"WithTraceParent": engine.WithTraceParent("00-1-2-01"), "WithExpiry": engine.WithExpiry(time.Now().Add(time.Hour)),
			"WithOnBusy": engine.WithOnBusy(engine.BusyEnqueue),
		} {
			for verb, do := range verbs {
				_, err := do(option)
				if !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(fmt.Sprint(err), name) {
					t.Errorf("%s with %s: %v", verb, name, err)
				}
			}
		}
		execute := func(o ...engine.RunOption) (*engine.Run, error) {
			return eng.Execute(t.Context(), "s", "bot", cairn.Text("more"), o...)
		}
		for name, options := range map[string][]engine.RunOption{
			"WithInput": {engine.WithInput(cairn.Text("x"))}, "FromCheckpoint": {engine.FromCheckpoint("cp")},
			"WithHooks": {engine.WithHooks(&cairn.Hooks{}), engine.WithOnBusy(engine.BusyEnqueue)},
		} {
			if _, err := execute(options...); !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("Execute with %s: %v", name, err)
			}
		}
		if _, err := eng.Retry(t.Context(), "s", engine.FromCheckpoint("cp")); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("Retry with FromCheckpoint: %v", err)
		}
		if row := load(t, st, "s"); row.Version != before {
			t.Errorf("the session was changed")
		}
	})
}

// Hooks of the call that resumes a crashed run see the rest of the run.
func TestHooksOfAResumeThatTakesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, heard := tapOn(nil), 0
		start(t, open(t, st, bot(scripted.New(scripted.Reply(scripted.Do(st.cut), scripted.Pause(time.Hour)))), shortLease), "s", "go")
		testclock.Advance(ttl)
		run, err := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("ok"))), named("b")).Resume(t.Context(), "s",
			engine.WithHooks(&cairn.Hooks{RunComplete: func(context.Context, *cairn.Step, *cairn.Result) { heard++ }}))
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		if synctest.Wait(); heard != 1 {
			t.Errorf("the hook was called %d times", heard)
		}
	})
}

// However many turns replace each other at once, each begins, or reports that another one has the session or that the
// session was deleted.
func TestTurnsInPlaceOfEachOther(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			var engines []*engine.Engine
			for i := range 3 {
				// As far away as a store on the network.
				far := tapOn(st.Store)
				far.stepIn(nil, func(context.Context, string) error {
					testclock.Deaf(time.Duration(rand.IntN(2000)) * time.Microsecond)
					return nil
				})
				engines = append(engines, open(t, far, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
					return scripted.Reply(scripted.Pause(time.Duration(rand.IntN(3))*time.Millisecond), scripted.Text("done"))
				})), named(fmt.Sprint("e", i, "_"))))
			}
			var group sync.WaitGroup
			for i := range 60 {
				group.Go(func() {
					eng, busy := engines[i%3], engine.OnBusy(i/3%4)
					if i%20 == 19 {
						_ = eng.Delete(t.Context(), "s")
						return
					}
					run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text(fmt.Sprint(i)), engine.WithOnBusy(busy))
					switch {
					case err == nil:
						_, _ = run.Wait(t.Context())
					case errors.Is(err, cairn.ErrDeleted): // its id stays taken
					case busy != engine.BusyReject || !errors.Is(err, cairn.ErrAlreadyRunning):
						t.Errorf("turn %d: %v", i, err)
					}
				})
			}
			group.Wait()
		})
	}
}

// Of concurrent writers of one session one always succeeds, so all of them do eventually.
func TestManyAddContextAtOnce(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	if _, err := driver.Create(t.Context(), st, &cairn.Session{ID: "s", Agent: "bot"}, nil); err != nil {
		t.Fatal(err)
	}
	eng := open(t, st, bot(scripted.New()))
	const n = 300
	// Slow as a store on the network: every writer reads before any of them writes.
	st.stepIn(nil, func(_ context.Context, op string) error {
		if op == "Load" {
			testclock.Deaf(time.Millisecond)
		}
		return nil
	})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := eng.AddContext(t.Context(), "s", fmt.Sprint("fact ", i)); err != nil {
				t.Errorf("fact %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if list := messages(t, st.Store, "s"); len(list) != n {
		t.Errorf("%d messages, want %d", len(list), n)
	}
}

// A writer that does not succeed stops when its context ends.
func TestUpdateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		turn(t, open(t, st, bot(scripted.New(scripted.Text("done")))), "s", "go")
		eng := open(t, st, bot(scripted.New()), named("b"))
		st.stepIn(func(_ context.Context, op string) error {
			if op == "Commit" {
				return driver.Conflict(cairn.ErrStale, nil, "another process is always faster")
			}
			return nil
		}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := eng.AddContext(ctx, "s", "fact")
		if took := time.Since(begun); took < time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
		if calls := st.seen(); len(calls) > 10_000 {
			t.Errorf("%d calls of the store within a minute", len(calls))
		}
	})
}

// If another caller is faster in the middle of a verb, the verb looks again and does not report what it found there.
func TestExecuteTellsOfNoInnerConflict(t *testing.T) {
	t.Parallel()
	done := func() *cairn.Agent { return bot(scripted.New(scripted.Text("done"))) }
	once := func(fn func()) func() { return sync.OnceFunc(fn) }
	t.Run("taken back by another", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st := tapOn(nil)
			start(t, open(t, tapOn(st.Store), bot(storyteller()), named("b")), "s", "one")
			synctest.Wait()
			other := open(t, tapOn(st.Store), bot(scripted.New(scripted.Text("x"), scripted.Text("y"))), named("c"))
			overtake := once(func() { // after the run was stopped, before it is undone
				turn(t, other, "s", "faster")
				turn(t, other, "s", "and again")
			})
			loads := 0 // of the session after it was stopped: the first sees that, the second precedes the rollback
			st.stepIn(nil, func(_ context.Context, op string) error {
				if row, err := driver.Load(t.Context(), st.Store, "s"); op == "Load" && err == nil && row.Status == cairn.SessionInterrupted {
					if loads++; loads == 2 {
						overtake()
					}
				}
				return nil
			})
			run, err := open(t, st, done()).Execute(t.Context(), "s", "bot", cairn.Text("two"), engine.WithOnBusy(engine.BusyRollback))
			if err != nil {
				t.Fatal(err)
			}
			if res := wait(t, run); res.Status != cairn.RunCompleted || res.Turn != 4 {
				t.Errorf("%+v", res)
			}
		})
	})
	t.Run("made by another", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st := tapOn(nil)
			eng := open(t, st, bot(scripted.New(scripted.Text("one"), scripted.Text("two"))))
			turn(t, eng, "s", "one")
			other := open(t, tapOn(st.Store), done(), named("b"))
			if err := other.Erase(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			make := once(func() { turn(t, other, "s", "another one") })
			commits := 0 // the first finds the session gone, the second creates it
			st.stepIn(func(_ context.Context, op string) error {
				if op == "Commit" {
					if commits++; commits == 2 {
						make()
					}
				}
				return nil
			}, nil)
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("two"))
			if err != nil {
				t.Fatal(err)
			}
			if res := wait(t, run); res.Turn != 2 {
				t.Errorf("%+v", res)
			}
		})
	})
}
