package engine_test

import (
	"context"
	"fmt"
	"slices"
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

const day = 24 * time.Hour

// broken is a store on which some calls fail: by name, or by name and the session's id or the removal's key.
type broken struct {
	*memstore.Store
	mu     sync.Mutex
	fails  []string
	sweeps int // calls of Stale
}

func (s *broken) fail(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = names
}

func (s *broken) broken(names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if slices.Contains(s.fails, name) {
			return cairn.Errorf(cairn.ErrUnavailable, "%s: the disk is full", name)
		}
	}
	return nil
}

func (s *broken) Stale(ctx context.Context, q store.PageQuery) (store.Page[string], error) {
	s.mu.Lock()
	s.sweeps++
	s.mu.Unlock()
	if err := s.broken("Stale"); err != nil {
		return store.Page[string]{}, err
	}
	return s.Store.Stale(ctx, q)
}

func (s *broken) Removed(ctx context.Context, age time.Duration, q store.PageQuery) (store.Page[driver.Removed], error) {
	if err := s.broken("Removed"); err != nil {
		return store.Page[driver.Removed]{}, err
	}
	return s.Store.Removed(ctx, age, q)
}

func (s *broken) Remove(ctx context.Context, id string, why store.Removal) (*driver.Removed, error) {
	if err := s.broken("Remove", "Remove "+id); err != nil {
		return nil, err
	}
	return s.Store.Remove(ctx, id, why)
}

func (s *broken) Purge(ctx context.Context, key string) (int, error) {
	if err := s.broken("Purge", "Purge "+key); err != nil {
		return 0, err
	}
	return s.Store.Purge(ctx, key)
}

// sweep sweeps and returns what the report counts: detected, expired, purged, snapshots deleted, failed.
func sweep(t *testing.T, eng *engine.Engine) string {
	t.Helper()
	r, err := eng.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.Detected, r.Expired, r.Purged, r.SnapshotsDeleted, r.Failed)
}

func wantSweep(t *testing.T, eng *engine.Engine, want string) {
	t.Helper()
	if got := sweep(t, eng); got != want {
		t.Errorf("swept %q, want %q", got, want)
	}
}

func exists(t *testing.T, st store.Store, id string) bool {
	t.Helper()
	there, err := driver.Exists(t.Context(), st, id)
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// keeps checks, with the fake clock, that a session exists for a given time from now, and then expires.
func keeps(t *testing.T, eng *engine.Engine, st store.Store, id string, as time.Duration) {
	t.Helper()
	testclock.Advance(as - time.Second)
	wantSweep(t, eng, "0 0 0 0 0")
	if !exists(t, st, id) {
		t.Fatalf("%q is gone before its time", id)
	}
	testclock.Advance(time.Second)
	wantSweep(t, eng, "1 1 0 0 0")
	if exists(t, st, id) {
		t.Fatalf("%q is there after its time", id)
	}
}

func TestSessionExpires(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) func() engine.RunOption {
		return func() engine.RunOption { return engine.WithExpiry(time.Now().Add(d)) }
	}
	for name, test := range map[string]struct {
		agent, engine time.Duration
		expiry        func() engine.RunOption
		want          time.Duration // 0 for never
	}{
		"by default":                {want: 7 * day},
		"as the engine says":        {engine: time.Hour, want: time.Hour},
		"as the agent says":         {agent: 30 * day, engine: time.Hour, want: 30 * day},
		"at a time":                 {expiry: in(day), want: day},
		"idle before the time":      {expiry: in(8 * day), want: 7 * day},
		"never":                     {engine: -1},
		"never, says the agent":     {agent: -1, engine: time.Hour},
		"never idle, but at a time": {agent: -1, expiry: in(400 * day), want: 400 * day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New(nil)
				agent := bot(scripted.New(scripted.Text("done")))
				agent.TTL = test.agent
				eng := open(t, st, agent, with(func(o *engine.Options) { o.TTL = test.engine }))
				var opts []engine.RunOption
				if test.expiry != nil {
					opts = append(opts, test.expiry())
				}
				turn(t, eng, "s", "go", opts...)
				if test.want > 0 {
					keeps(t, eng, st, "s", test.want)
					return
				}
				testclock.Advance(1000 * day)
				wantSweep(t, eng, "0 0 0 0 0")
				if !exists(t, st, "s") {
					t.Error("the session is gone")
				}
			})
		})
	}
}

