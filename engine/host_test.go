package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// byHand is a host that drives nothing: the test does, effect by effect.
type byHand struct {
	begun []host.Run
	err   error
}

func (h *byHand) Start(_ context.Context, b host.Run) (func(context.Context) error, error) {
	h.begun = append(h.begun, b)
	return nil, h.err
}

func hostedBy(h host.Host) option { return with(func(o *engine.Options) { o.Host = h }) }

// next returns the input of an effect of the step after the committed ones.
func next(b host.Run, callID string) json.RawMessage {
	b.Step++
	raw, _ := json.Marshal(host.Call{Position: b.Position, CallID: callID}) // ids and numbers encode
	return raw
}

// carry carries out an effect that must succeed, and returns its output.
func carry(t *testing.T, eng *engine.Engine, name string, in json.RawMessage) string {
	t.Helper()
	out, err := eng.ForHost().Effect(t.Context(), name, in)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// logged lists the types of a session's events with their calls and texts.
func logged(t *testing.T, st driver.LogProvider, id string) []string {
	t.Helper()
	var list []string
	for _, ev := range history(t, st, id) {
		list = append(list, strings.TrimSpace(string(ev.Type)+" "+ev.CallID+ev.Text))
	}
	return list
}

func wantSent(t *testing.T, st driver.LogProvider, id string, want ...string) {
	t.Helper()
	if got := logged(t, st, id); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log tells\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A model call that was cut off is made again, by any process; one that ended is not.
func TestEffectThatWasCutOffIsTakenBack(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	said := make(chan struct{})
	model := scripted.New(
		scripted.Reply(scripted.Text("one "), scripted.Do(func() { close(said) }), scripted.Gate(make(chan struct{}))),
		scripted.Text("one two"))
	one, two := open(t, st, bot(model), hostedBy(h)), open(t, st, bot(model), hostedBy(h), named("b"))
	start(t, one, "s", "count")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-said
		cancel()
	}()
	_, err := one.ForHost().Effect(ctx, host.EffectPlan, next(h.begun[0], ""))
	wantError(t, err, context.Canceled)
	for _, eng := range []*engine.Engine{two, one, two} {
		carry(t, eng, host.EffectPlan, next(h.begun[0], ""))
	}
	if n := model.Calls(); n != 2 {
		t.Errorf("%d model calls, want 2", n)
	}
	wantSent(t, st, "s", "run_start", "user_message count", "step_start", "text_delta one", "step_discarded",
		"step_start", "text_delta one", "text_delta two")
}

// A tool that was cut off runs again, and the log has its beginning once; one with a result does not.
func TestToolThatWasCutOffRunsAgain(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	runs := 0
	ctx, cancel := context.WithCancel(t.Context())
	once := tool("once", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
		if runs++; runs == 1 {
			cancel()
			return "", ctx.Err()
		}
		return "done", nil
	})
	model := scripted.New(scripted.Call("once", in{}).ID("c1"), scripted.Text("bye"))
	one, two := open(t, st, bot(model, once), hostedBy(h)), open(t, st, bot(model, once), hostedBy(h), named("b"))
	start(t, one, "s", "go")
	b := h.begun[0]
	carry(t, one, host.EffectPlan, next(b, ""))
	_, err := one.ForHost().Effect(ctx, host.EffectTool, next(b, "c1"))
	wantError(t, err, context.Canceled)
	for _, eng := range []*engine.Engine{two, one, two} {
		carry(t, eng, host.EffectTool, next(b, "c1"))
	}
	if runs != 2 {
		t.Errorf("the tool ran %d times, want 2", runs)
	}
	for _, eng := range []*engine.Engine{one, two} {
		if out := carry(t, eng, host.EffectCommit, next(b, "")); out != "{}" {
			t.Errorf("the commit answers %s", out)
		}
	}
	if r := result(t, messages(t, st, "s"), "c1"); string(r.Output) != `"done"` {
		t.Errorf("the result is %s", r.Output)
	}
	wantSent(t, st, "s", "run_start", "user_message go", "step_start", "tool_arg_start c1", "tool_arg_delta c1{\"text\":\"\"}", "tool_arg_end c1",
		"tool_start c1", "tool_end c1", "usage", "step_committed", "checkpoint")
}

