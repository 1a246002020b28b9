package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// unruly are scenarios of agents whose user code misbehaves, and of guards that decide about all ways to end a
// turn.
var unruly = []scenario{
	{"unruly-tools", (*scene).unrulyTools},
	{"unruly-hooks", (*scene).unrulyHooks},
	{"unruly-guard", (*scene).unrulyGuard},
	{"unruly-model", (*scene).unrulyModel},
	{"unruly-condition", (*scene).unrulyCondition},
	{"judged-once", (*scene).judgedOnce},
	{"guard-stop-condition", (*scene).guardStopCondition},
	{"stop-condition-output", (*scene).stopConditionOutput},
}

// apiError is an error type whose nil pointer panics when it is used.
type apiError struct{ status int }

func (e *apiError) Error() string { return fmt.Sprint("status ", e.status) }

// hostile is a value that panics however it is inspected.
type hostile struct{}

func (hostile) Error() string          { panic(hostile{}) }
func (hostile) String() string         { panic(hostile{}) }
func (hostile) Format(fmt.State, rune) { panic(hostile{}) }
func (hostile) Is(error) bool          { panic("is") }
func (hostile) Unwrap() error          { panic("unwrap") }

// misdeeds are the ways in which user code misbehaves, in the order in which a scene uses them.
var misdeeds = []func() error{
	func() error { var e *apiError; return e },
	func() error { return hostile{} },
	func() error { panic("boom") },
	func() error { panic(hostile{}) },
	func() error { runtime.Goexit(); return nil },
}

// neighbour makes another agent of the same process take a turn, and fails the scene if the turn does not complete.
func (s *scene) neighbour(p *process) {
	s.Helper()
	run, err := p.Execute(s.Context(), "neighbour", "helper", cairn.Text("go"))
	s.must(err)
	if res := s.outcome(run); res.Status != cairn.RunCompleted {
		s.Fatalf("the neighbour's turn is %s: %v", res.Status, res.Error)
	}
}

// unrulyAgents sets the bot and a second agent, and starts a process for both.
func (s *scene) unrulyAgents(a *cairn.Agent) *process {
	s.agents = []*cairn.Agent{a, agent("helper", scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("Fine.") }))}
	return s.process()
}

// Any error, panic or exit of a tool becomes an error for the model.
func (s *scene) unrulyTools() {
	var steps []scripted.Step
	for i := range misdeeds {
		steps = append(steps, asks(fmt.Sprint("c", i+1), "misbehave", fmt.Sprint(i)))
	}
	p := s.unrulyAgents(bot(plays(append(steps, scripted.Text("What a day."))...),
		cairn.Func("misbehave", "Misbehaves.", func(_ context.Context, _ *cairn.Call, in words) (string, error) {
			i, err := strconv.Atoi(in.Text)
			if err != nil {
				return "", err
			}
			s.count("misbehave")
			return "ok", misdeeds[i]()
		})))
	p.turn("s", "misbehave")
	s.neighbour(p)
}

// Hooks without a veto change nothing. BeforeTool has a veto.
func (s *scene) unrulyHooks() {
	a := bot(plays(asks("c1", "note", "1"), asks("c2", "note", "2"), asks("c3", "note", "3"), asks("c4", "note", "4"), scripted.Text("Enough.")), s.note())
	var n [3]atomic.Int64
	next := func(i int) error { return misdeeds[int(n[i].Add(1))%len(misdeeds)]() }
	a.Hooks = &cairn.Hooks{
		RunStart:    func(context.Context, *cairn.Step) { runtime.Goexit() },
		RunComplete: func(context.Context, *cairn.Step, *cairn.Result) { panic(hostile{}) },
		AfterModel:  func(context.Context, *cairn.Step, *cairn.Message, cairn.Usage) { _ = next(0) },
		TextDelta:   func(context.Context, *cairn.Step, string) { runtime.Goexit() },
		OnMessage:   func(context.Context, *cairn.Step, *cairn.Message) { _ = next(1) },
		AfterTool:   func(context.Context, *cairn.Call, *cairn.ToolResult) { _ = next(2) },
		BeforeTool: func(_ context.Context, call *cairn.Call) error {
			switch call.ID {
			case "c1":
				return misdeeds[0]()
			case "c2":
				runtime.Goexit()
			case "c3":
				panic(hostile{})
			}
			return nil
		},
	}
	p := s.unrulyAgents(a)
	p.turn("s", "go")
	s.neighbour(p)
}

