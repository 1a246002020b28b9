package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// payer is an agent that asks to pay on the message "pay", and replies "ok" to anything else. paid counts the payments.
func payer(paid *atomic.Int64) *cairn.Agent {
	pay := tool("pay", func(context.Context, *cairn.Call, in) (string, error) {
		paid.Add(1)
		return "paid", nil
	}, cairn.RequireApproval())
	return bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleUser && last.Text() == "pay" {
			return scripted.Call("pay", in{"x"})
		}
		return scripted.Text("ok")
	}), pay)
}

// spoken counts how often users said each text in a session.
func spoken(t *testing.T, st store.Store, id string) map[string]int {
	t.Helper()
	said := map[string]int{}
	for _, m := range messages(t, st, id) {
		if m.Role == cairn.RoleUser && !m.Hidden {
			said[m.Text()]++
		}
	}
	return said
}

// atRest waits until no process drives a session and nothing is queued on it.
func atRest(t *testing.T, st store.Store, id string) (row *cairn.Session) {
	t.Helper()
	testclock.Await(t, "session "+id+" to be at rest", func() bool {
		row = load(t, st, id)
		return row.Status != cairn.SessionActive && !row.Ready() && (row.Queued == 0 || row.Status == cairn.SessionPaused)
	})
	return row
}

// wantSoundAtRest checks a session that is at rest once its log is complete: the process that drove its last run
// publishes the end after it has committed it.
func wantSoundAtRest(t *testing.T, eng *engine.Engine, st durable, id string) {
	t.Helper()
	run, err := eng.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantSound(t, st, id)
}

// crowded opens two engines on a store, of which one works.
func crowded(t *testing.T, st store.Store, agent *cairn.Agent) [2]*engine.Engine {
	t.Helper()
	fast := with(func(o *engine.Options) { o.WorkInterval = time.Millisecond })
	crowd := [2]*engine.Engine{open(t, st, agent, named("one"), fast), open(t, st, agent, named("two"), fast)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- crowd[1].Work(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, cairn.ErrClosed) {
			t.Error(err)
		}
	})
	return crowd
}

// An answer and a turn that withdraws the call come concurrently: the answer is used, or refused.
func TestAnswerAtTheMomentOfATurn(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	st := memstore.New(nil)
	crowd := crowded(t, st, payer(&paid))
	for n := range 60 {
		id := fmt.Sprint("s", n)
		call := turn(t, crowd[0], id, "pay").Suspended.Calls[0]
		before := paid.Load()
		way := engine.OnWaiting(n % 3)
		var receipt cairn.Receipt
		var refused error
		var both sync.WaitGroup
		both.Go(func() { receipt, _ = crowd[n%2].Submit(t.Context(), id, cairn.Approve(call)) })
		both.Go(func() {
			var run *engine.Run
			if run, refused = crowd[1-n%2].Execute(t.Context(), id, "bot", cairn.Text("next"), engine.WithOnWaiting(way)); refused == nil {
				_, refused = run.Wait(t.Context())
			}
		})
		both.Wait()
		if refused != nil && !errors.Is(refused, cairn.ErrWaiting) && !errors.Is(refused, cairn.ErrAlreadyRunning) {
			t.Fatalf("round %d: %v", n, refused)
		}
		row := atRest(t, st, id)
		want := int64(0)
		if receipt.Outcome == cairn.OutcomeAccepted {
			want = 1
		}
		if got := paid.Load() - before; got != want || row.Status != cairn.SessionCompleted {
			t.Fatalf("round %d, way %d: the answer was %s, paid %d times, the session is %s", n, way, receipt.Outcome, got, row.Status)
		}
		if got := spoken(t, st, id)["next"]; (got == 1) != (refused == nil) || got > 1 {
			t.Fatalf("round %d: the turn's error is %v, its message is there %d times", n, refused, got)
		}
		wantSoundAtRest(t, crowd[0], st, id)
	}
}

// Two turns come concurrently to a session that is ready, while a worker resumes it.
func TestTurnsAtOnceOnAReadySession(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	st := memstore.New(nil)
	crowd := crowded(t, st, payer(&paid))
	for n := range 60 {
		id := fmt.Sprint("s", n)
		call := turn(t, crowd[0], id, "pay").Suspended.Calls[0]
		before := paid.Load()
		if r, err := crowd[0].Submit(t.Context(), id, cairn.Approve(call)); err != nil || r.Outcome != cairn.OutcomeAccepted {
			t.Fatal(r.Outcome, err)
		}
		var errs [2]error
		var both sync.WaitGroup
		for i := range crowd {
			both.Go(func() {
				run, err := crowd[i].Execute(t.Context(), id, "bot", cairn.Text(fmt.Sprint(i)))
				if err == nil {
					var res *cairn.Result
					if res, err = run.Wait(t.Context()); err == nil && res.RunID != run.ID() {
						err = fmt.Errorf("the result is of run %s, not of %s", res.RunID, run.ID())
					}
				}
				errs[i] = err
			})
		}
		both.Wait()
		atRest(t, st, id)
		if got := paid.Load() - before; got != 1 {
			t.Fatalf("round %d: paid %d times", n, got)
		}
		for i, err := range errs {
			if err != nil && !errors.Is(err, cairn.ErrAlreadyRunning) {
				t.Fatalf("round %d: turn %d: %v", n, i, err)
			}
			if got := spoken(t, st, id)[fmt.Sprint(i)]; (got == 1) != (err == nil) || got > 1 {
				t.Fatalf("round %d: turn %d has the error %v, its message is there %d times", n, i, err, got)
			}
		}
		wantSoundAtRest(t, crowd[0], st, id)
	}
}

