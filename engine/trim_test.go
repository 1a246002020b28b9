package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// wantQuiet checks that a reader of what is left of the log finds nothing to complete.
func wantQuiet(t *testing.T, st durable, eng *engine.Engine) {
	t.Helper()
	_, last := boundsOf(t, st, "s")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range until(t, ctx, eng.Events(ctx, "s", cairn.After(last))) {
	}
	if _, now := boundsOf(t, st, "s"); now != last {
		t.Errorf("a reader made the log grow from %d to %d", last, now)
	}
}

func counterBot(n int) *cairn.Agent { return bot(counter(n), note()) }

// answerAll answers what a session waits for with "yes".
func answerAll(t *testing.T, eng *engine.Engine, id string) {
	t.Helper()
	page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: id, Statuses: []cairn.CallStatus{cairn.CallOpen}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Items {
		if _, err := eng.Submit(t.Context(), id, cairn.Answer(page.Items[i].CallRef, "yes")); err != nil {
			t.Fatal(err)
		}
	}
}

// retain is a retention that a test sweeps with. Sessions do not expire.
func retain(age time.Duration, events int) option {
	return with(func(o *engine.Options) {
		o.EventRetention = engine.EventRetention{Age: age, Events: events}
		o.TTL = -1
	})
}

// boundsOf returns the first and the last event of a session's log.
func boundsOf(t *testing.T, st durable, id string) (first, last int64) {
	t.Helper()
	first, last, err := st.EventLog().Bounds(t.Context(), load(t, st, id).Log())
	if err != nil {
		t.Fatal(err)
	}
	return first, last
}

// trims sweeps and checks how many logs were trimmed, and that nothing failed.
func trims(t *testing.T, eng *engine.Engine, logs int) {
	t.Helper()
	r, err := eng.Sweep(t.Context())
	if err != nil || r.Failed > 0 || r.Trimmed != logs || (r.EventsTrimmed > 0) != (logs > 0) {
		t.Fatalf("swept %+v, %v; want %d logs trimmed", r, err, logs)
	}
}

// startsWith checks that the log of a session begins with the first event of its n-th run.
func startsWith(t *testing.T, st durable, id string, n int) {
	t.Helper()
	first, last := boundsOf(t, st, id)
	if want := runsOf(t, st, id)[n].StartSequence + 1; first != want {
		t.Fatalf("the log begins with event %d of %d, want %d, that of run %d", first, last, want, n)
	}
}

// wantWayOn checks what readers see of a trimmed log: a cursor before its first event is ErrTrimmed, that of a snapshot
// is valid.
func wantWayOn(t *testing.T, eng *engine.Engine, st durable, id string) {
	t.Helper()
	first, last := boundsOf(t, st, id)
	_, err := eng.History(t.Context(), id, cairn.Cursor{}, 0)
	wantError(t, err, cairn.ErrTrimmed)
	for _, err := range eng.Events(t.Context(), id, cairn.After(first-2)) {
		wantError(t, err, cairn.ErrTrimmed)
	}
	list, err := eng.History(t.Context(), id, cairn.After(first-1), 0)
	if err != nil || int64(len(list)) != last-first+1 {
		t.Fatalf("%d events from %d to %d: %v", len(list), first, last, err)
	}
	for i := range list {
		snap, err := eng.Snapshot(t.Context(), list[i].SessionID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := eng.History(t.Context(), id, snap.Cursor(), 0); err != nil {
			t.Fatalf("after the snapshot of session %s: %v", list[i].SessionID, err)
		}
	}
}

// A sweep trims the runs that ended too long ago, and only those, whether the session continues or rests.
func TestSweepTrimsByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := newTrimmed()
		eng := open(t, st, counterBot(3), retain(10*time.Hour, 0))
		for range 4 { // a run ends at 0, 3, 6 and 9 hours
			turn(t, eng, "s", "go")
			trims(t, eng, 0)
			testclock.Advance(3 * time.Hour)
		}
		trims(t, eng, 1) // at 12 hours
		startsWith(t, st, "s", 1)
		wantWayOn(t, eng, st, "s")
		trims(t, eng, 0)
		testclock.Advance(time.Hour - time.Second)
		trims(t, eng, 0)
		testclock.Advance(time.Second)
		trims(t, eng, 1)
		startsWith(t, st, "s", 2)
		testclock.Advance(3 * time.Hour)
		trims(t, eng, 1)
		startsWith(t, st, "s", 3)
		testclock.Advance(3 * time.Hour)
		trims(t, eng, 1)
		if first, _ := boundsOf(t, st, "s"); first != load(t, st, "s").LogSequence+1 {
			t.Fatalf("the log of a session that rests begins with event %d, not behind its last commit, at %d", first, load(t, st, "s").LogSequence)
		}
		wantWayOn(t, eng, st, "s")
		for range 100 {
			testclock.Advance(day)
			trims(t, eng, 0)
		}
		wantStatus(t, turn(t, open(t, st, counterBot(3), named("b")), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		wantQuiet(t, st, eng)
		st.wantSoundWhole(t, "s")
	})
}