// A session is checked about once per TTL, though it is active all the time.
func TestActivityResetsTheExpiry(t *testing.T) {
	t.Parallel()
	asker := cairn.ClientTool[in, string]("ask", "Asks.")
	for name, act := range map[string]func(t *testing.T, eng *engine.Engine, call cairn.CallRef) error{
		"context": func(t *testing.T, eng *engine.Engine, _ cairn.CallRef) error {
			return eng.AddContext(t.Context(), "s", "it rains")
		},
		"a claim": func(t *testing.T, eng *engine.Engine, call cairn.CallRef) error {
			_, err := eng.Claim(t.Context(), "s", call.ID, "ann", time.Hour)
			return err
		},
		"an answer": func(t *testing.T, eng *engine.Engine, call cairn.CallRef) error {
			_, err := eng.Submit(t.Context(), "s", cairn.Answer(call, "yes"))
			return err
		},
		"a turn": func(t *testing.T, eng *engine.Engine, _ cairn.CallRef) error {
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("more"), withdraw)
			if err == nil {
				wait(t, run)
			}
			return err
		},
		"an answer in a sub-agent": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New(nil)
				agent := bot(scripted.New(scripted.Call("ask", in{"?"}), scripted.Text("done")), asker)
				if act == nil {
					helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Call("ask", in{"?"})), Tools: []cairn.Tool{asker}}
					agent = bot(scripted.New(scripted.Call("helper", map[string]string{"input": "help"})), cairn.SubAgent(helper))
				}
				eng := open(t, st, agent)
				call := turn(t, eng, "s", "go").Suspended.Calls[0]
				testclock.Advance(6 * day)
				var err error
				if act == nil {
					_, err = eng.Submit(t.Context(), "s", cairn.Answer(call, "yes"))
				} else {
					err = act(t, eng, call)
				}
				if err != nil {
					t.Fatal(err)
				}
				testclock.Advance(day)
				wantSweep(t, eng, "0 0 0 0 0")
				if stale, err := st.Stale(t.Context(), store.PageQuery{}); err != nil || len(stale.Items) > 0 {
					t.Errorf("stale after a look: %v, %v", stale.Items, err)
				}
				keeps(t, eng, st, "s", 6*day)
			})
		})
	}
}

func TestSessionThatWaitsForAPersonKeepsUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		asker := cairn.ClientTool[in, string]("ask", "Asks.", cairn.WaitAtMost(30*day))
		eng := open(t, st, bot(scripted.New(scripted.Call("ask", in{"?"}), scripted.Call("ask", in{"?"}), scripted.Text("done")), asker))
		turn(t, eng, "waits", "go")
		call := turn(t, eng, "answered", "go").Suspended.Calls[0]
		for range 29 {
			testclock.Advance(day)
			wantSweep(t, eng, "0 0 0 0 0")
		}
		submit(t, eng, "answered", cairn.Answer(call, "yes"), cairn.OutcomeAccepted)
		keeps(t, eng, st, "waits", day) // no process ended the wait
		keeps(t, eng, st, "answered", 6*day)
	})
}

// A run that takes longer than its session's TTL keeps the session.
func TestSessionOfARunDoesNotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, bot(scripted.New(scripted.Pause(8*day), scripted.Text("done"))), patient, with(func(o *engine.Options) { o.LeaseTTL = time.Hour }))
		run := start(t, eng, "s", "go", engine.WithExpiry(time.Now().Add(day)))
		testclock.Advance(7*day + time.Hour)
		wantSweep(t, eng, "0 0 0 0 0")
		testclock.Advance(day)
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantSweep(t, eng, "1 1 0 0 0")
	})
}

func TestBranchOfAnExpiredSessionStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, bot(scripted.New(scripted.Text("done"))))
		turn(t, eng, "s", "go")
		testclock.Advance(3 * day)
		if _, err := eng.Branch(t.Context(), "s", "branch"); err != nil {
			t.Fatal(err)
		}
		keeps(t, eng, st, "s", 4*day)
		if n := len(messages(t, st, "branch")); n != 2 {
			t.Errorf("the branch has %d messages", n)
		}
		keeps(t, eng, st, "branch", 3*day)
	})
}

func TestRemovedSessionsArePurgedAfterTheirRetention(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		retention, keeps time.Duration
	}{{0, 30 * day}, {time.Hour, time.Hour}, {-1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New(nil)
			model := scripted.New(scripted.Call("note", in{"a"}), scripted.Text("done"), scripted.Text("done"))
			eng := open(t, st, bot(model, note()), with(func(o *engine.Options) { o.Retention = test.retention }))
			turn(t, eng, "deleted", "go")
			if err := eng.Delete(t.Context(), "deleted"); err != nil {
				t.Fatal(err)
			}
			turn(t, eng, "expires", "go", engine.WithExpiry(time.Now().Add(time.Second)))
			testclock.Advance(time.Second)
			wantSweep(t, eng, "1 1 0 0 0")
			if test.keeps == 0 {
				testclock.Advance(1000 * day)
				wantSweep(t, eng, "0 0 0 0 0")
				return
			}
			testclock.Advance(test.keeps - time.Second)
			wantSweep(t, eng, "0 0 1 2 0")
			testclock.Advance(time.Second)
			wantSweep(t, eng, "0 0 1 1 0")
			if left, err := st.Removed(t.Context(), 0, store.PageQuery{}); err != nil || len(left.Items) > 0 {
				t.Errorf("left: %v, %v", left.Items, err)
			}
		})
	}
}

