package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

func TestDeletedSessionIsHiddenAndKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, bot(scripted.New(scripted.Text("old"), scripted.Text("next"), scripted.Text("new"))))
		other := open(t, st, bot(scripted.New(scripted.Text("other"))), named("b"))
		turn(t, eng, "s", "first")
		if err := other.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		// No session begins under its id, not even in the process that has it in memory.
		for _, e := range []*engine.Engine{eng, other} {
			wantGone(t, e, "s", cairn.ErrDeleted)
		}
		removed, err := st.Removed(t.Context(), 0, store.PageQuery{})
		if err != nil || len(removed.Items) != 1 || removed.Items[0].SessionID != "s" || removed.Items[0].Reason != store.Deleted {
			t.Errorf("removed: %+v, %v", removed.Items, err)
		}
		if _, err := other.Restore(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if res := turn(t, eng, "s", "second"); res.Turn != 2 || res.Text != "next" {
			t.Errorf("the restored session continues with %+v", res)
		}
		wantSound(t, tapOn(st), "s")
		_, err = eng.Restore(t.Context(), "s")
		wantError(t, err, cairn.ErrExists)
		for _, deleted := range []bool{true, false} { // a deleted session can be erased, and one that is not deleted
			if deleted {
				if err := eng.Delete(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
			}
			if err := eng.Erase(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			wantError(t, eng.Erase(t.Context(), "s"), cairn.ErrNotFound)
			_, err = eng.Restore(t.Context(), "s")
			wantError(t, err, cairn.ErrNotFound)
			if list, err := st.Removed(t.Context(), 0, store.PageQuery{}); err != nil || len(list.Items) > 0 {
				t.Errorf("what was erased is kept: %+v, %v", list.Items, err)
			}
			if deleted {
				if res := turn(t, eng, "s", "third"); res.Turn != 1 || res.Text != "new" {
					t.Errorf("the session of the erased one's id continues it: %+v", res)
				}
				if list := messages(t, st, "s"); len(list) != 2 || strings.Contains(marshal(list), "first") {
					t.Errorf("messages %s", marshal(list))
				}
			}
		}
	})
}

// wantGone checks that every verb reports a session as gone.
func wantGone(t *testing.T, eng *engine.Engine, id string, want cairn.Code) {
	t.Helper()
	ctx := t.Context()
	for name, verb := range map[string]func() error{
		"Session":     func() error { return failing(eng.Session(ctx, id)) },
		"Snapshot":    func() error { return failing(eng.Snapshot(ctx, id)) },
		"Messages":    func() error { return failing(eng.Messages(ctx, id, 0, 0)) },
		"State":       func() error { return failing(eng.State(ctx, id, "")) },
		"Runs":        func() error { return failing(eng.Runs(ctx, id, store.PageQuery{})) },
		"Checkpoints": func() error { return failing(eng.Checkpoints(ctx, id, store.PageQuery{})) },
		"History":     func() error { return failing(eng.History(ctx, id, cairn.Cursor{}, 0)) },
		"Execute":     func() error { return failing(eng.Execute(ctx, id, "bot", cairn.Text("again"))) },
		"Resume":      func() error { return failing(eng.Resume(ctx, id)) },
		"Retry":       func() error { return failing(eng.Retry(ctx, id)) },
		"Interrupt":   func() error { return eng.Interrupt(ctx, id, "") },
		"Abort":       func() error { return eng.Abort(ctx, id, "") },
		"AddContext":  func() error { return eng.AddContext(ctx, id, "it rains") },
		"Branch":      func() error { return failing(eng.Branch(ctx, id, id+"-branch")) },
		"Rewind":      func() error { return failing(eng.Rewind(ctx, id, "checkpoint")) },
		"Prune":       func() error { return failing(eng.Prune(ctx, id, 1)) },
		"Delete":      func() error { return eng.Delete(ctx, id) },
		"Events": func() (err error) {
			for _, err = range eng.Events(ctx, id, cairn.Cursor{}) {
			}
			return err
		},
	} {
		if err := verb(); !errors.Is(err, want) || !errors.Is(err, cairn.ErrNotFound) {
			t.Errorf("%s of a session that is gone: %v, want %s", name, err, want)
		}
	}
}