// A sweep keeps as many of a log's events as configured, with the run that the oldest of them belongs to, and all of
// the last hour.
func TestSweepTrimsByNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := newTrimmed()
		eng := open(t, st, counterBot(3), retain(0, 60))
		for range 10 {
			turn(t, eng, "s", "go")
		}
		_, last := boundsOf(t, st, "s")
		trims(t, eng, 0) // whatever there is, it may be read
		testclock.Advance(time.Hour)
		trims(t, eng, 1)
		first, _ := boundsOf(t, st, "s")
		runs := runsOf(t, st, "s")
		i := slices.IndexFunc(runs, func(r cairn.Run) bool { return r.StartSequence+1 == first })
		if i < 1 || last-first+1 < 60 || last-runs[i+1].StartSequence >= 60 {
			t.Fatalf("the log has the events from %d to %d; runs begin after %v", first, last, runs[i].StartSequence)
		}
		trims(t, eng, 0)
		wantWayOn(t, eng, st, "s")
		for range 3 { // at once they are too many, and too young one after the other
			testclock.Advance(25 * time.Minute)
			turn(t, eng, "s", "go")
		}
		testclock.Advance(10 * time.Minute)
		few := open(t, st, counterBot(3), retain(0, 1), named("few"))
		trims(t, few, 1)
		startsWith(t, st, "s", 11)
		testclock.Advance(24 * time.Minute)
		trims(t, few, 0)
		testclock.Advance(time.Hour)
		trims(t, few, 1)
		startsWith(t, st, "s", 12)
		for range 5 { // it grows, and shrinks again
			turn(t, eng, "s", "go")
			testclock.Advance(20 * time.Minute)
			trims(t, few, 0)
			testclock.Advance(40 * time.Minute)
			trims(t, few, 1)
			testclock.Advance(day)
			trims(t, few, 0)
		}
		wantQuiet(t, st, eng)
		st.wantSoundWhole(t, "s")
	})
}

