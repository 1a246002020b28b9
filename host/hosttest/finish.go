package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// endings are scenarios of turns that were suspended before they ended.
var endings = []scenario{
	{"output-waiting", (*scene).outputWaiting},
	{"guard-waiting", (*scene).guardWaiting},
	{"guard-rejects", (*scene).guardRejects},
	{"guarded-finish-waiting", (*scene).guardedFinishWaiting},
	{"stop-condition-waiting", (*scene).stopConditionWaiting},
	{"forced-finish", (*scene).forcedFinish},
	{"forced-finish-waiting", (*scene).forcedFinishWaiting},
	{"forced-finish-ignored", (*scene).forcedFinishIgnored},
}

// A turn that was suspended must still end with its typed output.
func (s *scene) outputWaiting() {
	a := bot(plays(
		asks("c1", "refund", "42"), scripted.Text("I think yes."), scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c2")),
		s.refund())
	a.Output = cairn.OutputOf[verdict]()
	s.agents = []*cairn.Agent{a}
	one, two := s.process(), s.process()
	one.turn("s", "may I?")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	res := two.resume("s")
	out, err := cairn.OutputAs[verdict](res)
	s.must(err)
	s.say("the verdict: %s", out.Verdict)
}

// The guard sends the model back. The model asks once more, and the guard accepts.
func (s *scene) guardWaiting() {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "refund", "1"), scripted.Text("Paid."), asks("c2", "refund", "2"), scripted.Text("Paid both.")), s.refund())}
	s.agents[0].Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		if c.Text == "Paid." {
			return cairn.SendBack("Pay both."), nil
		}
		return cairn.Verdict{Text: "Both were paid."}, nil
	}
	one, two := s.process(), s.process()
	one.turn("s", "pay")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
}

// The guard fails the turn. A retry consults the guard again.
func (s *scene) guardRejects() {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "refund", "42"), scripted.Text("So what."), scripted.Text("I am sorry.")), s.refund())}
	s.agents[0].Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		if strings.HasPrefix(c.Text, "So") {
			return cairn.Fail(errors.New("bad manners")), nil
		}
		return cairn.Accept(), nil
	}
	one, two := s.process(), s.process()
	one.turn("s", "pay")
	one.submit("s", cairn.Deny(s.open("s", "refund"), "no"), cairn.OutcomeAccepted)
	one.resume("s")
	two.retry("s")
}

// A tool that would end the turn runs once its sibling is approved. The guard sees both results and sends the model
// back.
func (s *scene) guardedFinishWaiting() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "close", "early"), asks("c2", "note", "a"), asks("c3", "refund", "42")), asks("c4", "close", "late")),
		s.note(), s.refund(), s.closing())}
	s.agents[0].Guard = func(_ context.Context, step *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		state, err := cairn.State[struct {
			Refunds []string `json:"refunds"`
		}](step)
		s.say("the guard sees %q, refunds %v", c.Text+string(c.Output), state.Refunds)
		if strings.Contains(c.Text+string(c.Output), "early") {
			return cairn.SendBack("too early"), err
		}
		return cairn.Accept(), err
	}
	one, two := s.process(), s.process()
	one.turn("s", "close it")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// The stop condition is evaluated once the suspended step is complete.
func (s *scene) stopConditionWaiting() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "note", "a"), asks("c2", "refund", "42")), scripted.Text("never said")), s.note(), s.refund())}
	s.agents[0].StopWhen = func(_ context.Context, step *cairn.Step) bool {
		state, err := cairn.State[struct {
			Refunds []string `json:"refunds"`
		}](step)
		return err == nil && len(state.Refunds) > 0
	}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// pressed sets an agent with a typed output and two steps. It does not finish until it must call FinishTool.
func (s *scene) pressed(last scripted.Step, tools ...cairn.Tool) {
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Choice.Tool == cairn.FinishTool {
			return last
		}
		return asks("c1", tools[0].Name(), "n")
	}), tools...)
	a.Output, a.MaxSteps = cairn.OutputOf[verdict](), 2
	s.agents = []*cairn.Agent{a}
}

// In its last step the agent must produce its output.
func (s *scene) forcedFinish() {
	s.pressed(scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c9"), s.note())
	s.process().turn("s", "yes or no?")
}

// The step counter starts anew when the session is resumed.
func (s *scene) forcedFinishWaiting() {
	s.pressed(scripted.Call(cairn.FinishTool, json.RawMessage(`{"verdict":"no"}`)).ID("c9"), s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "yes or no?")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// A model that does not finish even then fails the turn. A retry has the full number of steps again.
func (s *scene) forcedFinishIgnored() {
	s.pressed(scripted.Text("I cannot say."), s.note())
	one, two := s.process(), s.process()
	one.turn("s", "yes or no?")
	two.retry("s")
}
