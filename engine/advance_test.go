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
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// linger is a model that takes a minute for each reply, and counts its calls. It answers after a call of note.
type linger struct {
	cairn.Model
	calls atomic.Int64
}

func newLinger() *linger {
	s := &linger{}
	s.Model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		s.calls.Add(1)
		reply := scripted.Text("done")
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleUser {
			reply = scripted.Call("note", in{"x"}).ID("c1")
		}
		return scripted.Reply(scripted.Pause(time.Minute), reply)
	})
	return s
}

// advanced calls Advance, which must succeed, and checks the state and the number of steps.
func advanced(t *testing.T, eng *engine.Engine, at host.Run, state engine.AdvanceState, steps int) *engine.Progress {
	t.Helper()
	p, err := eng.Advance(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if p.State != state || p.Run.Step != steps {
		t.Fatalf("state %s after %d steps, want %s after %d", p.State, p.Run.Step, state, steps)
	}
	return p
}

// begunBy begins a turn of session "s" and returns the reference that the host got.
func begunBy(t *testing.T, eng *engine.Engine, h *byHand) host.Run {
	t.Helper()
	start(t, eng, "s", "go")
	return h.begun[len(h.begun)-1]
}

// A call drives one step. Calls for steps that are done drive nothing, however late they come.
func TestAdvance(t *testing.T) {
	t.Parallel()
	for _, d := range []cairn.Durability{cairn.PerStep, cairn.PerTool, cairn.Manual} {
		synctest.Test(t, func(t *testing.T) {
			st, h := memstore.New(nil), &byHand{}
			agent := bot(counter(3), note())
			agent.Durability = d
			one := open(t, st, agent, hostedBy(h))
			two := open(t, st, agent, hostedBy(h), named("b"))
			begun := begunBy(t, one, h)

			first := advanced(t, one, begun, engine.AdvanceMore, 1)
			advanced(t, two, begun, engine.AdvanceMore, 1)
			second := advanced(t, two, first.Run, engine.AdvanceMore, 2)
			advanced(t, one, first.Run, engine.AdvanceMore, 2)
			end := advanced(t, one, second.Run, engine.AdvanceEnded, 3)
			if end.Status != cairn.RunCompleted {
				t.Errorf("the run is %s", end.Status)
			}
			for _, late := range []host.Run{begun, first.Run, second.Run, end.Run} {
				advanced(t, two, late, engine.AdvanceEnded, 3)
			}
			if calls := runsOf(t, st, "s")[0].Usage.ModelCalls; calls != 3 {
				t.Errorf("%d model calls, want 3", calls)
			}
			wantSound(t, st, "s")
		})
	}
}

// A run ends though its caller begins with its first reference each time, or with none, and no step is committed before
// the last.
func TestAdvanceWithoutTheLastReference(t *testing.T) {
	t.Parallel()
	const steps = 7
	for _, d := range []cairn.Durability{cairn.PerStep, cairn.Manual} {
		for name, refer := range map[string]func(eng *engine.Engine, first host.Run) (host.Run, error){
			"the first": func(_ *engine.Engine, first host.Run) (host.Run, error) { return first, nil },
			"none":      func(eng *engine.Engine, _ host.Run) (host.Run, error) { return eng.Reference(t.Context(), "s") },
		} {
			st, h := memstore.New(nil), &byHand{}
			agent := bot(counter(steps), note())
			agent.Durability = d
			eng := open(t, st, agent, hostedBy(h))
			first := begunBy(t, eng, h)
			for calls := 0; ; calls++ {
				at, err := refer(eng, first)
				if err != nil {
					t.Fatal(err)
				}
				p, err := eng.Advance(t.Context(), at)
				if err == nil && p.State == engine.AdvanceMore && p.Run.Step > at.Step { // done before
					p, err = eng.Advance(t.Context(), p.Run)
				}
				if err != nil || calls > steps {
					t.Fatalf("%s, %s: after %d calls %+v, error %v", d, name, calls, p, err)
				}
				if p.State == engine.AdvanceEnded {
					break
				}
			}
			wantSound(t, st, "s")
		}
	}
}

// A suspended run waits until its deadline. The turn continues as another run, and calls for the first one are done.
func TestAdvanceUntilSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &byHand{}
		model := scripted.New(scripted.Call("pay", in{"42"}).ID("c1"), scripted.Text("paid"))
		eng := open(t, st, bot(model, echo("pay", cairn.RequireApproval(), cairn.WaitAtMost(time.Hour))), hostedBy(h))
		begun := begunBy(t, eng, h)
		p := advanced(t, eng, begun, engine.AdvanceWaiting, 1)
		if p.Status != cairn.RunSuspended || !p.Until.Equal(load(t, st, "s").NextDeadline) || p.Until.IsZero() {
			t.Errorf("%s until %s", p.Status, p.Until)
		}
		calls, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
		if err != nil || len(calls.Items) != 1 {
			t.Fatalf("%d calls, error %v", len(calls.Items), err)
		}
		if _, err := eng.Submit(t.Context(), "s", cairn.Approve(calls.Items[0].CallRef)); err != nil {
			t.Fatal(err)
		}
		if _, err := eng.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		again := h.begun[1]
		advanced(t, eng, begun, engine.AdvanceEnded, 1)
		for p := advanced(t, eng, again, engine.AdvanceMore, 1); p.State == engine.AdvanceMore; {
			var err error
			if p, err = eng.Advance(t.Context(), p.Run); err != nil {
				t.Fatal(err)
			}
		}
		if run := runsOf(t, st, "s")[1]; run.Text != "paid" {
			t.Errorf("the run is %s with %q", run.Status, run.Text)
		}
	})
}