// However old or many they are, the events of runs that have not ended or are suspended, anywhere in a tree, are not
// trimmed; nor are the events after them.
func TestSweepKeepsWhatRunsNeed(t *testing.T) {
	t.Parallel()
	approve := func(t *testing.T, eng *engine.Engine) {
		page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s", Statuses: []cairn.CallStatus{cairn.CallOpen}})
		if err != nil || len(page.Items) != 1 {
			t.Fatal(page.Items, err)
		}
		if _, err := eng.Submit(t.Context(), "s", cairn.Approve(page.Items[0].CallRef)); err != nil {
			t.Fatal(err)
		}
	}
	for name, keep := range map[string]option{"by age": retain(time.Hour, 0), "by number": retain(0, 1), "by both": retain(time.Hour, 1)} {
		t.Run(name+"/a sub-agent's sub-agent waits for an approval", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := newTrimmed()
				turn(t, open(t, st, counterBot(2), named("a"), retain(0, 0)), "s", "before")
				eng := open(t, st, household(cairn.PerStep, cairn.RequireApproval()), named("b"), keep)
				if res := turn(t, eng, "s", "go"); res.Status != cairn.RunSuspended {
					t.Fatal(res.Status)
				}
				testclock.Advance(90 * day)
				trims(t, eng, 1)
				startsWith(t, st, "s", 1)
				trims(t, eng, 0)
				other := open(t, st, household(cairn.PerStep, cairn.RequireApproval()), named("c"), keep)
				approve(t, other)
				run, err := other.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				trims(t, eng, 0)
				testclock.Advance(day)
				trims(t, eng, 1)
				wantWayOn(t, eng, st, "s")
				wantQuiet(t, st, other)
				st.wantSoundWhole(t, "s")
			})
		})
		t.Run(name+"/a run takes long", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := newTrimmed()
				agent := bot(scripted.New(scripted.Text("short"), scripted.Call("note", in{"1"}), scripted.Reply(scripted.Text("and "), scripted.Pause(9*time.Hour), scripted.Text("so on"))), note())
				eng := open(t, st, agent, keep, patient)
				turn(t, eng, "s", "before")
				run := start(t, eng, "s", "go")
				testclock.Advance(3 * time.Hour)
				read := make(chan string, 1)
				go func() { // a reader that began before the log was trimmed
					text := ""
					for ev, err := range eng.Events(t.Context(), "s", cairn.Cursor{}) {
						if err != nil {
							t.Error(err)
						}
						if ev.Type == cairn.EventTextDelta {
							text += ev.Text
						}
						if err != nil || ev.Ends(run.ID()) {
							break
						}
					}
					read <- text
				}()
				synctest.Wait()
				trims(t, eng, 1)
				startsWith(t, st, "s", 1)
				for range 2 {
					testclock.Advance(2 * time.Hour)
					trims(t, eng, 0)
				}
				testclock.Advance(2 * time.Hour)
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				wantEnd(t, run)
				if text := <-read; text != "shortand so on" {
					t.Errorf("a reader was given %q", text)
				}
				st.wantSoundWhole(t, "s")
			})
		})
		t.Run(name+"/the process died", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := newTrimmed()
				turn(t, open(t, st, counterBot(2), named("a"), retain(0, 0)), "s", "before")
				dead := tapOn(st.Store)
				start(t, open(t, dead, bot(scripted.New(scripted.Call("note", in{"1"}), scripted.Reply(scripted.Text("half "), scripted.Do(dead.cut), scripted.Pause(time.Hour))), note()), shortLease, named("b")), "s", "go")
				testclock.Advance(30 * day)
				eng := open(t, st, bot(scripted.New(scripted.Text("done")), note()), named("c"), keep)
				trims(t, eng, 1)
				startsWith(t, st, "s", 1)
				run, err := eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				wantEnd(t, run)
				wantQuiet(t, st, eng)
				st.wantSoundWhole(t, "s")
			})
		})
	}
}

