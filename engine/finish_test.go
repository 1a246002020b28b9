package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// guardedBy returns an agent whose completions of some kind are judged by guard.
func guardedBy(kind cairn.Reason, guard cairn.Guard) *cairn.Agent {
	var agent *cairn.Agent
	switch kind {
	case cairn.ReasonReply:
		agent = bot(scripted.New(scripted.Text("no"), scripted.Text("yes")))
	case cairn.ReasonFinish:
		agent = bot(scripted.New(scripted.Call(cairn.FinishTool, verdict{"no"}), scripted.Call(cairn.FinishTool, verdict{"yes"})))
		agent.Output = cairn.OutputOf[verdict]()
	case cairn.ReasonFinishTool:
		decide := cairn.Func("decide", "Decides.", func(_ context.Context, _ *cairn.Call, v verdict) (verdict, error) { return v, nil }, cairn.FinishWith())
		agent = bot(scripted.New(scripted.Call("decide", verdict{"no"}), scripted.Call("decide", verdict{"yes"})), decide)
		agent.Output = cairn.OutputOf[verdict]()
	case cairn.ReasonStopCondition:
		agent = bot(scripted.New(scripted.Reply(scripted.Text("no"), scripted.Call("note", in{"x"})), scripted.Reply(scripted.Text("yes"), scripted.Call("note", in{"x"}))), note())
		agent.StopWhen = func(context.Context, *cairn.Step) bool { return true }
	}
	agent.Guard = guard
	return agent
}

// what returns what a completion says, "yes" or "no".
func what(c cairn.Completion) string {
	if c.Output != nil {
		var v verdict
		_ = json.Unmarshal(c.Output, &v)
		return v.Verdict
	}
	return c.Text
}

type verdict struct {
	Verdict string `json:"verdict" schema:"enum=yes|no"`
}

func TestGuardDecidesAboutWhatEndsATurn(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad taste")
	guards := map[string]struct {
		guard  cairn.Guard
		steps  int
		code   cairn.Code // of the run's error
		output string
	}{
		"accepts": {func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
			return cairn.Accept(), nil
		}, 1, "", "no"},
		"sends back": {func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
			if what(c) == "no" {
				return cairn.SendBack("not no"), nil
			}
			return cairn.Accept(), nil
		}, 2, "", "yes"},
		"rejects": {func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
			return cairn.Fail(bad), nil
		}, 1, cairn.ErrRejected, ""},
		"fails": {func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
			return cairn.Accept(), bad
		}, 1, cairn.ErrRejected, ""},
		"panics": {func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) { panic(bad) }, 1, cairn.ErrRejected, ""},
		"replaces": {func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
			if c.Output == nil {
				return cairn.Verdict{Text: "yes"}, nil
			}
			return cairn.Verdict{Output: json.RawMessage(`{"verdict":"yes"}`)}, nil
		}, 1, "", "yes"},
		"replaces with what is not JSON": {func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
			return cairn.Verdict{Output: json.RawMessage(`{"verdict":`)}, nil
		}, 1, cairn.ErrRejected, ""},
	}
	for name, g := range guards {
		for _, kind := range []cairn.Reason{cairn.ReasonReply, cairn.ReasonFinish, cairn.ReasonFinishTool, cairn.ReasonStopCondition} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				st := tapOn(nil)
				res := turn(t, open(t, st, guardedBy(kind, g.guard)), "s", "go")
				if res.Steps != g.steps {
					t.Errorf("%d steps, want %d", res.Steps, g.steps)
				}
				if g.code != "" {
					wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
					if res.Error.Code != g.code {
						t.Errorf("error %s: %v", res.Error.Code, res.Error)
					}
					if strings.HasPrefix(name, "rejects") && !strings.Contains(res.Error.Message, "bad taste") {
						t.Errorf("error %v does not say why", res.Error)
					}
				} else {
					wantStatus(t, res, cairn.RunCompleted, kind)
					if got := what(cairn.Completion{Text: res.Text, Output: res.Output}); got != g.output {
						t.Errorf("came to %q, want %q", got, g.output)
					}
				}
				wantSound(t, st, "s")
			})
		}
	}
}

