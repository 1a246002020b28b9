package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// drives drives a run by hand to its end, which it must reach.
func drives(t *testing.T, eng *engine.Engine, b host.Run, want cairn.RunStatus) {
	t.Helper()
	if status, err := loop.Drive(hand{t, eng}, b); status != want || err != nil {
		t.Fatalf("driving the run: %q, want %q; error %v", status, want, err)
	}
}

// clocked returns a store with a clock that the test moves, and an option for engines that have the same.
func clocked() (st *memstore.Store, pass func(time.Duration), clock option) {
	at := time.Now()
	now := func() time.Time { return at }
	return memstore.New(&memstore.Options{Now: now}), func(d time.Duration) { at = at.Add(d) },
		with(func(o *engine.Options) { o.Now = now })
}

// Work that followed deferred steps is repeated with them, though a reply that delegates is kept otherwise.
func TestStepsPutOffAreRepeatedWithWhatFollowed(t *testing.T) {
	t.Parallel()
	st, pass, clock := clocked()
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("found"), scripted.Text("found"))}
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch len(req.Messages) {
		case 1:
			return scripted.Reply(scripted.Text("first "), scripted.Call("note", in{"n"}).ID("c1"))
		case 3:
			return scripted.Reply(scripted.Text("second "), scripted.Call("helper", map[string]string{"input": "look"}).ID("c2"))
		}
		return scripted.Text("bye")
	})
	agent := bot(model, note(), cairn.SubAgent(helper))
	agent.Durability = cairn.Manual
	h := &byHand{}
	one, two := open(t, st, agent, hostedBy(h), clock), open(t, st, agent, hostedBy(h), clock, named("b"))
	start(t, one, "s", "go")
	first := h.begun[0]
	carry(t, one, host.EffectPlan, next(first, ""))
	carry(t, one, host.EffectTool, next(first, "c1"))
	carry(t, one, host.EffectCommit, next(first, ""))
	second := first
	second.Step++
	carry(t, one, host.EffectPlan, next(second, ""))

	pass(time.Hour)
	if _, err := two.Resume(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	drives(t, two, h.begun[1], cairn.RunCompleted)
	wantSound(t, tapOn(st), "s")
}

// A process may take a run over from itself before the call that began it has returned. Then it drives that run.
func TestHostedRunIsTakenOverWhileItIsBeingBegun(t *testing.T) {
	t.Parallel()
	st, pass, clock := clocked()
	h := &byHand{}
	agent := bot(scripted.New(scripted.Text("done")))
	slow := tapOn(st)
	eng := open(t, slow, agent, hostedBy(h), clock)
	held := false
	slow.stepIn(nil, func(_ context.Context, op string) error {
		if held || op != "Commit" {
			return nil
		}
		held = true
		pass(time.Hour)
		_, err := eng.Resume(t.Context(), "s")
		return err
	})
	start(t, eng, "s", "go")
	if len(h.begun) != 2 || h.begun[1].Token >= h.begun[0].Token {
		t.Fatalf("the host was given %+v", h.begun)
	}
	_, err := eng.ForHost().Effect(t.Context(), host.EffectPlan, next(h.begun[1], ""))
	wantError(t, err, cairn.ErrFenced)
	drives(t, eng, h.begun[0], cairn.RunCompleted)
	wantSound(t, tapOn(st), "s")
}