// A companion that continues where its root rests keeps its events, and those that follow.
func TestSweepKeepsACompanionsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := newTrimmed()
		friend := &cairn.Agent{Name: "friend", Description: "Helps.", Model: scripted.New(scripted.Reply(scripted.Pause(5*time.Hour), scripted.Text("hello")),
			scripted.Text("again"))}
		agent := bot(scripted.New(scripted.Text("first"), scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "friend", "message": "hi"}),
			scripted.Text("Well."), scripted.Text("Indeed."), scripted.Text("So."),
			scripted.Call(cairn.CompanionSend, map[string]string{"name": "friend-1", "message": "and?"}), scripted.Text("Thus.")))
		agent.Companions = []cairn.Companion{{Agent: friend, Mode: cairn.NonBlocking}}
		eng := open(t, st, agent, retain(time.Hour, 1), patient)
		turn(t, eng, "s", "before")
		turn(t, eng, "s", "go")
		testclock.Advance(2 * time.Hour)
		turn(t, eng, "s", "and")
		testclock.Advance(2 * time.Hour)
		trims(t, eng, 1)
		page, err := st.List(t.Context(), store.SessionQuery{ParentID: "s"})
		if err != nil || len(page.Items) != 1 {
			t.Fatal(page.Items, err)
		}
		runs := runsOf(t, st, page.Items[0].ID)
		if first, _ := boundsOf(t, st, "s"); first != runs[0].StartSequence+1 {
			t.Fatalf("the log begins with event %d, the companion's run behind %d", first, runs[0].StartSequence)
		}
		testclock.Advance(4 * time.Hour)
		turn(t, eng, "s", "so")
		testclock.Advance(2 * time.Hour)
		trims(t, eng, 1)
		wantWayOn(t, eng, st, "s")
		snap, err := eng.Snapshot(t.Context(), page.Items[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := eng.History(t.Context(), page.Items[0].ID, snap.Cursor(), 0); err != nil {
			t.Fatalf("after the snapshot of a companion: %v", err)
		}
		turn(t, eng, "s", "on") // the companion continues in it and knows the log as it was
		testclock.Advance(time.Minute)
		runs = runsOf(t, st, page.Items[0].ID)
		if first, _ := boundsOf(t, st, "s"); len(runs) != 2 || runs[1].StartSequence+1 < first {
			t.Fatalf("the log begins with event %d; the companion's runs are %+v", first, runs)
		}
		wantQuiet(t, st, eng)
		st.wantSoundWhole(t, "s")
	})
}

// A sweep reads nothing of sessions at rest, and trims a log in another system as well.
func TestSweepLooksOnlyAtLogsThatGrew(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"the store's own log": true, "a log beside the store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				log, _ := store.Log(st.log), 0
				if !own {
					log = memstore.New(nil).EventLog()
				}
				eng := open(t, st, bot(counter(2), note()), retain(0, 20), with(func(o *engine.Options) { o.Log, o.CacheSessions = log, -1 }))
				const rest = 100
				for i := range rest {
					turn(t, eng, fmt.Sprint("rests-", i), "go")
				}
				for range 5 {
					turn(t, eng, "s", "go")
				}
				testclock.Advance(time.Hour)
				trims(t, eng, 1)
				st.seen()
				for range 24 {
					testclock.Advance(time.Hour)
					trims(t, eng, 0)
				}
				if calls := st.seen(); len(calls) > 0 {
					t.Errorf("%d calls of the store to sweep what rests: %q", len(calls), calls[:min(len(calls), 10)])
				}
				turn(t, eng, "s", "go")
				turn(t, eng, "s", "go")
				st.seen()
				testclock.Advance(time.Hour)
				trims(t, eng, 1)
				if calls := st.seen(); len(calls) > 10 {
					t.Errorf("%d calls of the store to trim one log: %q", len(calls), calls)
				}
				if first, last, err := log.Bounds(t.Context(), load(t, st, "s").Log()); err != nil || first == 1 || last-first < 19 {
					t.Errorf("the log has the events from %d to %d: %v", first, last, err)
				}
			})
		})
	}
}

// The log of a session that is gone is left alone, so that it can be restored unchanged.
func TestSweepLeavesTheLogOfARemovedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, counterBot(2), retain(time.Hour, 1))
		turn(t, eng, "s", "go")
		turn(t, eng, "s", "go")
		if err := eng.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		testclock.Advance(20 * day)
		trims(t, eng, 0)
		if _, err := eng.Restore(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if first, _ := boundsOf(t, st, "s"); first != 1 {
			t.Fatalf("the log begins with event %d", first)
		}
		testclock.Advance(2 * time.Hour)
		trims(t, eng, 1)
	})
}