func TestGuardSeesTheStateThatTheStepLeaves(t *testing.T) {
	t.Parallel()
	agent := bot(scripted.New(scripted.Reply(scripted.Call("note", in{"x"}), scripted.Call(cairn.FinishTool, verdict{"yes"}))), note())
	agent.Output = cairn.OutputOf[verdict]()
	saw := ""
	agent.Guard = func(_ context.Context, step *cairn.Step, _ cairn.Completion) (cairn.Verdict, error) {
		s, err := cairn.State[map[string]any](step)
		saw = fmt.Sprint(s["notes"])
		if step.Set([]string{"x"}, 1) == nil {
			t.Error("a guard could write state")
		}
		return cairn.Accept(), err
	}
	turn(t, open(t, tapOn(nil), agent), "s", "go")
	if saw != "[x]" {
		t.Errorf("the guard saw notes %s, want those of the sibling call", saw)
	}
}

func TestFinishedTurnRefusesOutputThatViolatesItsSchema(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	decide := tool("decide", func(_ context.Context, _ *cairn.Call, in in) (string, error) { return in.Text, nil }, cairn.FinishWith())
	agent := bot(scripted.New(scripted.Call("decide", in{"a string is no verdict"}).ID("c1"), scripted.Call(cairn.FinishTool, verdict{"yes"})), decide)
	agent.Output = cairn.OutputOf[verdict]()
	res := turn(t, open(t, st, agent), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonFinish)
	if v, err := cairn.OutputAs[verdict](res); err != nil || v.Verdict != "yes" {
		t.Errorf("output %+v, %v", v, err)
	}
	if r := result(t, messages(t, st, "s"), "c1"); r.Code != cairn.ErrOutput {
		t.Errorf("result %s (%s)", r.Output, r.Code)
	}
}

func TestFailedFinishToolDoesNotEndTheTurn(t *testing.T) {
	t.Parallel()
	tries := 0
	finish := tool("finish", func(context.Context, *cairn.Call, in) (string, error) {
		if tries++; tries == 1 {
			return "", errors.New("not yet")
		}
		return "now", nil
	}, cairn.FinishWith())
	res := turn(t, open(t, tapOn(nil), bot(scripted.New(scripted.Call("finish", in{}), scripted.Call("finish", in{})), finish)), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonFinishTool)
	if res.Steps != 2 || string(res.Output) != `"now"` {
		t.Errorf("outcome %+v", res)
	}
}

func TestAgentWithOutputIsMadeToFinishWithItsLastStep(t *testing.T) {
	t.Parallel()
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Choice.Tool == cairn.FinishTool {
			return scripted.Call(cairn.FinishTool, verdict{"yes"})
		}
		return scripted.Call("note", in{"x"})
	})
	agent := bot(model, note())
	agent.Output, agent.MaxSteps = cairn.OutputOf[verdict](), 3
	res := turn(t, open(t, tapOn(nil), agent), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonFinish)
	if res.Steps != 3 {
		t.Errorf("%d steps", res.Steps)
	}
}