func failing(_ any, err error) error { return err }

// An expired session is gone for every process, whether or not any of them sweeps.
func TestExpiredSessionIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		agent := func() *cairn.Agent { return bot(scripted.New(scripted.Text("one"), scripted.Text("two"))) }
		eng, other := open(t, st, agent()), open(t, st, agent(), named("b"))
		turn(t, eng, "s", "first")
		testclock.Advance(8 * day)
		for _, e := range []*engine.Engine{eng, other} { // eng has it in memory
			wantGone(t, e, "s", cairn.ErrExpired)
		}
		row, err := other.Restore(t.Context(), "s")
		if err != nil || row.ID != "s" {
			t.Fatalf("restored: %+v, %v", row, err)
		}
		testclock.Advance(6 * day)
		if res := turn(t, eng, "s", "second"); res.Turn != 2 {
			t.Errorf("the restored session continues with turn %d", res.Turn)
		}
	})
}

// Followers in any process end when the session is deleted, and none of its cursors leads into the next session.
func TestFollowersOfADeletedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, how := range []string{"deleted", "erased", "expired"} {
			st := memstore.New(nil)
			agent := func() *cairn.Agent { return bot(scripted.New(scripted.Text("one"), scripted.Text("two"))) }
			eng, other := open(t, st, agent()), open(t, st, agent(), named("b"))
			var opts []engine.RunOption
			if how == "expired" {
				opts = append(opts, engine.WithExpiry(time.Now().Add(time.Hour)))
			}
			turn(t, eng, "s", "first", opts...)
			ends := make(chan error, 2)
			var last cairn.Cursor
			for _, ev := range must(eng.History(t.Context(), "s", cairn.Cursor{}, 0)) {
				last = ev.Cursor()
			}
			for _, e := range []*engine.Engine{eng, other} {
				go func() {
					var err error
					for _, err = range e.Events(t.Context(), "s", last) {
					}
					ends <- err
				}()
			}
			synctest.Wait()
			want := cairn.ErrDeleted
			switch how {
			case "deleted":
				if err := eng.Delete(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
			case "erased":
				if err := eng.Erase(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
			case "expired":
				testclock.Advance(2 * time.Hour)
				want = cairn.ErrExpired
			}
			for range 2 {
				if err := <-ends; !errors.Is(err, want) && !(how == "erased" && errors.Is(err, cairn.ErrNotFound)) {
					t.Errorf("%s: a follower ended with %v", how, err)
				}
			}
			if err := eng.Erase(t.Context(), "s"); err != nil && how != "erased" {
				t.Fatal(err)
			}
			turn(t, eng, "s", "another session")
			_, err := eng.History(t.Context(), "s", last, 0)
			wantError(t, err, cairn.ErrDeleted)
			for _, err = range eng.Events(t.Context(), "s", last) {
				break
			}
			wantError(t, err, cairn.ErrDeleted)
			if list := must(eng.History(t.Context(), "s", cairn.After(0), 0)); len(list) == 0 || list[0].Cursor().Incarnation == last.Incarnation {
				t.Errorf("the new session's events: %+v", list)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The session that follows an erased one may have as many commits as the one this process remembers.
func TestErasedSessionIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		model := scripted.New(scripted.Text("one"), scripted.Text("three"), scripted.Text("five"), scripted.Text("seven"))
		eng := open(t, st, bot(model))
		other := open(t, st, bot(scripted.New(scripted.Text("two"), scripted.Text("four"), scripted.Text("six"))), named("b"))
		turn(t, eng, "s", "first")
		for i, remove := range []func(){
			func() {
				testclock.Advance(time.Second)
				if err := other.Erase(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
			},
			func() {
				if err := eng.Erase(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
			},
			func() {
				testclock.Advance(8 * day)
				wantSweep(t, eng, "1 1 0 0 0")
				testclock.Advance(31 * day)
				wantSweep(t, eng, "0 0 1 2 0")
			},
		} {
			remove()
			turn(t, other, "s", "again")
			turn(t, eng, "s", "and now")
			seen := model.Requests()[i+1].Messages
			if len(seen) != 3 || seen[0].Text() != "again" {
				t.Errorf("the model saw %s", marshal(seen))
			}
		}
	})
}

// A process sleeps past its lease while its session is erased and another one of its id begins. It adds nothing to that
// session's log, whether it wakes before or after; also if the log is another system than the store.
func TestEventsOfAnErasedSessionStayAway(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"own log": false, "another log": true} {
		for _, first := range []string{"the zombie wakes first", "the next session comes first"} {
			t.Run(name+", "+first, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := memstore.New(nil)
					log := st.EventLog()
					if beside {
						log = memstore.New(nil).EventLog()
					}
					shared := with(func(o *engine.Options) { o.Log = log })
					// The process sleeps: no heartbeat goes out, and its tool does nothing.
					zombie := tapOn(st)
					asleep := make(chan struct{})
					zombie.stepIn(func(_ context.Context, op string) error {
						if op == "Renew" {
							<-asleep
						}
						return nil
					}, nil)
					emits := cairn.Func("note", "Emits.", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
						<-asleep
						for range 3 {
							_ = call.Emit("progress", "SECRET")
							testclock.Deaf(time.Second)
						}
						return "SECRET", nil
					})
					dead := open(t, zombie, bot(scripted.New(scripted.Call("note", in{"x"}), scripted.Text("SECRET")), emits), shortLease, shared)
					run := start(t, dead, "s", "go")
					testclock.Advance(10 * ttl)
					eng := open(t, st, bot(scripted.New(scripted.Text("mine"))), named("b"), shared)
					if err := eng.Erase(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
					next := func() { turn(t, eng, "s", "hello") }
					wake := func() {
						close(asleep)
						_, _ = run.Wait(t.Context())
					}
					if first == "the zombie wakes first" {
						wake()
						next()
					} else {
						next()
						wake()
					}
					list := must(eng.History(t.Context(), "s", cairn.Cursor{}, 0))
					if strings.Contains(marshal(list), "SECRET") || list[0].Type != cairn.EventRunStart {
						t.Errorf("the next session's log has %s", marshal(list))
					}
					for _, ev := range list {
						if ev.RunID == run.ID() {
							t.Errorf("the next session's log has %s of the erased one", ev.Type)
						}
					}
				})
			})
		}
	}
}