// Of two calls at once one drives the step. The other is refused at once, in the same process and in another one.
func TestAdvanceTwiceAtOnce(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]bool{"in one process": false, "in two processes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, h, model := memstore.New(nil), &byHand{}, newLinger()
				one := open(t, st, bot(model, note()), hostedBy(h))
				two := one
				if twin {
					two = open(t, st, bot(model, note()), hostedBy(h), named("b"))
				}
				begun := begunBy(t, one, h)
				driven := make(chan struct{})
				go func() {
					defer close(driven)
					advanced(t, one, begun, engine.AdvanceMore, 1)
				}()
				synctest.Wait()
				asked := time.Now()
				_, err := two.Advance(t.Context(), begun)
				var refused *cairn.Error
				if !errors.As(err, &refused) || refused.Code != cairn.ErrAlreadyRunning || refused.RetryAfter <= 0 || time.Since(asked) > 0 {
					t.Errorf("the second call: error %v after %s", err, time.Since(asked))
				}
				<-driven
				advanced(t, two, begun, engine.AdvanceMore, 1)
				if model.calls.Load() != 1 {
					t.Errorf("%d model calls, want 1", model.calls.Load())
				}
				if page, err := st.Records().Namespaces(t.Context(), ""); err != nil || len(page.Items) > 0 {
					t.Errorf("records of %v are left, error %v", page.Items, err)
				}
			})
		})
	}
}

// A model call that takes longer than the call continues, longer than any lease, and the next calls wait for it.
func TestAdvanceUntilDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h, model := memstore.New(nil), &byHand{}, newLinger()
		eng := open(t, st, bot(model, note()), hostedBy(h), shortLease)
		two := open(t, st, bot(model, note()), hostedBy(h), shortLease, named("b"))
		begun := begunBy(t, eng, h)
		calls := 0
		for p := (&engine.Progress{State: engine.AdvanceMore, Run: begun}); p.State == engine.AdvanceMore; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			var err error
			if p, err = eng.Advance(ctx, p.Run); err != nil {
				t.Fatal(err)
			}
			cancel()
			if p.Run.Step == 0 {
				_, err := two.Advance(t.Context(), p.Run)
				wantError(t, err, cairn.ErrAlreadyRunning)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := eng.Advance(gone, p.Run); p.State == engine.AdvanceMore && !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call: error %v", err)
			}
		}
		if calls != 6 || model.calls.Load() != 2 {
			t.Errorf("%d calls and %d model calls, want 6 and 2", calls, model.calls.Load())
		}
		wantSound(t, st, "s")
	})
}

// A deadline that passes before anything was read means more, too.
func TestAdvanceAfterDeadline(t *testing.T) {
	t.Parallel()
	h := &byHand{}
	eng := open(t, memstore.New(nil), bot(newLinger(), note()), hostedBy(h))
	at := begunBy(t, eng, h)
	late, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if p, err := eng.Advance(late, at); err != nil || p.State != engine.AdvanceMore || p.Run != at {
		t.Errorf("%+v, error %v", p, err)
	}
}

func TestAdvanceRefuses(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	eng := open(t, st, bot(counter(2), note()), hostedBy(h))
	begun := begunBy(t, eng, h)
	change := func(set func(*host.Run)) host.Run { b := begun; set(&b); return b }
	for name, c := range map[string]struct {
		run  host.Run
		want cairn.Code
	}{
		"session_id":      {change(func(b *host.Run) { b.SessionID = "" }), cairn.ErrInvalid},
		"run_id":          {change(func(b *host.Run) { b.RunID = "" }), cairn.ErrInvalid},
		"token":           {change(func(b *host.Run) { b.Token = 0 }), cairn.ErrInvalid},
		"step":            {change(func(b *host.Run) { b.Step = -1 }), cairn.ErrInvalid},
		"unknown session": {change(func(b *host.Run) { b.SessionID = "other" }), cairn.ErrNotFound},
		"unknown run":     {change(func(b *host.Run) { b.RunID = "other" }), cairn.ErrNotFound},
		"later token":     {change(func(b *host.Run) { b.Token += 1 << 40 }), cairn.ErrStoreBehind},
		"later step":      {change(func(b *host.Run) { b.Step = 5 }), cairn.ErrStoreBehind},
		"unknown agent":   {change(func(b *host.Run) { b.Agent = "other" }), cairn.ErrUnavailable},
	} {
		p, err := eng.Advance(t.Context(), c.run)
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != c.want || c.want == cairn.ErrInvalid && e.Field != name {
			t.Errorf("%s: %+v, error %v, want %s", name, p, err, c.want)
		}
	}
	_, err := open(t, st, bot(counter(2))).Advance(t.Context(), begun)
	wantError(t, err, cairn.ErrInvalid)
	leave(t, eng)
	_, err = eng.Advance(t.Context(), begun)
	wantError(t, err, cairn.ErrClosed)
}
