package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// overtaken carries out an effect that the host takes for dead, but that continues. done waits for its end.
func overtaken(t *testing.T, eng *engine.Engine, name string, b host.Run, callID string) (done func() error) {
	ended := make(chan error, 1)
	in := next(b, callID)
	go func() {
		_, err := eng.ForHost().Effect(context.WithoutCancel(t.Context()), name, in)
		ended <- err
	}()
	return func() error { return <-ended }
}

// A model call that was abandoned too early writes nothing next to the call that replaced it.
func TestModelCallAbandonedTooEarly(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	said, gate := make(chan struct{}), make(chan struct{})
	model := scripted.New(
		scripted.Reply(scripted.Text("well "), scripted.Do(func() { close(said) }), scripted.Gate(gate), scripted.Text("well "), scripted.Text("well")),
		scripted.Text("bye"))
	one, two := open(t, st, bot(model), hostedBy(h)), open(t, st, bot(model), hostedBy(h), named("b"))
	start(t, one, "s", "go")
	old := overtaken(t, one, host.EffectPlan, h.begun[0], "")
	<-said
	carry(t, two, host.EffectPlan, next(h.begun[0], ""))
	close(gate)
	wantError(t, old(), cairn.ErrUnavailable)
	carry(t, two, host.EffectCommit, next(h.begun[0], ""))
	wantSent(t, st, "s", "run_start", "user_message go", "step_start", "text_delta well", "step_discarded",
		"step_start", "text_delta bye", "usage", "step_committed", "checkpoint", "run_end")
}

// Of two replies, the one that was staged first is the step's, whichever attempt produced it.
func TestReplyStagedFirstStands(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	slow := tapOn(st)
	streamed, stage := make(chan struct{}), make(chan struct{})
	slow.stepIn(func(_ context.Context, op string) error {
		if op == "Stage" {
			close(streamed)
			<-stage
		}
		return nil
	}, nil)
	said, gate := make(chan struct{}), make(chan struct{})
	model := scripted.New(scripted.Text("first"),
		scripted.Reply(scripted.Text("sec"), scripted.Do(func() { close(said) }), scripted.Gate(gate), scripted.Text("ond")))
	one, two := open(t, slow, bot(model), hostedBy(h)), open(t, st, bot(model), hostedBy(h), named("b"))
	start(t, one, "s", "go")
	old := overtaken(t, one, host.EffectPlan, h.begun[0], "")
	<-streamed
	again := overtaken(t, two, host.EffectPlan, h.begun[0], "")
	<-said
	close(stage)
	wantError(t, old(), nil)
	close(gate)
	wantError(t, again(), nil)
	carry(t, two, host.EffectCommit, next(h.begun[0], ""))
	if run := runsOf(t, st, "s")[0]; run.Text != "first" {
		t.Errorf("the run says %q", run.Text)
	}
	wantSent(t, st, "s", "run_start", "user_message go", "step_start", "text_delta first", "step_discarded", "step_start", "text_delta sec", "text_delta ond",
		"step_discarded", "step_start", "text_delta first", "usage", "step_committed", "checkpoint", "run_end")
}

// A tool that was abandoned too early is published once, with the result that counts: the one that was staged first.
func TestToolAbandonedTooEarly(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"it comes first": true, "it comes last": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, h := memstore.New(nil), &byHand{}
			dying := tapOn(st)
			runs := make(chan chan string)
			wait := tool("wait", func(context.Context, *cairn.Call, in) (string, error) {
				answer := make(chan string)
				runs <- answer
				return <-answer, nil
			})
			model := scripted.New(scripted.Call("wait", in{}).ID("c1"), scripted.Text("bye"))
			one, two := open(t, dying, bot(model, wait), hostedBy(h)), open(t, st, bot(model, wait), hostedBy(h), named("b"))
			start(t, one, "s", "go")
			b := h.begun[0]
			carry(t, one, host.EffectPlan, next(b, ""))
			old := overtaken(t, one, host.EffectTool, b, "c1")
			given := <-runs
			again := overtaken(t, two, host.EffectTool, b, "c1")
			taken := <-runs
			want := `"new"`
			if first {
				want = `"old"`
				dying.stepIn(nil, func(_ context.Context, op string) error {
					if op == "Stage" {
						dying.cut() // dies before it publishes
					}
					return nil
				})
				given <- "old"
				if old() == nil {
					t.Fatal("a dead process told of its result")
				}
			}
			taken <- "new"
			wantError(t, again(), nil)
			carry(t, two, host.EffectCommit, next(b, ""))
			if !first {
				given <- "old"
				wantError(t, old(), cairn.ErrUnavailable)
			}
			if r := result(t, messages(t, st, "s"), "c1"); string(r.Output) != want {
				t.Errorf("the result is %s, want %s", r.Output, want)
			}
			for _, ev := range history(t, st, "s") {
				if ev.Type == cairn.EventToolEnd && string(ev.Data) != want {
					t.Errorf("the log tells %s", ev.Data)
				}
			}
			wantSent(t, st, "s", "run_start", "user_message go", "step_start", "tool_arg_start c1", "tool_arg_delta c1{\"text\":\"\"}", "tool_arg_end c1",
				"tool_start c1", "tool_end c1", "usage", "step_committed", "checkpoint")
		})
	}
}

