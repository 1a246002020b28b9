package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
)

// Of two attempts at a model call, the second begins before the first has staged its reply. However far the second
// gets, the log has the standing reply for the step, in order.
func TestSecondAttemptBesideAReply(t *testing.T) {
	t.Parallel()
	for _, at := range []secondAttempt{
		{name: "dies behind its discard", dies: cairn.EventStepStart},
		{name: "dies in mid-reply", midReply: true},
		{name: "continues all the time", lives: true},
		{name: "dies as it discards its own reply", adopts: true, dies: cairn.EventStepDiscarded},
		{name: "dies as it publishes the other one", adopts: true, dies: cairn.EventStepStart},
		{name: "is late by a tool", late: 1},
		{name: "is late by the tools", late: 2},
		{name: "is late by a step", late: 3},
		{name: "is late by the next model call", late: 4},
	} {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			at.run(t)
		})
	}
}

// secondAttempt says how far the second attempt at a model call gets.
type secondAttempt struct {
	name     string
	dies     cairn.EventType // before it publishes that: of its own reply or, if it adopts, of the other one
	midReply bool            // dies while the model answers
	lives    bool            // the model answers until the step is committed
	adopts   bool            // it comes to the end of its reply
	late     int             // effects that are carried out before it publishes anything
}

func (at secondAttempt) run(t *testing.T) {
	st, h := tapOn(nil), &byHand{}
	first, second := tapOn(st.Store), tapOn(st.Store)
	staging, stage := make(chan struct{}), make(chan struct{})
	first.stepIn(func(_ context.Context, op string) error {
		if op == "Stage" {
			first.stepIn(nil, nil)
			close(staging)
			<-stage
		}
		return nil
	}, nil)
	said, gate := make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch {
		case len(req.Messages) > 1:
			return scripted.Text("bye")
		case asked.Add(1) == 1:
			return scripted.Reply(scripted.Text("first "), scripted.Call("echo", in{"a"}).ID("c1"), scripted.Call("echo", in{"b"}).ID("c2"))
		}
		return scripted.Reply(scripted.Text("second "), scripted.Do(func() { close(said) }), scripted.Gate(gate), scripted.Call("echo", in{"c"}).ID("c3"))
	})
	agent := bot(model, echo("echo"))
	one, two, three := open(t, first, agent, hostedBy(h)), open(t, second, agent, hostedBy(h), named("b")), open(t, st, agent, hostedBy(h), named("c"))
	start(t, one, "s", "go")
	run := h.begun[0]
	old := overtaken(t, one, host.EffectPlan, run, "")
	<-staging

	ctx, die := context.WithCancel(context.WithoutCancel(t.Context()))
	defer die()
	reached, resume := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	discards := 0
	second.log.stepIn(func(ctx context.Context, list []cairn.Event) error {
		has := func(of cairn.EventType) bool {
			return slices.ContainsFunc(list, func(ev cairn.Event) bool { return ev.Type == of })
		}
		if has(cairn.EventStepDiscarded) {
			if discards++; at.late > 0 && discards == 1 {
				once()
				<-resume
			}
		}
		if at.dies != "" && has(at.dies) && (!at.adopts || discards > 1) {
			die()
			second.cut()
			return ctx.Err()
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := two.ForHost().Effect(ctx, host.EffectPlan, next(run, ""))
		ended <- err
	}()
	switch {
	case at.late > 0:
		<-reached
	case at.dies != "" && !at.adopts:
		wantDead(t, <-ended)
	default:
		<-said
	}
	if at.midReply {
		second.cut()
		die()
		wantDead(t, <-ended)
	}
	close(stage)
	wantError(t, old(), nil)
	if at.adopts {
		close(gate)
		wantDead(t, <-ended)
	}

	later := run
	later.Step++
	effects := []func(){
		func() { insist(t, three, host.EffectTool, run, "c1") },
		func() { insist(t, three, host.EffectTool, run, "c2") },
		func() { insist(t, three, host.EffectCommit, run, "") },
		func() { insist(t, three, host.EffectPlan, later, "") },
		func() { insist(t, three, host.EffectCommit, later, "") },
	}
	for n, effect := range effects {
		if at.late > 0 && at.late == n {
			close(resume)
			close(gate)
			if err := <-ended; err != nil {
				wantError(t, err, cairn.ErrUnavailable)
			}
		}
		effect()
	}
	if at.lives {
		close(gate)
		wantError(t, <-ended, cairn.ErrUnavailable)
	}
	wantSound(t, st, "s")
	if list := messages(t, st.Store, "s"); len(list) != 4 || list[1].Text() != "first " || list[3].Text() != "bye" {
		t.Errorf("the transcript is %d messages: %+v", len(list), list)
	}
	var text string
	for _, ev := range history(t, st, "s") {
		switch ev.Type {
		case cairn.EventStepStart, cairn.EventStepDiscarded:
			text = ""
		case cairn.EventTextDelta:
			text += ev.Text
		case cairn.EventStepCommitted:
			if want := []string{"first ", "bye"}[ev.Step-1]; text != want {
				t.Errorf("step %d is committed with the text %q, want %q", ev.Step, text, want)
			}
		}
	}
	if t.Failed() {
		t.Logf("%q", logged(t, st, "s"))
	}
}

// wantDead fails the test if an effect of a dead process had a result.
func wantDead(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("a dead process carried out its effect")
	}
}

// insist carries out an effect as a host that retries does.
func insist(t *testing.T, eng *engine.Engine, name string, b host.Run, callID string) {
	t.Helper()
	_, err := eng.ForHost().Effect(t.Context(), name, next(b, callID))
	for n := 0; errors.Is(err, cairn.ErrUnavailable) && n < 3; n++ {
		_, err = eng.ForHost().Effect(t.Context(), name, next(b, callID))
	}
	wantError(t, err, nil)
}