// An answer may come after its call's effect has looked, and before the suspending step is committed. The next run
// finds it as if it had come after the commit. The tool that would have ended the turn does not end it, since another call
// of its reply was out of time.
func TestAnswerBetweenTwoEffectsIsUsed(t *testing.T) {
	t.Parallel()
	for name, resumes := range map[string]bool{"a worker goes on": false, "the process goes on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, pass, clock := clocked()
			agent := bot(scripted.New(scripted.Reply(scripted.Call("soon", in{"1"}), scripted.Call("ask", in{"2"}), scripted.Call("close", in{"3"}).ID("c3")), scripted.Text("closed")),
				cairn.ClientTool[in, string]("soon", "Asks.", cairn.WaitAtMost(time.Minute)), cairn.ClientTool[in, string]("ask", "Asks."),
				echo("close", cairn.FinishWith()))
			h := &byHand{}
			eng := open(t, st, agent, hostedBy(h), clock, with(func(o *engine.Options) { o.AutoResume = resumes }))
			start(t, eng, "s", "go")
			drives(t, eng, h.begun[0], cairn.RunSuspended)
			pass(time.Hour) // the deadline of one call
			if _, err := eng.Resume(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			b := h.begun[1]
			calls := decode[struct{ Parallel []string }](t, json.RawMessage(carry(t, eng, host.EffectPlan, next(b, "")))).Parallel
			for _, call := range calls {
				carry(t, eng, host.EffectTool, next(b, call))
			}
			call, err := eng.Call(t.Context(), "s", calls[1])
			if err != nil {
				t.Fatal(err)
			}
			submit(t, eng, "s", cairn.Answer(call.CallRef, "yes"), cairn.OutcomeAccepted)
			if out := decode[host.Committed](t, json.RawMessage(carry(t, eng, host.EffectCommit, next(b, "")))); out.Status != cairn.RunSuspended {
				t.Fatalf("the run is %s", out.Status)
			}
			if !resumes {
				if row := load(t, st, "s"); !row.Ready() {
					t.Fatalf("the session does not say that it can go on: %+v", row)
				}
				if _, err := eng.Resume(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
			}
			if len(h.begun) != 3 {
				t.Fatalf("%d runs were begun, want 3", len(h.begun))
			}
			drives(t, eng, h.begun[2], cairn.RunCompleted)
			if r := result(t, messages(t, st, "s"), call.ID); string(r.Output) != `"yes"` {
				t.Errorf("the model is told %s", r.Output)
			}
			wantSound(t, tapOn(st), "s")
		})
	}
}

// Of two calls that speak to a companion, the second may continue it when the first has begun to wait for it. The first
// then does not wait for an answer that will not come.
func TestCompanionThatWaitsIsGivenMoreToDo(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	who := &cairn.Agent{Name: "scribe", Tools: []cairn.Tool{cairn.ClientTool[in, string]("ask", "Asks.")},
		Model: scripted.New(scripted.Text("hello"), scripted.Call("ask", in{"?"}), scripted.Text("never mind"))}
	agent, _ := companions(cairn.Blocking, who, spawn("c1", "ann", "one"),
		scripted.Reply(send("c2", "ann", "two"), send("c3", "ann", "three")), scripted.Text("done"))
	eng := open(t, st, agent, hostedBy(h))
	start(t, eng, "s", "go")
	drives(t, eng, h.begun[0], cairn.RunSuspended)
	if row := load(t, st, "s"); !row.Ready() {
		t.Fatalf("the session does not say that it can go on: %+v", row)
	}
	if _, err := eng.Resume(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	drives(t, eng, h.begun[1], cairn.RunCompleted)
	for _, call := range []int{2, 3} {
		if got := output(t, st, "s", call); got != `"never mind"` {
			t.Errorf("call %d: %s", call, got)
		}
	}
	wantSound(t, tapOn(st), "s")
}

// turns carries out the effects of a run in several engines in turn.
type turns struct {
	*testing.T
	engines []*engine.Engine
	n       *int
}

func (s turns) Do(e host.Effect) error {
	*s.n++
	return hand{s.T, s.engines[*s.n%len(s.engines)]}.Do(e)
}

func (s turns) All(n int, branch func(host.Scheduler, int) error) error {
	var errs []error
	for i := range n {
		errs = append(errs, branch(s, i))
	}
	return errors.Join(errs...)
}

func (s turns) Child(_ host.Call, b host.Run) error {
	_, err := loop.Drive(s, b)
	return err
}

// counting is a store that counts the messages that are read from it.
type counting struct {
	*memstore.Store
	messages int
}

func (s *counting) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	snap, err := s.Store.Read(ctx, id, want)
	if err == nil {
		s.messages += len(snap.Messages)
	}
	return snap, err
}