// A tool that was abandoned before it published anything is published whole by the attempt that finds its result.
func TestToolAbandonedBeforeItHasPublished(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	slow := tapOn(st)
	staged, live := make(chan struct{}), make(chan struct{})
	stages := 0
	slow.stepIn(nil, func(_ context.Context, op string) error {
		if op == "Stage" {
			if stages++; stages == 2 { // the result, behind the call's beginning
				close(staged)
				<-live
			}
		}
		return nil
	})
	agent := bot(scripted.New(scripted.Call("echo", in{"x"}).ID("c1"), scripted.Text("bye")), echo("echo"))
	one := open(t, slow, agent, hostedBy(h), with(func(o *engine.Options) { o.Coalesce = time.Hour }))
	two := open(t, st, agent, hostedBy(h), named("b"))
	start(t, two, "s", "go")
	b := h.begun[0]
	carry(t, two, host.EffectPlan, next(b, ""))
	old := overtaken(t, one, host.EffectTool, b, "c1")
	<-staged
	carry(t, two, host.EffectTool, next(b, "c1"))
	close(live)
	wantError(t, old(), nil)
	carry(t, two, host.EffectCommit, next(b, ""))
	wantSent(t, st, "s", "run_start", "user_message go", "step_start", "tool_arg_start c1", "tool_arg_delta c1{\"text\":\"x\"}", "tool_arg_end c1",
		"tool_start c1", "tool_end c1", "usage", "step_committed", "checkpoint")
}

// A commit that was abandoned too early is published once, though the next effect was faster.
func TestCommitAbandonedTooEarly(t *testing.T) {
	t.Parallel()
	st, h := memstore.New(nil), &byHand{}
	slow := tapOn(st)
	one, two := open(t, slow, bot(counter(3), note()), hostedBy(h)), open(t, st, bot(counter(3), note()), hostedBy(h), named("b"))
	start(t, one, "s", "go")
	b := h.begun[0]
	plan := decode[struct{ Parallel []string }](t, []byte(carry(t, one, host.EffectPlan, next(b, ""))))
	carry(t, one, host.EffectTool, next(b, plan.Parallel[0]))
	committed, tell := make(chan struct{}), make(chan struct{})
	slow.stepIn(nil, func(_ context.Context, op string) error {
		if op == "Commit" {
			close(committed)
			<-tell
		}
		return nil
	})
	old := overtaken(t, one, host.EffectCommit, b, "")
	<-committed
	slow.stepIn(nil, nil)
	if out := carry(t, two, host.EffectCommit, next(b, "")); out != "{}" {
		t.Errorf("the commit answers %s", out)
	}
	after := b
	after.Step++
	carry(t, two, host.EffectPlan, next(after, ""))
	close(tell)
	wantError(t, old(), nil)
	n := 0
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventStepCommitted {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the step is committed %d times: %q", n, logged(t, st, "s"))
	}
}

// An attempt finds that the run has ended, and dies before it brings the end to a log elsewhere. The attempt that ended
// the run does so.
func TestEndIsPublishedBesideAnAttemptThatDies(t *testing.T) {
	t.Parallel()
	st, h := separated(), &byHand{}
	slow, dying := st.twin(), st.twin()
	ended, live, once := make(chan struct{}), make(chan struct{}), sync.Once{}
	slow.stepIn(nil, func(_ context.Context, op string) error {
		if op == "Commit" {
			once.Do(func() { close(ended) })
			<-live
		}
		return nil
	})
	dying.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.ErrInternal, "it dies") })
	agent := bot(scripted.New(scripted.Text("bye")))
	one, two, three := open(t, slow, agent, hostedBy(h)), open(t, dying, agent, hostedBy(h), named("b")), open(t, st, agent, hostedBy(h), named("c"))
	start(t, three, "s", "go")
	b := h.begun[0]
	carry(t, three, host.EffectPlan, next(b, ""))
	old := overtaken(t, one, host.EffectCommit, b, "")
	<-ended
	_ = overtaken(t, two, host.EffectCommit, b, "")()
	if slices.Contains(logged(t, st, "s"), "run_end") {
		t.Fatal("the second attempt has published the end")
	}
	close(live)
	wantError(t, old(), nil)
	wantSent(t, st, "s", "run_start", "user_message go", "step_start", "text_delta bye", "usage", "step_committed", "checkpoint", "run_end")
}
