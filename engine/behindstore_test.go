package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// failover is a tap whose store can be replaced, under a live process, by a replica that lacks the last writes.
type failover struct {
	*tap
	replica *memstore.Store
}

// snapshot takes a replica of a session as it is now.
func (f *failover) snapshot(t *testing.T, id string) {
	t.Helper()
	f.replica = memstore.New(nil)
	if err := f.replica.Import(t.Context(), id, store.Export(t.Context(), f.Store, id)); err != nil {
		t.Fatal(err)
	}
}

// promote puts the replica in the store's place, once what the process has begun is under way: the watch of stops reads
// which store it is.
func (f *failover) promote() {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Store, f.log.Log = f.replica, f.replica.EventLog().(*memstore.Log)
}

// parrot is an agent that repeats what the user said, and keeps the last request's texts of the user.
type parrot struct {
	*cairn.Agent
	heard []string
}

func newParrot() *parrot {
	p := &parrot{}
	p.Agent = bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		p.heard = nil
		for _, m := range req.Messages {
			if m.Role == cairn.RoleUser {
				p.heard = append(p.heard, m.Text())
			}
		}
		return scripted.Text("re " + p.heard[len(p.heard)-1])
	}))
	return p
}

// A store that has lost its last writes under a live process, such as a promoted replica, is what counts: the process
// does not continue from its memory, whether the store has as many messages as it knows of, fewer or more.
func TestTurnBeginsWithWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{"fewer messages": nil, "as many messages": {"deux"}, "more messages": {"deux", "trois"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logged strings.Builder
				st := &failover{tap: tapOn(nil)}
				own := newParrot()
				eng := open(t, st, own.Agent, with(func(o *engine.Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) }))
				turn(t, eng, "s", "one")
				st.snapshot(t, "s")
				turn(t, eng, "s", "two")
				st.promote()
				want := []string{"one"}
				for _, text := range others {
					turn(t, open(t, tapOn(st.Store), newParrot().Agent, named(text)), "s", text)
					want = append(want, text)
				}
				turn(t, eng, "s", "three")
				if want = append(want, "three"); strings.Join(own.heard, " ") != strings.Join(want, " ") {
					t.Errorf("the model heard %q, want %q", own.heard, want)
				}
				var said []string
				for _, m := range messages(t, st.Store, "s") {
					if m.Role == cairn.RoleUser {
						said = append(said, m.Text())
					}
				}
				if strings.Join(said, " ") != strings.Join(want, " ") {
					t.Errorf("the transcript has %q, want %q", said, want)
				}
				if n := eng.StoreBehind(); n != 1 || !strings.Contains(logged.String(), "store has lost writes") {
					t.Errorf("noticed %d times, logged: %s", n, logged.String())
				}
			})
		})
	}
}

// A run whose steps the store has lost ends with ErrStoreBehind, and is taken over from what the store has.
func TestRunEndsWhenTheStoreLosesItsSteps(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"a step": 1, "its begin": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := &failover{tap: tapOn(nil)}
				var mu sync.Mutex
				step := 0
				agent := bot(counter(4), note())
				agent.Hooks = &cairn.Hooks{BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error {
					mu.Lock()
					defer mu.Unlock()
					switch step++; step {
					case lost + 2:
						st.snapshot(t, "s")
					case lost + 3:
						st.promote()
					}
					return nil
				}}
				eng := open(t, st, agent, shortLease)
				if lost == 0 {
					turn(t, open(t, tapOn(st.Store), newParrot().Agent, named("z")), "s", "hello")
					step = 1
					st.snapshot(t, "s")
				}
				_, err := start(t, eng, "s", "go").Wait(t.Context())
				wantError(t, err, cairn.ErrStoreBehind)
				if eng.StoreBehind() != 1 {
					t.Errorf("noticed %d times", eng.StoreBehind())
				}
				if lost == 0 { // the turn is gone
					wantStatus(t, turn(t, eng, "s", "again"), cairn.RunCompleted, cairn.ReasonReply)
				} else {
					run, err := eng.Resume(t.Context(), "s")
					if err != nil {
						t.Fatal(err)
					}
					wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				}
				list := messages(t, st.Store, "s")
				for i, m := range list {
					if m.Role == cairn.RoleAssistant && i > 0 && list[i-1].Role == cairn.RoleAssistant {
						t.Errorf("message %d follows another reply", i)
					}
				}
				testclock.Advance(time.Minute)
			})
		})
	}
}

// A step that the store has lost, and that another process has made again under the same ids, is read as that process
// made it.
func TestTurnBeginsWithTheStepThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &failover{tap: tapOn(nil)}
		var heard []string
		ends := func(text string) *cairn.Agent {
			return bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
				heard = nil
				for _, m := range req.Messages {
					heard = append(heard, m.Text())
				}
				if len(req.Messages) == 1 {
					return scripted.Reply(scripted.Text("first"), scripted.Call("note", in{"n"}))
				}
				return scripted.Text(text)
			}), note())
		}
		own := ends("lost")
		step := 0
		own.Hooks = &cairn.Hooks{BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error {
			if step++; step == 2 {
				st.snapshot(t, "s")
			}
			return nil
		}}
		eng := open(t, st, own, shortLease)
		turn(t, eng, "s", "go")
		st.promote()
		testclock.Advance(2 * ttl)
		run, err := open(t, tapOn(st.Store), ends("kept"), shortLease, named("b")).Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		turn(t, eng, "s", "and?")
		if want := "go first  kept and?"; strings.Join(heard, " ") != want {
			t.Errorf("the model read %q, want %q", strings.Join(heard, " "), want)
		}
		if eng.StoreBehind() != 1 {
			t.Errorf("noticed %d times", eng.StoreBehind())
		}
	})
}

// The turn of a handle may be among the writes that a store has lost. No event says so.
func TestQueuedTurnThatTheStoreHasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(counter(2), tool("note", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) { <-ctx.Done(); return "", ctx.Err() })))
		start(t, eng, "s", "go")
		testclock.Advance(time.Second)
		queued := start(t, eng, "s", "later", engine.WithOnBusy(engine.BusyEnqueue))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan error, 1)
		go func() {
			_, err := queued.Wait(ctx)
			over <- err
		}()
		testclock.Advance(time.Second)
		if _, err := st.Store.Commit(t.Context(), "s", &driver.Commit{Dequeue: []string{queued.ID()}}); err != nil {
			t.Fatal(err)
		}
		testclock.Advance(10 * time.Second)
		select {
		case err := <-over:
			wantError(t, err, cairn.ErrAborted)
		default:
			t.Error("the handle still waits for the turn")
		}
	})
}
