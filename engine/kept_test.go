package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// keeper is a host that is asked whether it drives a run.
type keeper struct {
	byHand
	name     string
	drives   bool
	silent   error
	asked    atomic.Int64
	shortest time.Duration
}

func (k *keeper) Name() string { return k.name }

func (k *keeper) Driving(_ context.Context, b host.Run) (bool, error) {
	k.asked.Add(1)
	if last := k.begun[len(k.begun)-1]; b.RunID != last.RunID || b.Token != last.Token || b.Turn != last.Turn || b.Agent != last.Agent {
		return false, fmt.Errorf("asked about %+v, driving %+v", b, last)
	}
	return k.drives, k.silent
}

func (k *keeper) CheckLease(ttl time.Duration) error {
	if ttl < k.shortest {
		return cairn.Invalid("lease_ttl", "%s is shorter than %s", ttl, k.shortest)
	}
	return nil
}

// A run whose lease has lapsed is its host's as long as the host says so, for every process: the lease is renewed, and
// no process asks again before it lapses once more.
func TestHostKeepsItsRun(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]func(*engine.Engine) error{
		"Resume": func(e *engine.Engine) error { _, err := e.Resume(t.Context(), "s"); return err },
		"Execute": func(e *engine.Engine) error {
			_, err := e.Execute(t.Context(), "s", "bot", cairn.Text("again"))
			return err
		},
		"CanResume": func(e *engine.Engine) error {
			if r, err := e.CanResume(t.Context(), "s"); err != nil || r.Resume {
				return fmt.Errorf("it can be resumed: %+v, %w", r, err)
			}
			return cairn.ErrAlreadyRunning
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, pass, clock := clocked()
			h := &keeper{name: "h", drives: true}
			eng := open(t, st, bot(scripted.New(scripted.Text("done"))), hostedBy(h), clock)
			start(t, eng, "s", "go")
			if got := load(t, st, "s").Lease.Host(); got != "h" {
				t.Fatalf("the lease says that the host is %q", got)
			}
			pass(time.Hour)
			for range 3 {
				wantError(t, verb(eng), cairn.ErrAlreadyRunning)
			}
			if h.asked.Load() != 1 {
				t.Errorf("the host was asked %d times, want once", h.asked.Load())
			}
			if due, err := st.Due(t.Context(), driver.DueQuery{}); err != nil || len(due.Items) != 0 {
				t.Errorf("due is %+v, %v", due, err)
			}
			drives(t, eng, h.begun[0], cairn.RunCompleted)
			wantSound(t, tapOn(st), "s")
		})
	}
}

// A worker leaves a run to its host while that drives it, and takes it over as soon as it does not. It asks when the
// lease has lapsed, not each time it looks.
func TestWorkerAsksTheHost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drives      bool
		silent      error
		stop, taken bool
	}{
		"driven":                {drives: true},
		"not driven":            {taken: true},
		"no answer":             {silent: errors.New("no answer")},
		"driven, but to stop":   {drives: true, stop: true, taken: true},
		"not driven, and stops": {stop: true, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, h := memstore.New(nil), &keeper{name: "h", drives: c.drives, silent: c.silent}
				eng := open(t, st, bot(scripted.New(scripted.Text("done"))), hostedBy(h), with(func(o *engine.Options) { o.LeaseTTL = time.Minute }))
				run := start(t, eng, "s", "go")
				if c.stop {
					if err := st.RequestStop(t.Context(), "s", cairn.Stop{RunID: run.ID(), Kind: cairn.StopInterrupt}); err != nil {
						t.Fatal(err)
					}
				}
				stop := work(t, eng)
				testclock.Advance(59 * time.Second)
				if h.asked.Load() != 0 {
					t.Errorf("the host was asked while the lease was good")
				}
				testclock.Advance(4 * time.Minute)
				stop()
				if taken := len(h.begun) > 1; taken != c.taken {
					t.Errorf("the run was taken over: %t, want %t", taken, c.taken)
				}
				if n := h.asked.Load(); n < 3 || n > 9 {
					t.Errorf("the host was asked %d times in 4 minutes", n)
				}
			})
		})
	}
}

