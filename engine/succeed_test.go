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
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// called is a host whose runs callers drive, forever.
type called struct{ byHand }

func (h *called) Name() string                                    { return "called" }
func (h *called) Driving(context.Context, host.Run) (bool, error) { return true, nil }
func (h *called) CheckLease(time.Duration) error                  { return nil }
func (h *called) DrivesSteps()                                    {}

// mortal is a store whose process can die, or sleep.
type mortal struct {
	*tap
	dead *atomic.Bool
	wake chan struct{} // a process that sleeps wakes when it is closed
}

func newMortal(st *tap) mortal { return mortal{st, &atomic.Bool{}, make(chan struct{})} }

// die ends the process as far as others can see.
func (m mortal) die() {
	m.dead.Store(true)
	close(m.wake)
	m.cut()
}

// sleep lets no call through until the process wakes.
func (m mortal) sleep() {
	m.dead.Store(true)
	m.stepIn(func(context.Context, string) error { <-m.wake; return nil }, nil)
}

func (m mortal) awake() {
	m.dead.Store(false)
	close(m.wake)
}

type mortalRecords struct {
	store.Records
	of mortal
}

func (m mortal) Records() store.Records { return mortalRecords{m.tap.Records(), m} }

func (m mortalRecords) lives() error {
	if m.of.dead.Load() {
		<-m.of.wake
	}
	if m.of.dead.Load() {
		return cairn.Errorf(cairn.ErrUnavailable, "cut off")
	}
	return nil
}

func (m mortalRecords) Put(ctx context.Context, w store.RecordWrite) (*store.Record, error) {
	if err := m.lives(); err != nil {
		return nil, err
	}
	return m.Records.Put(ctx, w)
}

func (m mortalRecords) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if err := m.lives(); err != nil {
		return err
	}
	return m.Records.Delete(ctx, namespace, key, seen)
}

// succeeded calls Advance, which must take the run over.
func succeeded(t *testing.T, eng *engine.Engine, at host.Run) host.Run {
	t.Helper()
	p := advanced(t, eng, at, engine.AdvanceMore, at.Step)
	if p.Run.Token <= at.Token {
		t.Fatalf("the lease is %d, as before", p.Run.Token)
	}
	return p.Run
}

// When a process dies during a step, the first call after it has been silent for a lease takes the run over: from the
// reply and the results in the store, if they last. Calls with earlier references get the new one.
func TestAdvanceAfterDeath(t *testing.T) {
	t.Parallel()
	for d, want := range map[cairn.Durability]string{cairn.PerTool: "1 model call, 1 and 2 calls of tools", cairn.PerStep: "2 model call, 2 and 2 calls of tools"} {
		synctest.Test(t, func(t *testing.T) {
			st, h := tapOn(nil), &called{}
			var plans, quick, long atomic.Int64
			model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
				if len(req.Messages) > 1 {
					return scripted.Text("done")
				}
				plans.Add(1)
				return scripted.Reply(scripted.Call("quick", in{"1"}).ID("c1"), scripted.Call("long", in{"2"}).ID("c2"))
			})
			agent := bot(model,
				tool("quick", func(context.Context, *cairn.Call, in) (string, error) { quick.Add(1); return "ok", nil }),
				tool("long", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
					if long.Add(1) == 1 {
						return "lost", testclock.Pause(ctx, time.Hour)
					}
					return "ok", nil
				}))
			agent.Durability = d
			dying := newMortal(st)
			one := open(t, dying, agent, hostedBy(h))
			two := open(t, st.twin(), agent, hostedBy(h), named("b"))
			begun := begunBy(t, one, &h.byHand)
			go one.Advance(t.Context(), begun)
			synctest.Wait()
			dying.die()
			_, err := two.Advance(t.Context(), begun)
			wantError(t, err, cairn.ErrAlreadyRunning)

			testclock.Advance(31 * time.Second)
			taken := succeeded(t, two, begun)
			if again := succeeded(t, two, begun); again != taken {
				t.Errorf("a late call gets %+v, want %+v", again, taken)
			}
			p := advanced(t, two, taken, engine.AdvanceMore, 1)
			if got := fmt.Sprintf("%d model call, %d and %d calls of tools", plans.Load(), quick.Load(), long.Load()); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if p := advanced(t, two, begun, engine.AdvanceMore, 1); p.Run != advanced(t, two, taken, engine.AdvanceMore, 1).Run {
				t.Errorf("a late call gets %+v", p.Run)
			}
			advanced(t, two, p.Run, engine.AdvanceEnded, 2)
			wantSound(t, st.Store, "s")
			if page, err := st.Records().Namespaces(t.Context(), ""); err != nil || len(page.Items) > 0 {
				t.Errorf("records of %v are left, error %v", page.Items, err)
			}
		})
	}
}

