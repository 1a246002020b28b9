package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// queueOf limits the queue.
func queueOf(n int) option { return with(func(o *engine.Options) { o.MaxQueue = n }) }

// A full queue takes no entry of any kind, and takes one again once it has room.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	enqueue := engine.WithOnBusy(engine.BusyEnqueue)
	entries := map[string]func(ctx context.Context, eng *engine.Engine) error{
		"AddContext": func(ctx context.Context, eng *engine.Engine) error { return eng.AddContext(ctx, "s", "a hint") },
		"SwitchTools": func(ctx context.Context, eng *engine.Engine) error {
			return eng.SwitchTools(ctx, "s", map[string]bool{"note": false})
		},
	}
	for name, opt := range map[string]engine.RunOption{"enqueue": enqueue, "steer": engine.WithOnBusy(engine.BusySteer)} {
		entries[name] = func(ctx context.Context, eng *engine.Engine) error {
			_, err := eng.Execute(ctx, "s", "bot", cairn.Text("more"), opt)
			return err
		}
	}
	for name, entry := range entries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				eng := open(t, st, bot(talker(), note()), queueOf(2))
				run := start(t, eng, "s", "one")
				testclock.Advance(time.Second) // into the pause
				second := start(t, eng, "s", "two", enqueue, engine.WithRunID("run_two"))
				if err := entry(t.Context(), eng); err != nil {
					t.Fatal(err)
				}
				err := entry(t.Context(), eng)
				e := cairn.AsError(err)
				if !errors.Is(err, cairn.ErrQueueFull) || e.Code.HTTPStatus() != 409 || !e.Retryable() {
					t.Fatalf("one too many: %v", err)
				}
				if row := load(t, st, "s"); row.Queued != 2 {
					t.Errorf("the queue has %d entries", row.Queued)
				}
				if again := start(t, eng, "s", "two", enqueue, engine.WithRunID("run_two")); again.ID() != second.ID() {
					t.Errorf("a repeated turn is run %s", again.ID())
				}
				wait(t, run)
				wait(t, second)
				synctest.Wait()
				if err := entry(t.Context(), eng); err != nil {
					t.Errorf("there is room again: %v", err)
				}
			})
		})
	}
}

// A turn behind a wait for people, or behind the run of a dead process, needs room as well.
func TestBoundOfQueuesThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ask := cairn.ClientTool[in, string]("ask", "Asks.")
		eng := open(t, tapOn(nil), bot(scripted.New(scripted.Call("ask", in{"?"})), ask), queueOf(1))
		turn(t, eng, "s", "one")
		behind := engine.WithOnWaiting(engine.WaitingEnqueue)
		start(t, eng, "s", "two", behind)
		_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("three"), behind)
		wantError(t, err, cairn.ErrQueueFull)

		st := tapOn(nil)
		abandoned(t, st, "bot", 1)
		// The lease has lapsed, so a turn takes the run over and is queued behind it.
		eng = open(t, st, bot(scripted.New(scripted.Pause(time.Hour))), queueOf(1), named("b"), patient)
		start(t, eng, "bot0", "two")
		synctest.Wait()
		for _, busy := range []engine.OnBusy{engine.BusyEnqueue, engine.BusySteer} {
			_, err = eng.Execute(t.Context(), "bot0", "bot", cairn.Text("three"), engine.WithOnBusy(busy))
			wantError(t, err, cairn.ErrQueueFull)
		}
	})
}

func TestQueueWithoutBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[int]int{-1: 150, 0: 100} {
			st := tapOn(nil)
			eng := open(t, st, bot(scripted.New(scripted.Pause(time.Hour))), queueOf(limit), patient)
			start(t, eng, "s", "one")
			for range 150 {
				_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("more"), engine.WithOnBusy(engine.BusyEnqueue))
				if err != nil && !errors.Is(err, cairn.ErrQueueFull) {
					t.Fatal(err)
				}
			}
			if row := load(t, st, "s"); row.Queued != want {
				t.Errorf("with a limit of %d the queue has %d entries, want %d", limit, row.Queued, want)
			}
		}
	})
}
