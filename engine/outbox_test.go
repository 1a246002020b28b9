package engine_test

import (
	"context"
	"errors"
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

// mute makes every append to the log fail from now on.
func (s *tap) mute() {
	s.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.ErrInternal, "cut off") })
}

// workFor runs a worker for a time.
func workFor(t *testing.T, eng *engine.Engine, d time.Duration) {
	t.Helper()
	stop := work(t, eng)
	testclock.Advance(d)
	stop()
}

// read reads the events of session "s" for a time.
func read(t *testing.T, eng *engine.Engine, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for range until(t, ctx, eng.Events(ctx, "s", cairn.Cursor{})) {
	}
}

// boxed returns what the outbox of session "s" has; nil if it has none.
func boxed(t *testing.T, st store.Store) []cairn.Event {
	t.Helper()
	if row := load(t, st, "s"); row.Outbox != nil {
		return row.Outbox.Events
	}
	return nil
}

// wantOnce fails unless the events are on the log of session "s" once, adjacent, behind the first n.
func wantOnce(t *testing.T, st *tap, n int, events []cairn.Event) {
	t.Helper()
	type key struct {
		kind    cairn.EventType
		run     string
		version int64
		message string
		reason  cairn.Reason
	}
	keyOf := func(ev *cairn.Event) key { return key{ev.Type, ev.RunID, ev.Version, ev.MessageID, ev.Reason} }
	list, times := history(t, st, "s"), map[key]int{}
	for i := range list {
		times[keyOf(&list[i])]++
	}
	for i := range events {
		k := keyOf(&events[i])
		if len(list) <= n+i || keyOf(&list[n+i]) != k || times[k] != 1 {
			t.Errorf("the log has %+v %d times, want once, as event %d", k, times[k], n+i+1)
		}
	}
}

// A process dies between a commit and a log elsewhere. The next process brings the commit's events there, once and
// before what follows.
func TestOutboxOfADeadProcess(t *testing.T) {
	t.Parallel()
	left := map[string]func(t *testing.T, eng *engine.Engine, st *tap){
		"a verb": func(t *testing.T, eng *engine.Engine, st *tap) {
			turn(t, eng, "s", "go")
			st.mute()
			wantError(t, eng.AddContext(t.Context(), "s", "It rains."), nil)
		},
		"the end of a run": func(t *testing.T, eng *engine.Engine, st *tap) {
			st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
				if events[0].Type != cairn.EventStepCommitted && events[len(events)-1].Type != cairn.EventRunEnd {
					return nil
				}
				st.mute()
				return cairn.Errorf(cairn.ErrInternal, "cut off")
			})
			wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		},
		"a wait": func(t *testing.T, eng *engine.Engine, st *tap) {
			st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
				if slices.ContainsFunc(events, func(ev cairn.Event) bool { return ev.Type == cairn.EventToolPending }) {
					return cairn.Errorf(cairn.ErrInternal, "cut off")
				}
				return nil
			})
			turn(t, eng, "s", "ask")
		},
		"the beginning of a run": func(t *testing.T, eng *engine.Engine, st *tap) {
			st.stepIn(nil, func(_ context.Context, op string) error {
				if op == "Commit" {
					st.cut()
				}
				return nil
			})
			_, _ = start(t, eng, "s", "go").Wait(t.Context())
		},
	}
	next := map[string]func(t *testing.T, eng *engine.Engine) error{
		"worker": func(t *testing.T, eng *engine.Engine) error { workFor(t, eng, 10*time.Second); return nil },
		"turn":   func(t *testing.T, eng *engine.Engine) error { turn(t, eng, "s", "and?", withdraw); return nil },
		"verb":   func(t *testing.T, eng *engine.Engine) error { return eng.AddContext(t.Context(), "s", "It pours.") },
		"stop":   func(t *testing.T, eng *engine.Engine) error { return eng.Interrupt(t.Context(), "s", "enough") },
		"reader": func(t *testing.T, eng *engine.Engine) error { read(t, eng, 10*time.Second); return nil },
	}
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Text() == "ask" {
			return scripted.Call("ask", in{"?"})
		}
		return scripted.Text("done")
	})
	agent := bot(model, cairn.ClientTool[in, string]("ask", "Asks."))
	for what, leave := range left {
		for who, comes := range next {
			t.Run(what+"/"+who, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					st := separated()
					leave(t, open(t, st, agent, shortLease), st)
					st.cut()
					other := st.twin()
					events, n := boxed(t, other), len(history(t, other, "s"))
					if len(events) == 0 {
						t.Fatal("the process left nothing in the outbox")
					}
					testclock.Advance(2 * ttl)
					due, waits := dueOf(t, other), load(t, other, "s").Status == cairn.SessionActive
					if len(due) != 1 || (due[0].Kind == store.DueOutbox) == waits {
						t.Errorf("due: %+v", due)
					}
					eng := open(t, other, agent, shortLease, named("b"))
					switch err := comes(t, eng); {
					case err == nil:
						wantOnce(t, other, n, events)
					case !errors.Is(err, cairn.ErrNotRunning): // nothing to stop
						t.Error(err)
					}
					read(t, eng, 10*time.Second)
					workFor(t, eng, 10*time.Second)
					wantOnce(t, other, n, events)
					wantSound(t, other, "s")
					if events := boxed(t, other); len(events) > 0 {
						t.Errorf("the outbox still has %d events", len(events))
					}
					if due := dueOf(t, other); len(due) > 0 {
						t.Errorf("still due: %+v", due)
					}
				})
			})
		}
	}
}