// Messages sent to a turn while it ends are there once, and answered, whichever is faster.
func TestSteerAtTheEndOfATurn(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleUser && last.Text() == "go" {
			return scripted.Call("note", in{"x"})
		}
		return scripted.Text("ok")
	}), note())
	crowd := crowded(t, st, agent)
	joined := 0
	for n := range 100 {
		id := fmt.Sprint("s", n)
		run := start(t, crowd[0], id, "go")
		for range n % 10 {
			time.Sleep(20 * time.Microsecond) // Real time, so that the messages arrive at any moment of the turn.
		}
		var sent sync.WaitGroup
		for i := range crowd {
			sent.Go(func() {
				r, err := crowd[i].Execute(t.Context(), id, "bot", cairn.Text(fmt.Sprint(i)), engine.WithOnBusy(engine.BusySteer))
				if err != nil {
					t.Errorf("round %d: %v", n, err)
					return
				}
				if res, err := r.Wait(t.Context()); err != nil || res.Status != cairn.RunCompleted {
					t.Errorf("round %d: %+v, %v", n, res, err)
				} else if i == 0 && res.RunID == run.ID() {
					joined++
				}
			})
		}
		sent.Wait()
		atRest(t, st, id)
		list := messages(t, st, id)
		if got := spoken(t, st, id); got["go"] != 1 || got["0"] != 1 || got["1"] != 1 {
			t.Fatalf("round %d: users said %v", n, got)
		}
		if last := list[len(list)-1]; last.Role != cairn.RoleAssistant {
			t.Fatalf("round %d: the last message is %s %q", n, last.Role, last.Text())
		}
		wantSoundAtRest(t, crowd[0], st, id)
	}
	t.Logf("%d of 100 messages joined the turn under way", joined)
}

// An option that the verb does not support is refused.
func TestOptionsOfWaits(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	st := memstore.New(nil)
	eng := open(t, st, payer(&paid))
	turn(t, eng, "s", "pay")
	hooks := engine.WithHooks(&cairn.Hooks{})
	for what, err := range map[string]error{
		"an unknown way":                 failing(eng.Execute(t.Context(), "s", "bot", cairn.Text("x"), engine.WithOnWaiting(7))),
		"a resume with a way":            failing(eng.Resume(t.Context(), "s", withdraw)),
		"a retry with a way":             failing(eng.Retry(t.Context(), "s", withdraw)),
		"hooks of a turn that is kept":   failing(eng.Execute(t.Context(), "s", "bot", cairn.Text("x"), hooks, engine.WithOnWaiting(engine.WaitingEnqueue))),
		"hooks of messages that steer":   failing(eng.Execute(t.Context(), "s", "bot", cairn.Text("x"), hooks, engine.WithOnBusy(engine.BusySteer))),
		"a session's id that is hostile": func() error { _, err := eng.Queue(t.Context(), "\x00"); return err }(),
	} {
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := failing(eng.Execute(t.Context(), "s", "bot", cairn.Text("x"), hooks))
	var e *cairn.Error
	if !errors.As(err, &e) || !errors.Is(err, cairn.ErrWaiting) || e.Code.HTTPStatus() != 409 || len(e.Calls) != 1 || e.Calls[0].Tool != "pay" {
		t.Errorf("a turn on a session that waits: %v, %+v", err, e)
	}
	for _, id := range []string{"", "nobody", "\xff"} {
		if err := eng.Dequeue(t.Context(), "s", id); !errors.Is(err, cairn.ErrNotFound) {
			t.Errorf("dequeue of %q: %v", id, err)
		}
	}
	if turns, err := eng.Queue(t.Context(), "s"); err != nil || len(turns) != 0 {
		t.Errorf("the queue: %+v, %v", turns, err)
	}
	// A handle on messages that were removed from the queue ends, also if nothing was published.
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("later"), engine.WithOnWaiting(engine.WaitingEnqueue))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { _, err := run.Wait(t.Context()); over <- err }()
	if _, err := st.Commit(t.Context(), "s", &driver.Commit{Dequeue: []string{run.ID()}}); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, cairn.ErrAborted) {
		t.Errorf("a turn that was taken out of the queue: %v", err)
	}
	if paid.Load() != 0 {
		t.Error("something was paid")
	}
}

// A snapshot has the queue, as far as its reader may see it.
func TestSnapshotHasTheQueue(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	st := memstore.New(nil)
	eng := open(t, st, payer(&paid))
	turn(t, eng, "s", "pay")
	in := cairn.Messages(cairn.Context("a secret"), cairn.User(cairn.TextPart("later")))
	run, err := eng.Execute(t.Context(), "s", "bot", in, engine.WithOnWaiting(engine.WaitingEnqueue))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := eng.Snapshot(t.Context(), "s")
	if err != nil || len(snap.Queue) != 1 || snap.Queue[0].ID != run.ID() || len(snap.Queue[0].Messages) != 2 {
		t.Fatalf("the queue is %+v, %v", snap.Queue, err)
	}
	if public := snap.Public(); len(public.Queue[0].Messages) != 1 || public.Queue[0].Messages[0].Text() != "later" || len(snap.Queue[0].Messages) != 2 {
		t.Errorf("a reader sees %+v", public.Queue)
	}
}