// A commit whose answer was lost is answered from the store, and what its process did not publish is published by the
// next one that asks.
func TestCommitWhoseProcessDiedIsAnswered(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	dying := tapOn(st)
	model := scripted.New(scripted.Text("bye"))
	one, two := open(t, dying, bot(model), hostedBy(h)), open(t, st, bot(model), hostedBy(h), named("b"))
	start(t, one, "s", "go")
	carry(t, one, host.EffectPlan, next(h.begun[0], ""))
	dying.stepIn(nil, func(_ context.Context, op string) error {
		if op != "Commit" {
			return nil
		}
		dying.cut()
		return cairn.Errorf(cairn.ErrInternal, "cut off")
	})
	if _, err := one.ForHost().Effect(t.Context(), host.EffectCommit, next(h.begun[0], "")); err == nil {
		t.Fatal("a dead process heard of its commit")
	}
	for range 2 {
		if out := carry(t, two, host.EffectCommit, next(h.begun[0], "")); out != `{"ended":true,"status":"completed"}` {
			t.Errorf("the commit answers %s", out)
		}
	}
	wantSent(t, st, "s", "run_start", "user_message go", "step_start", "text_delta bye", "usage", "step_committed", "checkpoint", "run_end")
}

// A lease that lapsed while no process worked is renewed, unless another process has taken the run over.
func TestLapsedLeaseIsRenewedUnlessTaken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	st, h := memstore.New(&memstore.Options{Now: func() time.Time { return now }}), &byHand{}
	eng := open(t, st, bot(counter(3), note()), hostedBy(h), with(func(o *engine.Options) { o.Now = func() time.Time { return now } }))
	start(t, eng, "s", "go")
	now = now.Add(time.Hour)
	carry(t, eng, host.EffectPlan, next(h.begun[0], ""))
	if row := load(t, st, "s"); !row.Running(now) {
		t.Fatal("the lease was not renewed")
	}
	now = now.Add(time.Hour)
	if _, err := eng.Resume(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if len(h.begun) != 2 || h.begun[1].RunID != h.begun[0].RunID || h.begun[1].Token <= h.begun[0].Token {
		t.Fatalf("the host was given %+v", h.begun)
	}
	_, err := eng.ForHost().Effect(t.Context(), host.EffectCommit, next(h.begun[0], ""))
	wantError(t, err, cairn.ErrFenced)
	status, err := loop.Drive(hand{t, eng}, h.begun[0])
	if status != "" || err != nil {
		t.Errorf("driving a run that was taken over: %q, %v", status, err)
	}
	if status, err = loop.Drive(hand{t, eng}, h.begun[1]); status != cairn.RunCompleted || err != nil {
		t.Errorf("driving the run: %q, %v", status, err)
	}
	wantSound(t, tapOn(st), "s")
}

// hand is a scheduler that carries out effects one after the other.
type hand struct {
	*testing.T
	eng *engine.Engine
}

func (h hand) Do(e host.Effect) error {
	in, err := json.Marshal(e.In)
	if err != nil {
		return err
	}
	out, err := h.eng.ForHost().Effect(h.Context(), e.Name, in)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, e.Out)
}

func (h hand) All(n int, branch func(host.Scheduler, int) error) error {
	var errs []error
	for i := range n {
		errs = append(errs, branch(h, i))
	}
	return errors.Join(errs...)
}

func (h hand) Child(_ host.Call, b host.Run) error {
	_, err := loop.Drive(h, b)
	return err
}

// A child that was begun by an effect whose answer was lost is handed over again, instead of being waited for.
func TestChildIsHandedOverAgain(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("found"))}
	agent := bot(scripted.New(scripted.Call("helper", map[string]string{"input": "look"}), scripted.Text("bye")), cairn.SubAgent(helper))
	eng, other := open(t, st, agent, hostedBy(h)), open(t, st, agent, hostedBy(h), named("b"))
	start(t, eng, "s", "go")
	b := h.begun[0]
	plan := decode[struct{ Children []string }](t, json.RawMessage(carry(t, eng, host.EffectPlan, next(b, ""))))
	first := carry(t, eng, host.EffectChild, next(b, plan.Children[0]))
	if again := carry(t, other, host.EffectChild, next(b, plan.Children[0])); again != first {
		t.Errorf("handed over %s, and again %s", first, again)
	}
	if status, err := loop.Drive(hand{t, other}, b); status != cairn.RunCompleted || err != nil {
		t.Errorf("driving the run: %q, %v", status, err)
	}
	wantSound(t, tapOn(st), "s")
}