// A worker that does not have a run's host takes the run over after a time. Until then, such runs, however many, do not
// delay others.
func TestWorkerWithoutTheHostWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("done") }))
		gone := open(t, st, agent, hostedBy(&keeper{name: "gone"}))
		for i := range 100 {
			start(t, gone, fmt.Sprint("hosted", i), "go")
		}
		start(t, open(t, st, agent, hostedBy(&byHand{}), named("b")), "dead", "go")
		stop := work(t, open(t, st, agent, named("c")))
		wantCompleted := func(id string, want bool) {
			t.Helper()
			if row := load(t, st, id); want != (row.Status == cairn.SessionCompleted) {
				t.Errorf("session %s is %s", id, row.Status)
			}
		}
		testclock.Advance(40 * time.Second)
		wantCompleted("dead", true)
		testclock.Advance(100 * time.Second)
		for i := range 100 {
			wantCompleted(fmt.Sprint("hosted", i), false)
		}
		testclock.Advance(40 * time.Second)
		for i := range 100 {
			wantCompleted(fmt.Sprint("hosted", i), true)
		}
		stop()
	})
}

// An engine is refused if its leases lapse before its host can have detected a dead process.
func TestLeaseTooShortForTheHost(t *testing.T) {
	t.Parallel()
	_, err := engine.New(memstore.New(nil), nil, &engine.Options{Host: &keeper{shortest: time.Minute}})
	wantError(t, err, cairn.ErrInvalid)
}

// Work cut off because its lease could not be renewed is not lost to a host: it retries, and still has the run unless
// another process took it.
func TestEffectOutlastsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := tapOn(nil), &byHand{}
		down := false
		slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
			if !down {
				down = true
				st.stepIn(func(_ context.Context, op string) error {
					return cairn.Errorf(cairn.ErrUnavailable, "the store is down")
				}, nil)
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "done", nil
		})
		eng := open(t, st, bot(scripted.New(scripted.Call("slow", in{}).ID("c1"), scripted.Text("bye")), slow), hostedBy(h))
		start(t, eng, "s", "go")
		carry(t, eng, host.EffectPlan, next(h.begun[0], ""))
		_, err := eng.ForHost().Effect(t.Context(), host.EffectTool, next(h.begun[0], "c1"))
		wantError(t, err, cairn.ErrUnavailable)
		st.stepIn(nil, nil)
		drives(t, eng, h.begun[0], cairn.RunCompleted)
		wantSound(t, st, "s")
	})
}

// A run is held while its host does other work for it, until another process takes it over.
func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &byHand{}
		eng := open(t, st, bot(scripted.New(scripted.Text("bye"))), hostedBy(h))
		start(t, eng, "s", "go")
		at := h.begun[0].Position
		err := eng.ForHost().Hold(t.Context(), at, func(context.Context) error {
			testclock.Advance(time.Hour)
			if row := load(t, st, "s"); !row.Running(time.Now()) {
				t.Errorf("the lease ran out at %s", row.Lease.Until)
			}
			return nil
		})
		wantError(t, err, nil)
		err = eng.ForHost().Hold(t.Context(), at, func(ctx context.Context) error {
			if err := eng.ForHost().ReleaseRun(t.Context(), at); err != nil {
				t.Error(err)
			}
			if _, err := eng.Resume(t.Context(), "s"); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		wantError(t, err, cairn.ErrFenced)
		wantError(t, eng.ForHost().ReleaseRun(t.Context(), at), nil)
		closed := make(chan error, 1)
		wantError(t, eng.ForHost().Hold(t.Context(), h.begun[1].Position, func(ctx context.Context) error {
			go func() { closed <- eng.Close(context.Background()) }() // does not wait for what never ends
			<-ctx.Done()
			return ctx.Err()
		}), cairn.ErrClosed)
		wantError(t, <-closed, nil)
		if row := load(t, st, "s"); !row.Running(time.Now()) {
			t.Error("a run that another process has was released")
		}
	})
}