// brittle is a log whose Drop fails at times.
type brittle struct {
	*memstore.Log
	fails bool
}

func (l *brittle) Drop(ctx context.Context, log string) error {
	if l.fails {
		return cairn.Errorf(cairn.ErrUnavailable, "the log is away")
	}
	return l.Log.Drop(ctx, log)
}

// The log may be another system than the store. It stays as long as the session can be restored, and is dropped by the
// purge.
func TestLogBesideTheStoreIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, log := memstore.New(nil), &brittle{Log: memstore.New(nil).EventLog().(*memstore.Log)}
		script := slices.Repeat([]scripted.Step{scripted.Text("done")}, 5)
		eng := open(t, st, bot(scripted.New(script...)), with(func(o *engine.Options) { o.Log, o.Retention = log, day }))
		names := map[string]string{}
		for _, id := range []string{"deleted", "erased", "again"} {
			turn(t, eng, id, "go")
			names[id] = load(t, st, id).Log()
		}
		wantLog := func(id string, there bool) {
			t.Helper()
			_, last, err := log.Bounds(t.Context(), names[id])
			if there != (err == nil && last > 0) || !there && !errors.Is(err, cairn.ErrDeleted) {
				t.Errorf("the log of %q ends at %d, %v", id, last, err)
			}
		}
		for _, id := range []string{"deleted", "again"} {
			if err := eng.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantLog(id, true)
		}
		log.fails = true
		wantError(t, eng.Erase(t.Context(), "erased"), cairn.ErrUnavailable)
		wantGone(t, eng, "erased", cairn.ErrDeleted)
		log.fails = false
		if _, err := eng.Restore(t.Context(), "again"); err != nil {
			t.Fatal(err)
		}
		testclock.Advance(day)
		log.fails = true
		wantSweep(t, eng, "0 0 0 0 2")
		log.fails = false
		wantSweep(t, eng, "0 0 2 2 0")
		wantLog("deleted", false)
		wantLog("erased", false)
		wantLog("again", true)
		turn(t, eng, "again", "and on")
	})
}