// deafLog is a log that cannot be trimmed for a while.
type deafLog struct {
	*memstore.Log
	fails bool
}

func (l *deafLog) Trim(ctx context.Context, log string, before int64) error {
	if l.fails {
		return cairn.Errorf(cairn.ErrUnavailable, "the disk is full")
	}
	return l.Log.Trim(ctx, log, before)
}

// A failure is reported, stops nothing, and is retried.
func TestSweepTellsOfLogsThatAreNotTrimmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		log := &deafLog{Log: st.EventLog().(*memstore.Log), fails: true}
		eng := open(t, st, counterBot(2), retain(time.Hour, 0), with(func(o *engine.Options) { o.Log = log }))
		turn(t, eng, "a", "go")
		turn(t, eng, "b", "go")
		testclock.Advance(2 * time.Hour)
		r, err := eng.Sweep(t.Context())
		if err != nil || r.Failed != 2 || len(r.Errors) != 2 || r.Errors[0].SessionID != "a" || r.Trimmed != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		log.fails = false
		trims(t, eng, 2)
	})
}

// plainLog is a log that does not know which logs are due for a sweep.
type plainLog struct{ store.Log }

func TestRetentionIsChecked(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	for name, c := range map[string]struct {
		keep  engine.EventRetention
		log   store.Log
		field string
	}{
		"an age below zero":      {keep: engine.EventRetention{Age: -1}, field: "event_retention.age"},
		"an age below an hour":   {keep: engine.EventRetention{Age: time.Hour - 1}, field: "event_retention.age"},
		"a number below zero":    {keep: engine.EventRetention{Events: -1}, field: "event_retention.events"},
		"a log that is no match": {keep: engine.EventRetention{Events: 1}, log: plainLog{st.EventLog()}, field: "event_retention"},
	} {
		_, err := engine.New(st, nil, &engine.Options{EventRetention: c.keep, Log: c.log})
		if e := cairn.AsError(err); !errors.Is(err, cairn.ErrInvalid) || e.Field != c.field {
			t.Errorf("%s: %v of field %q", name, err, e.Field)
		}
	}
}

// TrimEvents does by hand, for one session, what a sweep does.
func TestTrimEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, household(cairn.PerStep))
		for range 3 {
			turn(t, eng, "s", "go")
		}
		all := engine.EventRetention{Age: time.Hour}
		trim := func(keep engine.EventRetention) int64 {
			t.Helper()
			n, err := eng.TrimEvents(t.Context(), "s", keep)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := trim(all); n != 0 {
			t.Errorf("%d events of the last hour were trimmed", n)
		}
		testclock.Advance(time.Hour)
		if n := trim(engine.EventRetention{}); n != 0 {
			t.Errorf("%d events were trimmed by a retention that keeps everything", n)
		}
		_, last := boundsOf(t, st, "s")
		if n := trim(engine.EventRetention{Events: int(last) / 2}); n == 0 || n > last/2 {
			t.Errorf("%d of %d events were trimmed to keep half of them", n, last)
		}
		trim(all)
		if first, _ := boundsOf(t, st, "s"); first != load(t, st, "s").LogSequence+1 {
			t.Errorf("the log begins with event %d", first)
		}
		wantWayOn(t, eng, st, "s")

		_, err := eng.TrimEvents(t.Context(), "none", all)
		wantError(t, err, cairn.ErrNotFound)
		page, err := st.List(t.Context(), store.SessionQuery{ParentID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = eng.TrimEvents(t.Context(), page.Items[0].ID, all)
		wantError(t, err, cairn.ErrInvalid)
		_, err = eng.TrimEvents(t.Context(), "s", engine.EventRetention{Age: time.Minute})
		wantError(t, err, cairn.ErrInvalid)
	})
}