// A turn that has begun but that the host could not start is taken over by a worker, at once.
func TestWorkerStartsWhatTheHostCouldNot(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(counter(3), note())
	run := start(t, open(t, st, agent, hostedBy(&byHand{err: errors.New("no such host")})), "s", "go")
	worker := hosttest.Cold.Start(t, st, []*cairn.Agent{agent}, &engine.Options{WorkInterval: 10 * time.Millisecond})
	t.Cleanup(func() { leave(t, worker) })
	defer work(t, worker)()
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	wantSound(t, tapOn(st), "s")
}

// Turns queued behind a hosted run follow it there.
func TestQueueOnAHost(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	gate := make(chan struct{})
	model := scripted.New(scripted.Reply(scripted.Text("one"), scripted.Gate(gate)), scripted.Text("two"))
	eng := hosttest.Cold.Start(t, st, []*cairn.Agent{bot(model)}, &engine.Options{})
	t.Cleanup(func() { leave(t, eng) })
	first := start(t, eng, "s", "first")
	second := start(t, eng, "s", "second", engine.WithOnBusy(engine.BusyEnqueue))
	close(gate)
	wantStatus(t, wait(t, first), cairn.RunCompleted, cairn.ReasonReply)
	if res := wait(t, second); res.Text != "two" {
		t.Errorf("the queued turn says %q", res.Text)
	}
}

func TestEffectMistakes(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	eng := open(t, st, bot(counter(3), note()), hostedBy(h))
	start(t, eng, "s", "go")
	b := h.begun[0]
	unknown, later := b, b
	unknown.Agent = "nobody"
	later.Step = 4
	elsewhere := b
	elsewhere.SessionID = "none"
	for name, c := range map[string]struct {
		effect string
		in     json.RawMessage
		want   error
	}{
		"an unknown effect":    {"dance", next(b, ""), cairn.ErrInvalid},
		"no JSON":              {host.EffectPlan, json.RawMessage("{"), cairn.ErrInvalid},
		"an unknown agent":     {host.EffectPlan, next(unknown, ""), cairn.ErrNotFound},
		"an unknown session":   {host.EffectPlan, next(elsewhere, ""), cairn.ErrNotFound},
		"a step that is ahead": {host.EffectPlan, next(later, ""), cairn.ErrFenced},
		"a tool ahead of time": {host.EffectTool, next(b, "c1"), cairn.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(logged(t, st, "s"))
			_, err := eng.ForHost().Effect(t.Context(), c.effect, c.in)
			wantError(t, err, c.want)
			if after := len(logged(t, st, "s")); after != before {
				t.Errorf("the log has %d more events", after-before)
			}
		})
	}
	_, err := open(t, st, bot(counter(3), note()), named("b")).ForHost().Effect(t.Context(), host.EffectPlan, next(b, ""))
	wantError(t, err, cairn.ErrInvalid)
	leave(t, eng)
	_, err = eng.ForHost().Effect(t.Context(), host.EffectPlan, next(b, ""))
	wantError(t, err, cairn.ErrClosed)
}

// An effect whose commit fails reports why, and can be repeated.
func TestEffectWhoseCommitFails(t *testing.T) {
	t.Parallel()
	st, h := tapOn(nil), &byHand{}
	eng := open(t, st, bot(scripted.New(scripted.Text("done"))), hostedBy(h))
	start(t, eng, "s", "go")
	carry(t, eng, host.EffectPlan, next(h.begun[0], ""))
	full := errors.New("the disk is full")
	st.stepIn(func(_ context.Context, op string) error {
		if op == "Commit" {
			return full
		}
		return nil
	}, nil)
	_, err := eng.ForHost().Effect(t.Context(), host.EffectCommit, next(h.begun[0], ""))
	wantError(t, err, full)
	st.stepIn(nil, nil)
	carry(t, eng, host.EffectCommit, next(h.begun[0], ""))
	wantSound(t, st, "s")
}