// While a log elsewhere is away, nothing is lost: verbs continue once, since their events wait, runs end with a clear error
// or wait, and all of it comes to the log in order once it is back.
func TestLogElsewhereIsAwayForHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := separated()
		agent := bot(counter(3), note())
		eng := open(t, st, agent, shortLease)
		turn(t, eng, "s", "go")
		n := len(history(t, st, "s"))
		st.log.stepIn(func(context.Context, []cairn.Event) error {
			return cairn.Errorf(cairn.ErrUnavailable, "no log for hours")
		})
		wantError(t, eng.AddContext(t.Context(), "s", "It rains."), nil)
		wantError(t, eng.AddContext(t.Context(), "s", "It pours."), cairn.ErrUnavailable)
		_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("and?"))
		wantError(t, err, cairn.ErrUnavailable)
		run, err := eng.Execute(t.Context(), "other", "bot", cairn.Text("go")) // its beginning waits in the outbox
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Wait(t.Context())
		wantError(t, err, cairn.ErrUnavailable)
		workFor(t, eng, time.Hour) // in vain
		if got := len(history(t, st, "s")); got != n {
			t.Errorf("the log that is away grew by %d events", got-n)
		}
		st.log.stepIn(nil)
		workFor(t, open(t, st.twin(), agent, shortLease, named("b")), time.Minute)
		turn(t, eng, "s", "and?")
		wantSound(t, st, "s")
		wantSound(t, st, "other")
		if row := load(t, st, "other"); row.Status != cairn.SessionCompleted {
			t.Errorf("the run that began without its log is %s", row.Status)
		}
		told := 0
		for _, ev := range history(t, st, "s") {
			if ev.Type == cairn.EventContextAdded {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the log tells %d of the verbs, want the one that was not refused", told)
		}
	})
}

// unfenced hides that a log is a Fencer.
type unfenced struct{ store.Log }

func (p unfenced) Self() store.Log { return p }

// plainly makes an engine keep its events in a log that is no Fencer.
func plainly(log store.Log) option { return with(func(o *engine.Options) { o.Log = unfenced{log} }) }

// A log that adds an event each time it is sent gets those of a run once, though readers look for what dead processes
// left.
func TestOutboxAndALogThatIsNoFencer(t *testing.T) {
	t.Parallel()
	slow := tool("slow", func(context.Context, *cairn.Call, in) (string, error) {
		testclock.Deaf(time.Hour)
		return "at last", nil
	})
	agent := bot(scripted.New(scripted.Call("slow", in{}), scripted.Text("done")), slow)
	for name, dies := range map[string]bool{"its process lives": false, "its process dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := separated()
				if dies {
					st.mute()
				}
				run := start(t, open(t, st, agent, shortLease, plainly(st.log)), "s", "go")
				if dies {
					_, _ = run.Wait(t.Context())
					st.cut()
				}
				other := st.twin()
				eng := open(t, other, agent, shortLease, plainly(other.log), named("b"))
				read(t, eng, time.Minute)
				if !dies {
					wait(t, run)
				}
				starts := 0
				for _, ev := range history(t, other, "s") {
					if ev.Type == cairn.EventRunStart {
						starts++
					}
				}
				if starts != 1 {
					t.Errorf("the run begins %d times on the log", starts)
				}
				if !dies {
					wantSound(t, other, "s")
				}
			})
		})
	}
}

