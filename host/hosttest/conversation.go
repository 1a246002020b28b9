package hosttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// conversations are scenarios without people other than the user.
var conversations = []scenario{
	{"hooks", (*scene).hooks},
	{"phases", (*scene).phases},
	{"tool-failures", (*scene).toolFailures},
	{"guarded-output", (*scene).guardedOutput},
	{"retries", (*scene).retries},
	{"step-limit", (*scene).stepLimit},
	{"stops", (*scene).stopped},
	{"cut-calls", (*scene).cutCalls},
	{"cut-too-often", (*scene).cutTooOften},
}

func (s *scene) hooks() {
	a := bot(plays(
		scripted.Reply(scripted.Thinking("hm so"), scripted.Text("I note. "), asks("c1", "note", "one")).Usage(5, 6),
		scripted.Text("Good bye."),
		scripted.Text("Hello again.")), s.note())
	a.Hooks = s.diary.hooks("agent", always)
	s.agents = []*cairn.Agent{a}
	p := s.process(func(o *engine.Options) { o.Hooks = []*cairn.Hooks{s.diary.hooks("engine", always)} })
	for _, text := range []string{"note one", "and again"} {
		p.turn("s", text, engine.WithHooks(s.diary.hooks("call", always)))
	}
}

func always() bool { return true }

func (s *scene) phases() {
	look := s.tool("look", func(_ context.Context, call *cairn.Call, _ words) (string, error) {
		raw, err := cairn.State[map[string]any](call)
		return fmt.Sprint(raw["notes"]), err
	})
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "close", "closed"), asks("c2", "note", "a"), asks("c3", "look", ""), asks("c4", "note", "b"),
			asks("c5", "close", "twice"))), s.note(), look, s.closing())}
	s.process().turn("s", "close it")
}

// closing is a tool that ends the turn, and sees the notes of the calls before it.
func (s *scene) closing() cairn.Tool {
	return s.tool("close", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		raw, err := cairn.State[map[string]any](call)
		return fmt.Sprint(in.Text, " after ", raw["notes"]), err
	}, cairn.FinishWith())
}

func (s *scene) toolFailures() {
	explode := s.tool("explode", func(context.Context, *cairn.Call, words) (string, error) { panic("boom") })
	refuse := s.tool("refuse", func(context.Context, *cairn.Call, words) (string, error) { return "", errors.New("not today") })
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "nothing", "x"), scripted.Call("note", map[string]int{"text": 1, "more": 2}).ID("c2"),
			scripted.Call("note", `{"text": "cut o`).ID("c3"), asks("c4", "explode", "x"), asks("c5", "refuse", "x")),
		scripted.Text("I give up.")), s.note(), explode, refuse)}
	s.process().turn("s", "try all")
}

// The output limit cuts the second of two calls. The first one runs, and the model reads why the second did not.
func (s *scene) cutCalls() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "note", "a"), scripted.Call("note", `{"text":"a long te`).ID("c2")).FinishReason(cairn.FinishReasonLength),
		asks("c3", "note", "b"), scripted.Text("Done.")), s.note())}
	s.process().turn("s", "go")
}

// Every reply is cut. A retry has all its attempts again.
func (s *scene) cutTooOften() {
	s.agents = []*cairn.Agent{bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Call("note", `{"text":"a long te`).ID("c1").FinishReason(cairn.FinishReasonLength)
	}), s.note())}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.retry("s")
}

type verdict struct {
	Verdict string `json:"verdict" schema:"enum=yes|no"`
}

func (s *scene) guardedOutput() {
	a := bot(plays(
		scripted.Text("I think yes."),
		scripted.Call(cairn.FinishTool, verdict{"perhaps"}).ID("c1"),
		scripted.Call(cairn.FinishTool, verdict{"no"}).ID("c2"),
		scripted.Reply(scripted.Text("Then yes."), scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c3"))))
	a.Output = cairn.OutputOf[verdict]()
	a.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		if string(c.Output) == `{"verdict":"no"}` {
			return cairn.SendBack("be kinder"), nil
		}
		return cairn.Verdict{Text: "It is a yes."}, nil
	}
	s.agents = []*cairn.Agent{a}
	s.process().turn("s", "yes or no?")
}

func (s *scene) retries() {
	a := bot(scripted.New(
		scripted.Reply(scripted.Text("one two "), scripted.Fail(cairn.Errorf(cairn.ErrOverloaded, "busy"))),
		scripted.Reply(scripted.Text("one two three "), scripted.Call("note", `{"te`).ID("c1"), scripted.Break()),
		scripted.Fail(cairn.Errorf(cairn.ErrRateLimited, "slow down")),
		scripted.Text("one two three four")), s.note())
	a.Retry = &cairn.RetryPolicy{First: time.Millisecond}
	s.agents = []*cairn.Agent{a}
	s.process().turn("s", "count")
}

func (s *scene) stepLimit() {
	a := bot(plays(asks("c1", "note", "1"), asks("c2", "note", "2"), asks("c3", "note", "3"), scripted.Text("at last")), s.note())
	a.MaxSteps = 2
	s.agents = []*cairn.Agent{a}
	p := s.process()
	p.turn("s", "go")
	p.retry("s")
}

func (s *scene) stopped() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("I shall wait "), asks("c1", "note", "n"), asks("c2", "slow", "")),
		scripted.Text("where was I?"),
		scripted.Reply(scripted.Text("a long story "), scripted.Gate(make(chan struct{})), scripted.Text("never told")),
		scripted.Text("the end")), s.note(), s.slow())}
	p := s.process()
	first := p.start("s", "go")
	s.atWork("slow")
	s.awaitTool("s", cairn.EventToolEnd, "note")
	s.must(p.Interrupt(s.Context(), "s", "enough"))
	s.outcome(first)
	p.resume("s")
	third := p.start("s", "tell me a story")
	s.awaitEvent("s", "the story", func(ev *cairn.Event) bool { return ev.Text == "story " })
	s.must(p.Abort(s.Context(), "s", "boring"))
	s.outcome(third)
	p.turn("s", "again")
}

// atWork waits until a tool is running.
func (s *scene) atWork(tool string) {
	s.Helper()
	testclock.Await(s.T, tool+" to run", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ran[tool] > 0
	})
}

// awaitTool waits for an event about a tool.
func (s *scene) awaitTool(root string, kind cairn.EventType, tool string) cairn.Event {
	s.Helper()
	return s.awaitEvent(root, string(kind)+" of "+tool, func(ev *cairn.Event) bool { return ev.Type == kind && ev.Tool == tool })
}