// A process that sleeps longer than its lease does nothing more for a step that another one has taken over: it starts no
// tool and commits nothing, and its caller gets the other's reference, at once or with the next call.
func TestAdvanceAfterSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := tapOn(nil), &called{}
		var notes atomic.Int64
		slow := newMortal(st)
		agent := bot(counter(2), tool("note", func(context.Context, *cairn.Call, in) (string, error) { notes.Add(1); return "ok", nil }))
		drowsy := bot(agent.Model, agent.Tools...)
		drowsy.Hooks = &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error { slow.sleep(); <-slow.wake; return nil }}
		one := open(t, slow, drowsy, hostedBy(h))
		two := open(t, st.twin(), agent, hostedBy(h), named("b"))
		begun := begunBy(t, one, &h.byHand)
		late := make(chan *engine.Progress, 1)
		go func() {
			p, err := one.Advance(t.Context(), begun)
			if errors.Is(err, cairn.ErrUnavailable) || errors.Is(err, cairn.ErrAlreadyRunning) {
				p, err = one.Advance(t.Context(), begun)
			}
			if err != nil {
				t.Error(err)
			}
			late <- p
		}()
		synctest.Wait()
		testclock.Advance(time.Minute)
		taken := succeeded(t, two, begun)
		p := advanced(t, two, taken, engine.AdvanceMore, 1)
		slow.awake()
		if got := <-late; got == nil || got.State != engine.AdvanceMore || got.Run != p.Run {
			t.Errorf("the late call gets %+v, want %+v", got, p.Run)
		}
		if notes.Load() != 1 {
			t.Errorf("%d calls of the tool, want 1", notes.Load())
		}
		advanced(t, one, p.Run, engine.AdvanceEnded, 2)
		wantSound(t, st.Store, "s")
	})
}

// A process that is closed during a step leaves it to the next call, which need not wait. A run that is left so too often
// fails.
func TestAdvanceAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h, model := memstore.New(nil), &called{}, newLinger()
		open := func(n int) *engine.Engine {
			return open(t, st, bot(model, note()), hostedBy(h), named(fmt.Sprint("p", n, "_")), with(func(o *engine.Options) { o.MaxRecoveries = 2 }))
		}
		eng := open(0)
		at := begunBy(t, eng, &h.byHand)
		for n := range 3 {
			done := make(chan error)
			go func() {
				_, err := eng.Advance(t.Context(), at)
				done <- err
			}()
			synctest.Wait()
			leave(t, eng)
			wantError(t, <-done, cairn.ErrClosed)
			if eng = open(n + 1); n < 2 {
				at = succeeded(t, eng, at)
			}
		}
		p, err := eng.Advance(t.Context(), at)
		if err != nil || p.State != engine.AdvanceEnded || p.Status != cairn.RunFailed {
			t.Fatalf("%+v, error %v", p, err)
		}
		if run := runsOf(t, st, "s")[0]; run.Error == nil || run.Error.Code != cairn.ErrCrashLoop {
			t.Errorf("the run failed with %v", run.Error)
		}
		wantSound(t, st, "s")
	})
}

// A sub-agent's run continues as soon as the lease of the dead process has lapsed, however patient the host is.
func TestAdvanceAfterDeathInSubAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := tapOn(nil), &called{}
		dying := newMortal(st)
		var asked atomic.Int64
		helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			if asked.Add(1) == 1 {
				dying.die()
				return scripted.Reply(scripted.Pause(time.Hour))
			}
			return scripted.Text("helped")
		})}
		agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) > 1 {
				return scripted.Text("done")
			}
			return scripted.Call("helper", map[string]string{"input": "help"}).ID("c1")
		}), cairn.SubAgent(helper))
		one := open(t, dying, agent, hostedBy(h))
		two := open(t, st.twin(), agent, hostedBy(h), named("b"))
		begun := begunBy(t, one, &h.byHand)
		go one.Advance(t.Context(), begun)
		synctest.Wait()
		testclock.Advance(31 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p, err := two.Advance(ctx, succeeded(t, two, begun))
		if err != nil || p.Run.Step != 1 || asked.Load() != 2 {
			t.Fatalf("%+v after %d model calls of the sub-agent, error %v", p, asked.Load(), err)
		}
		advanced(t, two, p.Run, engine.AdvanceEnded, 2)
		wantSound(t, st.Store, "s")
	})
}

// Where the host cannot be asked whether it drives a run, a worker that takes the run over gives it to the host anew.
// Earlier references are done.
func TestAdvanceAfterTakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &byHand{}
		eng := open(t, st, bot(counter(2), note()), hostedBy(h), shortLease)
		begun := begunBy(t, eng, h)
		p := advanced(t, eng, begun, engine.AdvanceMore, 1)
		testclock.Advance(time.Minute)
		if _, err := eng.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		for _, old := range []host.Run{begun, p.Run} {
			if p, err := eng.Advance(t.Context(), old); err != nil || p.State != engine.AdvanceTakenOver {
				t.Errorf("with an earlier lease: %v, error %v", p, err)
			}
		}
		advanced(t, eng, h.begun[1], engine.AdvanceEnded, 2)
		wantSound(t, st, "s")
	})
}
