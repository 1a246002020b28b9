package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestCloseLetsRunsComeToTheirEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()))
		run := start(t, eng, "s", "go")
		closed := make(chan error)
		go func() { closed <- eng.Close(context.Background()) }()
		synctest.Wait()
		_, err := eng.Execute(t.Context(), "other", "bot", cairn.Text("go"))
		wantError(t, err, cairn.ErrClosed)
		_, err = eng.Resume(t.Context(), "s")
		if err == nil {
			t.Error("resumed on a closing engine")
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantSound(t, st, "s")
		if err := eng.Work(t.Context()); err == nil {
			t.Error("worked on a closed engine")
		}
	})
}

func TestCloseLetsGoOfRunsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					switch len(req.Messages) {
					case 1:
						return scripted.Call("note", in{"x"})
					case 3:
						return scripted.Reply(scripted.Text("half of "), scripted.Pause(time.Minute), scripted.Text("it all"))
					}
					return scripted.Text("more")
				}), note())
				agent.Durability = d
				eng := open(t, st, agent)
				run := start(t, eng, "s", "go")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				wantError(t, eng.Close(ctx), context.DeadlineExceeded)
				_, err := run.Wait(t.Context())
				wantError(t, err, cairn.ErrClosed)
				var last error
				for _, err := range run.Events(t.Context()) {
					last = err
				}
				wantError(t, last, cairn.ErrClosed)

				// Somebody else goes on at once, without waiting for the lease.
				begun := time.Now()
				other := open(t, tapOn(st.Store), agent, named("b"))
				again, err := other.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				res := wait(t, again)
				if res.RunID != run.ID() || res.Text != "half of it all" || time.Since(begun) != time.Minute {
					t.Errorf("outcome %+v after %s", res, time.Since(begun))
				}
				if got := state(t, st, "s"); got != `{"notes":["x"]}` {
					t.Errorf("state %s", got)
				}
				wantSound(t, st, "s")
			})
		})
	}
}

func TestCloseInAHurryWithNothingToDoIsFine(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Text("ok"))))
		turn(t, eng, "s", "go")
		if err := eng.Close(gone); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := eng.Close(context.Background()); err != nil {
			t.Fatalf("close again: %v", err)
		}
	}
}

func TestResumeOnAClosedEngineChangesNothing(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(2), note()))
	turn(t, eng, "s", "go")
	first := checkpoints(t, eng, "s")[0].ID
	leave(t, eng)
	before := render(t, st, "s")
	_, err := eng.Resume(t.Context(), "s", engine.FromCheckpoint(first))
	wantError(t, err, cairn.ErrClosed)
	if render(t, st, "s") != before {
		t.Error("it left a trace")
	}

	stranger := bot(scripted.New())
	stranger.Name = "stranger"
	other, err := engine.New(st, []*cairn.Agent{stranger}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Resume(t.Context(), "s", engine.FromCheckpoint(first))
	wantError(t, err, cairn.ErrNotFound)
	if render(t, st, "s") != before {
		t.Error("an engine without the agent left a trace")
	}
}

func TestWorkersShareWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions = 40
		st := tapOn(nil)
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			return scripted.Reply(scripted.Do(func() { count(1) }), scripted.Pause(time.Minute), scripted.Do(func() { count(-1) }), scripted.Text("done"))
		})
		forever := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Pause(24 * time.Hour) })
		stranger := bot(forever)
		stranger.Name = "stranger" // no worker knows it, and its sessions have been due the longest
		lost, err := engine.New(st, []*cairn.Agent{stranger}, &engine.Options{NewID: counted("lost")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := lost.Execute(t.Context(), fmt.Sprint("lost", i), "stranger", cairn.Text("go")); err != nil {
				t.Fatal(err)
			}
		}
		leave(t, lost)
		time.Sleep(time.Second)
		first := open(t, st, bot(forever), named("d"))
		for i := range sessions {
			start(t, first, fmt.Sprint("s", i), "go")
		}
		leave(t, first)

		for i := range 2 {
			eng := open(t, tapOn(st.Store), bot(model), named(fmt.Sprint("w", i, "_")), with(func(o *engine.Options) { o.WorkConcurrency = 4 }))
			defer work(t, eng)()
		}
		time.Sleep(sessions/8*time.Minute + 30*time.Second) // and the time in which a worker looks again
		mu.Lock()
		if most != 8 {
			t.Errorf("%d runs at once, want 4 in each of 2 workers", most)
		}
		mu.Unlock()
		for i := range sessions {
			wantSound(t, st, fmt.Sprint("s", i))
		}
		if row := load(t, st, "lost0"); row.Status != cairn.SessionActive || row.Recoveries != 0 {
			t.Errorf("the session of an unknown agent was touched: %+v", row)
		}
	})
}

func TestWorkStopsWithItsContextOrItsEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, tapOn(nil), bot(scripted.New()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := eng.Work(ctx); err != nil {
			t.Errorf("work: %v", err)
		}
		done := make(chan error)
		go func() { done <- eng.Work(t.Context()) }()
		synctest.Wait()
		leave(t, eng)
		wantError(t, <-done, cairn.ErrClosed)
	})
}
