package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// settable is a store's clock, which a test can set.
type settable struct{ off atomic.Int64 }

func (c *settable) set(off time.Duration) { c.off.Store(int64(off)) }

func (c *settable) store() *memstore.Store {
	return memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }})
}

// slow is an agent whose answers take nine minutes.
func slow() *cairn.Agent {
	return bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Reply(scripted.Text("Well "), scripted.Pause(9*time.Minute), scripted.Text("done"))
	}))
}

// begunAhead begins a run in a process that dies, while the store's clock is an hour ahead, and sets the clock right.
func begunAhead(t *testing.T) *memstore.Store {
	t.Helper()
	clock := &settable{}
	clock.set(time.Hour)
	st := clock.store()
	dead := tapOn(st)
	start(t, open(t, dead, slow(), named("dead")), "s", "go")
	testclock.Advance(time.Second)
	dead.cut()
	clock.set(0)
	return st
}

// Each verb frees a session whose process died while the store's clock was ahead.
func TestClockSetBackHoldsNoSession(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]func(context.Context, *engine.Engine) error{
		"Execute": func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Execute(ctx, "s", "bot", cairn.Text("again"))
			return err
		},
		"Resume":    func(ctx context.Context, e *engine.Engine) error { _, err := e.Resume(ctx, "s"); return err },
		"Interrupt": func(ctx context.Context, e *engine.Engine) error { return e.Interrupt(ctx, "s", "") },
		"Abort":     func(ctx context.Context, e *engine.Engine) error { return e.Abort(ctx, "s", "") },
		"Delete":    func(ctx context.Context, e *engine.Engine) error { return e.Delete(ctx, "s") },
		"Erase":     func(ctx context.Context, e *engine.Engine) error { return e.Erase(ctx, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng := open(t, tapOn(begunAhead(t)), slow(), named("b"))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if err := verb(ctx, eng); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A worker takes such a run over once the time of a lease has passed, as if its process had died only now.
func TestWorkerTakesOverAfterClockWasSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := begunAhead(t)
		eng := open(t, tapOn(st), slow(), named("b"))
		defer work(t, eng)()
		testclock.Advance(29 * time.Second)
		if row := load(t, st, "s"); row.Recoveries != 0 || !row.Running(row.AsOf) {
			t.Errorf("within the time of a lease: %d recoveries, %+v as of %s", row.Recoveries, row.Lease, row.AsOf)
		}
		testclock.Advance(3 * time.Second)
		if row := load(t, st, "s"); row.Recoveries != 1 || !row.Running(row.AsOf) {
			t.Errorf("after it: %d recoveries, %+v as of %s", row.Recoveries, row.Lease, row.AsOf)
		}
	})
}

// A run whose process is alive stays with it when the clock is set back, under the eyes of a worker.
func TestClockSetBackLeavesLivingRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := &settable{}
		clock.set(time.Hour)
		st := clock.store()
		run := start(t, open(t, tapOn(st), slow(), named("a")), "s", "go")
		defer work(t, open(t, tapOn(st), slow(), named("b")))()
		testclock.Advance(15 * time.Second)
		clock.set(0)
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		if row := load(t, st, "s"); row.Recoveries != 0 {
			t.Errorf("%d recoveries", row.Recoveries)
		}
	})
}

// A worker's registration from the time before the clock was set back is none.
func TestClockSetBackForgetsDeadWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := &settable{}
		clock.set(time.Hour)
		st := clock.store()
		dead := tapOn(st)
		stop := work(t, open(t, dead, slow(), named("dead")))
		defer stop()
		testclock.Advance(time.Second)
		dead.cut()
		clock.set(0)
		eng := open(t, tapOn(st), slow(), named("b"))
		if list := workersOf(t, eng); len(list) != 0 {
			t.Errorf("registered are %q", list)
		}
	})
}

func workersOf(t *testing.T, eng *engine.Engine) (owners []string) {
	t.Helper()
	for w, err := range eng.Workers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, w.Owner)
	}
	return owners
}

// A sweep removes nothing when the store's clock has jumped, in either direction. The next one does, unless the clock has
// jumped again.
func TestSweepStopsWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := &settable{}
		st := clock.store()
		eng := open(t, st, bot(scripted.New(scripted.Text("one"), scripted.Text("two"))))
		turn(t, eng, "kept", "go")
		turn(t, eng, "deleted", "go")
		if err := eng.Delete(t.Context(), "deleted"); err != nil {
			t.Fatal(err)
		}
		sweep := func(jump time.Duration, want engine.SweepReport) {
			t.Helper()
			testclock.Advance(time.Hour)
			r, err := eng.Sweep(t.Context())
			if jumped := errors.Is(err, cairn.ErrUnavailable); jumped != (jump != 0) || r.ClockJump != cairn.Duration(jump) || r.Expired != want.Expired || r.Purged != want.Purged {
				t.Errorf("the report is %+v, %v, want %+v after a jump by %s", r, err, want, jump)
			}
		}
		sweep(0, engine.SweepReport{})
		sweep(0, engine.SweepReport{})
		clock.set(300 * 24 * time.Hour)
		sweep(300*24*time.Hour, engine.SweepReport{})
		clock.set(0)
		sweep(-300*24*time.Hour, engine.SweepReport{})
		sweep(0, engine.SweepReport{})
		clock.set(300 * 24 * time.Hour)
		sweep(300*24*time.Hour, engine.SweepReport{})
		sweep(0, engine.SweepReport{Expired: 1, Purged: 1})
	})
}