// Two processes that drain an outbox at once add its events once.
func TestOutboxDrainedByTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := separated()
		agent := bot(counter(1))
		eng := open(t, st, agent)
		turn(t, eng, "s", "go")
		st.mute()
		wantError(t, eng.AddContext(t.Context(), "s", "It rains."), nil)
		events, n := boxed(t, st), len(history(t, st, "s"))
		var both, done sync.WaitGroup
		both.Add(2)
		for _, name := range []string{"b", "c"} {
			other, once := st.twin(), sync.Once{}
			other.log.stepIn(func(context.Context, []cairn.Event) error {
				once.Do(func() { both.Done(); both.Wait() })
				return nil
			})
			eng := open(t, other, agent, named(name))
			done.Go(func() { wantError(t, eng.AddContext(t.Context(), "s", "It pours."), nil) })
		}
		done.Wait()
		wantOnce(t, st, n, events)
		st.log.stepIn(nil)
		wantSound(t, st, "s")
	})
}

// What is left in the outbox of a session that is deleted goes to no log, also not to that of a later session of its id.
func TestOutboxOfADeletedSession(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := separated()
			agent := bot(counter(1))
			eng := open(t, st, agent)
			other := open(t, st.twin(), agent, named("b"))
			turn(t, eng, "s", "go")
			deleted := false
			st.log.stepIn(func(context.Context, []cairn.Event) error {
				if deleted {
					return nil
				}
				deleted = true
				if !again {
					return other.Delete(t.Context(), "s")
				}
				wantError(t, other.Erase(t.Context(), "s"), nil) // the id is free again
				turn(t, other, "s", "go")
				return nil
			})
			wantError(t, eng.AddContext(t.Context(), "s", "It rains."), nil)
			workFor(t, other, time.Minute)
			if !again {
				_, err := driver.Load(t.Context(), st, "s")
				if !driver.IsGone(err) {
					t.Errorf("the session is there: %v", err)
				}
				return
			}
			wantSound(t, st, "s")
			for _, ev := range history(t, st, "s") {
				if ev.Type == cairn.EventContextAdded {
					t.Errorf("the new session's log has %+v", ev)
				}
			}
		})
	}
}

// A copy of a session has its outbox. Its events come to the log that both stores use once, and to a log that has none of
// them before what follows.
func TestOutboxOfACopy(t *testing.T) {
	t.Parallel()
	for name, drained := range map[string]bool{"drained": true, "not drained": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := separated()
				agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step { return scripted.Text("done") }))
				eng := open(t, st, agent, shortLease)
				turn(t, eng, "s", "go")
				if !drained {
					st.mute()
				}
				cleared := 0
				st.stepIn(func(_ context.Context, op string) error {
					if op != "Commit" {
						return nil
					}
					if cleared++; cleared > 1 { // the commit that removes the outbox
						return cairn.Errorf(cairn.ErrInternal, "cut off")
					}
					return nil
				}, nil)
				n := len(history(t, st, "s"))
				wantError(t, eng.AddContext(t.Context(), "s", "It rains."), nil)
				st.stepIn(nil, nil)
				events := boxed(t, st)
				if got := len(history(t, st, "s")) - n; len(events) == 0 || (got > 0) != drained {
					t.Fatalf("%d events in the outbox, %d more on the log", len(events), got)
				}

				same := st.twin() // a copy with the same log
				same.Store = memstore.New(nil)
				own := tapOn(nil) // and one with a log of its own
				for _, to := range []*tap{same, own} {
					if copied, err := store.Copy(t.Context(), st.Store, to.Store, "s"); !copied || err != nil {
						t.Fatal(copied, err)
					}
					turn(t, open(t, to, agent, named("b")), "s", "and?")
					if events := boxed(t, to); len(events) > 0 {
						t.Errorf("the outbox still has %d events", len(events))
					}
				}
				wantOnce(t, same, n, events)
				wantSoundBut(t, same, "s", "the usage rows") // a copy of one session has none of before
				wantOnce(t, own, 0, events)
			})
		})
	}
}