// What a step reads does not grow with the history, however many processes carry out the effects of a turn. Neither
// does what the beginning of the next turn reads.
func TestProcessesReadEachMessageOnce(t *testing.T) {
	t.Parallel()
	steps := testenv.Choose(40, 100)
	for _, n := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			st, h := &counting{Store: memstore.New(nil)}, &byHand{}
			agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
				if len(req.Messages)%(2*steps) == 2*steps-1 {
					return scripted.Text("done")
				}
				return scripted.Call("note", in{fmt.Sprint(len(req.Messages))})
			}), note())
			agent.MaxSteps = steps
			s := turns{T: t, n: new(int)}
			for i := range n {
				s.engines = append(s.engines, open(t, st, agent, hostedBy(h), named(string(rune('a'+i)))))
			}
			for turn := range 3 {
				before := st.messages
				start(t, s.engines[turn%n], "s", "go")
				if status, err := loop.Drive(s, h.begun[turn]); status != cairn.RunCompleted || err != nil {
					t.Fatalf("driving the run: %q, %v", status, err)
				}
				// And in each step one process compares the last message that it knows with the store's.
				if read := st.messages - before; read > (2*n+1)*steps {
					t.Errorf("turn %d: %d processes have read %d messages for %d steps", turn+1, n, read, steps)
				}
			}
			wantSound(t, tapOn(st.Store), "s")
		})
	}
}

// A log elsewhere has the beginning of a run, first, though it was unreachable when the process that began the run handed it to
// the host.
func TestBeginningIsPublishedThoughTheLogWasAway(t *testing.T) {
	t.Parallel()
	for _, host := range []hosttest.Host{hosttest.Cold, hosttest.Alternating} {
		for _, turns := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/turn %d", host.Name, turns), func(t *testing.T) {
				t.Parallel()
				st := separated()
				o := &engine.Options{}
				eng := host.Start(t, placed(st, o), []*cairn.Agent{bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
					return scripted.Text("Yes.")
				}))}, o)
				for n := 1; n <= turns; n++ {
					away := n == turns
					st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
						if away && len(events) > 0 && events[0].Type == cairn.EventRunStart {
							away = false
							return cairn.Errorf(cairn.ErrInternal, "the disk is full")
						}
						return nil
					})
					wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
					if away {
						t.Fatal("the log did not fail")
					}
				}
				wantSound(t, st, "s")
			})
		}
	}
}

// Processes that begin runs on a host die before they bring that to a log elsewhere, one after the other: each first
// interrupts the run of the one before, which was never driven. Each finds what the one before left.
func TestBeginningsOfRunsThatNobodyDrove(t *testing.T) {
	t.Parallel()
	mem, pass, clock := clocked()
	st := separated()
	st.Store = mem
	agent := bot(scripted.New(scripted.Text("done")))
	h := &byHand{}
	for n := range 3 {
		dies := st.twin()
		eng := open(t, dies, agent, hostedBy(h), clock, named(fmt.Sprint("dead", n)))
		if n > 0 {
			if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
		}
		dies.log.stepIn(func(context.Context, []cairn.Event) error {
			return cairn.Errorf(cairn.ErrInternal, "the process is dead")
		})
		start(t, eng, "s", fmt.Sprint("turn ", n))
		pass(time.Hour)
	}
	last := open(t, st.twin(), agent, hostedBy(h), clock, named("b"))
	drives(t, last, h.begun[2], cairn.RunCompleted)
	wantSound(t, st, "s")
}

// A process that dies while it publishes the outcome of a deferred step has not stored its end: the next attempt
// publishes it once, and the patches of the log lead to the state.
func TestEndOfADeferredStepIsPublished(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.New(scripted.Call("note", in{"n"}).ID("c1"), scripted.Text("done"), scripted.Text("done")), note())
	agent.Durability = cairn.Manual
	h := &byHand{}
	dies := tapOn(st)
	one, two := open(t, dies, agent, hostedBy(h)), open(t, tapOn(st), agent, hostedBy(h), named("b"))
	start(t, one, "s", "go")
	first := h.begun[0]
	carry(t, one, host.EffectPlan, next(first, ""))
	carry(t, one, host.EffectTool, next(first, "c1"))
	dies.log.stepIn(func(context.Context, []cairn.Event) error {
		return cairn.Errorf(cairn.ErrInternal, "the process is dead")
	})
	if out, err := one.ForHost().Effect(t.Context(), host.EffectCommit, next(first, "")); err == nil {
		t.Errorf("a commit whose events are not on the log came to %s", out)
	}
	drives(t, two, first, cairn.RunCompleted)
	patches := 0
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventStatePatch {
			patches++
		}
	}
	if patches != 1 {
		t.Errorf("the log has %d patches of the state", patches)
	}
	wantSound(t, tapOn(st), "s")
}