// A guard that cannot decide fails the run. A retry consults it again.
func (s *scene) unrulyGuard() {
	a := bot(plays(scripted.Text("one"), scripted.Text("two"), scripted.Text("three"), scripted.Text("four"), scripted.Text("five"), scripted.Text("six")))
	a.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		if i := strings.Index("one two three four five", c.Text); i >= 0 {
			return cairn.Accept(), misdeeds[strings.Count("one two three four five"[:i], " ")]()
		}
		return cairn.Accept(), nil
	}
	p := s.unrulyAgents(a)
	p.turn("s", "go")
	for range misdeeds {
		p.retry("s")
	}
	s.neighbour(p)
}

// A model that ends its goroutine fails the run. The session does not stay active.
func (s *scene) unrulyModel() {
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch said := req.Messages[len(req.Messages)-1].Text(); said {
		case "leave":
			return scripted.Reply(scripted.Text("well"), scripted.Do(runtime.Goexit))
		case "panic":
			return scripted.Reply(scripted.Text("well"), scripted.Do(func() { panic(hostile{}) }))
		case "fail":
			return scripted.Do(func() { _ = misdeeds[0]().Error() })
		}
		return scripted.Text("Here I am.")
	}))
	p := s.unrulyAgents(a)
	for _, word := range []string{"leave", "panic", "fail", "hello"} {
		p.turn("s", word)
	}
	s.neighbour(p)
}

// A stop condition that fails counts as false.
func (s *scene) unrulyCondition() {
	a := bot(plays(asks("c1", "note", "1"), asks("c2", "note", "2"), asks("c3", "note", "3"), scripted.Text("Enough.")), s.note())
	a.StopWhen = func(_ context.Context, step *cairn.Step) bool {
		state, _ := cairn.State[struct {
			Notes []string `json:"notes"`
		}](step)
		return misdeeds[2+len(state.Notes)%3]() == nil
	}
	p := s.unrulyAgents(a)
	p.turn("s", "go")
	s.neighbour(p)
}

// User code at a step's end runs once, whatever happens to the write that follows. Here the store is unavailable
// for a moment.
func (s *scene) judgedOnce() {
	a := bot(plays(asks("c1", "note", "1"), scripted.Text("no"), scripted.Text("yes")), s.note())
	a.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		s.count("the guard of " + c.Text)
		if c.Text == "no" {
			return cairn.SendBack("Say yes."), nil
		}
		return cairn.Accept(), nil
	}
	a.StopWhen = func(context.Context, *cairn.Step) bool { s.count("the stop condition"); return false }
	a.Hooks = &cairn.Hooks{OnMessage: func(_ context.Context, step *cairn.Step, _ *cairn.Message) {
		if err := step.Append([]string{"heard"}, step.Number); err != nil {
			s.Error(err)
		}
	}}
	s.agents = []*cairn.Agent{a}
	p := s.process()
	var tries atomic.Int64
	p.tap.watch(func(o operation) error {
		if o.name == "Commit" && o.commit.StartRun == nil && tries.Add(1)%2 == 1 {
			return cairn.Errorf(cairn.ErrUnavailable, "away for a moment")
		}
		return nil
	}, nil)
	p.turn("s", "go")
}

// The guard decides about a stop condition as about any other end of a turn.
func (s *scene) guardStopCondition() {
	a := bot(plays(scripted.Reply(scripted.Text("One."), asks("c1", "note", "1")), scripted.Reply(scripted.Text("Two."), asks("c2", "note", "2"))), s.note())
	a.StopWhen = func(context.Context, *cairn.Step) bool { return true }
	a.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		s.say("the guard judges %q, a %s", c.Text, c.Reason)
		if c.Text == "One." {
			return cairn.SendBack("One is not enough."), nil
		}
		return cairn.Verdict{Text: "Two it is."}, nil
	}
	s.agents = []*cairn.Agent{a}
	s.process().turn("s", "count")
}

// An agent with a typed output must produce it when its stop condition holds.
func (s *scene) stopConditionOutput() {
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Choice.Tool == cairn.FinishTool {
			return scripted.Call(cairn.FinishTool, json.RawMessage(`{"verdict":"yes"}`)).ID("c9")
		}
		return asks(fmt.Sprint("c", replies(req)+1), "note", "n")
	}), s.note())
	a.Output = cairn.OutputOf[verdict]()
	a.StopWhen = func(_ context.Context, step *cairn.Step) bool { return step.Number == 2 }
	s.agents = []*cairn.Agent{a}
	one := s.process()
	out, err := cairn.OutputAs[verdict](one.turn("s", "yes or no?"))
	s.must(err)
	s.say("the verdict: %s", out.Verdict)
}