// Sessions that cannot be removed or purged, more than a batch of them, are reported and left for the next sweep.
func TestBadSessionsDoNotStopASweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &broken{Store: memstore.New(nil)}
		eng := open(t, st, bot(scripted.New()))
		var bad []string
		for i := range 250 {
			id := fmt.Sprintf("s-%03d", i)
			if _, err := driver.Create(t.Context(), st, &cairn.Session{ID: id, Agent: "bot", TTL: cairn.Duration(time.Hour)}, nil); err != nil {
				t.Fatal(err)
			}
			if i < 200 {
				bad = append(bad, "Remove "+id, fmt.Sprint("Purge ", i+1))
			}
		}
		testclock.Advance(time.Hour)
		st.fail(bad...)
		r, err := eng.Sweep(t.Context())
		if err != nil || r.Detected != 250 || r.Expired != 50 || r.Failed != 200 || len(r.Errors) != 100 {
			t.Fatalf("detected %d, expired %d, failed %d with %d errors, %v", r.Detected, r.Expired, r.Failed, len(r.Errors), err)
		}
		if e := r.Errors[99]; e.SessionID != "s-099" || e.Error.Code != cairn.ErrUnavailable {
			t.Errorf("error %+v", e)
		}
		st.fail()
		wantSweep(t, eng, "200 200 0 0 0")
		testclock.Advance(30 * day)
		st.fail(bad...)
		wantSweep(t, eng, "0 0 50 0 200")
		st.fail()
		wantSweep(t, eng, "0 0 200 0 0")
	})
}

// If the store cannot list expired sessions, removed ones are purged all the same, and the other way round.
func TestSweepSaysThatItCouldNotLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for i, lost := range []string{"Stale", "Removed"} {
			st := &broken{Store: memstore.New(nil)}
			eng := open(t, st, bot(scripted.New(scripted.Text("done"), scripted.Text("done"))))
			turn(t, eng, "deleted", "go")
			if err := eng.Delete(t.Context(), "deleted"); err != nil {
				t.Fatal(err)
			}
			turn(t, eng, "expires", "go")
			testclock.Advance(31 * day)
			st.fail(lost)
			r, err := eng.Sweep(t.Context())
			wantError(t, err, cairn.ErrUnavailable)
			if r.Expired != i || r.Purged != 1-i || r.Failed != 0 {
				t.Errorf("without %s: %+v", lost, r)
			}
		}
		st := memstore.New(nil)
		eng := open(t, st, bot(scripted.New()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := eng.Sweep(ctx)
		wantError(t, err, context.Canceled)
	})
}

func TestTwoProcessesSweepAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		for i := range 500 {
			if _, err := driver.Create(t.Context(), st, &cairn.Session{ID: fmt.Sprint("s-", i), Agent: "bot", TTL: cairn.Duration(time.Hour)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		engines := []*engine.Engine{open(t, st, bot(scripted.New())), open(t, st, bot(scripted.New()), named("b"))}
		for _, want := range []string{"500 500 0", "0 0 500"} {
			testclock.Advance(31 * day)
			var all sync.WaitGroup
			reports := make([]engine.SweepReport, len(engines))
			for i, eng := range engines {
				all.Go(func() {
					var err error
					if reports[i], err = eng.Sweep(t.Context()); err != nil || reports[i].Failed > 0 {
						t.Errorf("%+v, %v", reports[i], err)
					}
				})
			}
			all.Wait()
			a, b := reports[0], reports[1]
			if got := fmt.Sprint(a.Detected+b.Detected, a.Expired+b.Expired, a.Purged+b.Purged); got != want {
				t.Errorf("swept %q, want %q", got, want)
			}
		}
	})
}

func TestWorkSweeps(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]int{0: 1 + 6, 30 * time.Minute: 1 + 2, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			st := &broken{Store: memstore.New(nil)}
			eng := open(t, st, bot(scripted.New(scripted.Text("done"))), with(func(o *engine.Options) {
				o.SweepInterval, o.TTL = interval, 45*time.Minute
			}))
			turn(t, eng, "s", "go")
			st.fail("Removed") // which does not stop it either
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Second)
			defer cancel()
			if err := eng.Work(ctx); err != nil {
				t.Fatal(err)
			}
			if st.sweeps != want {
				t.Errorf("interval %s: %d sweeps in an hour, want %d", interval, st.sweeps, want)
			}
			_, err := eng.Session(t.Context(), "s")
			wantError(t, err, cairn.ErrExpired) // whether or not any process swept
		})
	}
}

func TestSweepsEndWithTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, memstore.New(nil), bot(scripted.New()))
		ended := make(chan error, 1)
		go func() { ended <- eng.Work(t.Context()) }()
		synctest.Wait()
		leave(t, eng)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("work: %v", err)
			}
		case <-time.After(time.Hour):
			t.Error("Work goes on after Close")
		}
	})
}