func TestDefaultStepLimitIsFifty(t *testing.T) {
	t.Parallel()
	eng := open(t, tapOn(nil), bot(counter(100), note()))
	res := turn(t, eng, "s", "go")
	wantError(t, res.Error, cairn.ErrMaxSteps)
	if res.Steps != 50 {
		t.Errorf("%d steps", res.Steps)
	}
	again, err := eng.Retry(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if res := wait(t, again); res.Status != cairn.RunCompleted || res.Steps != 50 || res.Turn != 2 {
		t.Errorf("retry: %+v", res)
	}
}

func TestStopConditionEndsTheTurn(t *testing.T) {
	t.Parallel()
	agent := bot(counter(10), note())
	agent.StopWhen = func(_ context.Context, step *cairn.Step) bool {
		s, _ := cairn.State[map[string][]string](step)
		return len(s["notes"]) == 3
	}
	st := tapOn(nil)
	res := turn(t, open(t, st, agent), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonStopCondition)
	if res.Steps != 3 {
		t.Errorf("%d steps", res.Steps)
	}
	wantSound(t, st, "s")
}

// The model must still deliver what it owes: the stop condition ends the work, not the turn.
func TestStopConditionLeavesATypedAgentToFinish(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		for _, obeys := range []bool{true, false} {
			t.Run(fmt.Sprint(d, " obeys ", obeys), func(t *testing.T) {
				t.Parallel()
				st := tapOn(nil)
				refused, free := false, 0
				model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					switch {
					case req.Choice.Tool != cairn.FinishTool:
						free++
						return scripted.Call("note", in{"x"})
					case !obeys && !refused:
						refused = true
						return scripted.Text("I would rather not")
					}
					return scripted.Call(cairn.FinishTool, verdict{"yes"})
				})
				agent := bot(model, note())
				agent.Output, agent.Durability = cairn.OutputOf[verdict](), d
				agent.StopWhen = func(_ context.Context, step *cairn.Step) bool {
					s, _ := cairn.State[map[string][]string](step)
					return len(s["notes"]) >= 2
				}
				var judged []cairn.Reason
				agent.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
					judged = append(judged, c.Reason)
					return cairn.Accept(), nil
				}
				res := turn(t, open(t, st, agent), "s", "go")
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonFinish)
				if v, err := cairn.OutputAs[verdict](res); err != nil || v.Verdict != "yes" {
					t.Errorf("output %+v, %v", v, err)
				}
				if free != 2 {
					t.Errorf("the model had a choice %d times", free)
				}
				if len(judged) != 1 || judged[0] != cairn.ReasonFinish {
					t.Errorf("the guard judged %v", judged)
				}
				wantSound(t, st, "s")
			})
		}
	}
}

func TestStopConditionThatPanicsDoesNotHold(t *testing.T) {
	t.Parallel()
	agent := bot(counter(3), note())
	agent.StopWhen = func(context.Context, *cairn.Step) bool { panic("boom") }
	wantStatus(t, turn(t, open(t, tapOn(nil), agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
}

func TestRunStartStateIsInTheFirstStepsCommit(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.New(scripted.Text("ok")))
	hook := func(who string) *cairn.Hooks {
		return &cairn.Hooks{
			RunStart: func(_ context.Context, s *cairn.Step) { _ = s.Append([]string{"start"}, who) },
			AfterModel: func(_ context.Context, s *cairn.Step, _ *cairn.Message, _ cairn.Usage) {
				_ = s.Append([]string{"model"}, who)
			},
			OnMessage: func(_ context.Context, s *cairn.Step, _ *cairn.Message) { _ = s.Append([]string{"message"}, who) },
			RunComplete: func(_ context.Context, s *cairn.Step, _ *cairn.Result) {
				if s.Append([]string{"late"}, who) == nil {
					t.Error("RunComplete could write state")
				}
			},
		}
	}
	agent.Hooks = hook("agent")
	eng := open(t, st, agent, with(func(o *engine.Options) { o.Hooks = []*cairn.Hooks{hook("engine")} }))
	turn(t, eng, "s", "go", engine.WithHooks(hook("call")))
	want := `{"message":["engine","agent","call"],"model":["engine","agent","call"],"start":["engine","agent","call"]}`
	if got := state(t, st, "s"); got != want {
		t.Errorf("state %s, want %s", got, want)
	}
	if calls := st.seen(); len(calls) != 3+1 { // and the State above
		t.Errorf("store calls %v", calls)
	}
}
