package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// diary remembers which hooks were called.
type diary struct {
	mu   sync.Mutex
	list []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, fmt.Sprintf(format, args...))
}

func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.list, "\n") + "\n"
}

// hooks returns hooks that write every call into the diary under a name.
func (d *diary) hooks(who string) *cairn.Hooks {
	return &cairn.Hooks{
		RunStart: func(_ context.Context, s *cairn.Step) { d.add("%s RunStart turn %d", who, s.Turn) },
		RunResumed: func(_ context.Context, s *cairn.Step, previous string) {
			d.add("%s RunResumed after %s", who, previous)
		},
		RunComplete: func(_ context.Context, _ *cairn.Step, r *cairn.Result) {
			d.add("%s RunComplete %s %q", who, r.Reason, r.Text)
		},
		RunFail: func(_ context.Context, _ *cairn.Step, r *cairn.Result) { d.add("%s RunFail %s", who, r.Error.Code) },
		StepContext: func(_ context.Context, s *cairn.Step) ([]string, error) {
			d.add("%s StepContext %d", who, s.Number)
			return nil, nil
		},
		BeforeModel: func(_ context.Context, s *cairn.Step, req *cairn.Request) error {
			d.add("%s BeforeModel %d with %d messages", who, s.Number, len(req.Messages))
			return nil
		},
		AfterModel: func(_ context.Context, s *cairn.Step, m *cairn.Message, u cairn.Usage) {
			d.add("%s AfterModel %d %q, %d tokens", who, s.Number, m.Text(), u.OutputTokens)
		},
		TextDelta: func(_ context.Context, s *cairn.Step, text string) { d.add("%s TextDelta %d %q", who, s.Number, text) },
		BeforeTool: func(_ context.Context, c *cairn.Call) error {
			d.add("%s BeforeTool %s", who, c.ID)
			return nil
		},
		OnStateChange: func(_ context.Context, c *cairn.Call, ops []cairn.Op) {
			d.add("%s OnStateChange %s %s %s", who, c.ID, ops[0].Kind, ops[0].Path)
		},
		OnMessage: func(_ context.Context, s *cairn.Step, m *cairn.Message) {
			if m.Role == cairn.RoleTool {
				d.add("%s OnMessage %d result of %s", who, s.Number, m.Parts[0].Result.CallID)
			} else {
				d.add("%s OnMessage %d %s", who, s.Number, m.Role)
			}
		},
		AfterTool: func(_ context.Context, c *cairn.Call, r *cairn.ToolResult) {
			d.add("%s AfterTool %s %s", who, c.ID, r.Output)
		},
	}
}

type verdict struct {
	Verdict string `json:"verdict" schema:"enum=yes|no"`
}

// A scenario is a conversation whose every trace is kept in a file.
type scenario struct {
	name  string
	agent *cairn.Agent
	talk  func(t *testing.T, eng *engine.Engine, d *diary)
}

func say(texts ...string) func(*testing.T, *engine.Engine, *diary) {
	return func(t *testing.T, eng *engine.Engine, d *diary) {
		for _, text := range texts {
			turn(t, eng, "s", text, engine.WithHooks(d.hooks("call")))
		}
	}
}

func scenarios() []scenario {
	slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	explode := tool("explode", func(context.Context, *cairn.Call, in) (string, error) { panic("boom") })
	refuse := tool("refuse", func(context.Context, *cairn.Call, in) (string, error) { return "", errors.New("not today") })
	look := tool("look", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		raw, err := cairn.State[map[string]any](call)
		return fmt.Sprint(raw["notes"]), err
	})
	finish := tool("close", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		raw, err := cairn.State[map[string]any](call)
		return fmt.Sprint(in.Text, " after ", raw["notes"]), err
	}, cairn.FinishWith())

	hooked := bot(scripted.New(
		scripted.Reply(scripted.Thinking("hm so"), scripted.Text("I note. "), scripted.Call("note", in{"one"}).ID("c1")).Usage(5, 6),
		scripted.Text("Good bye."),
		scripted.Text("Hello again.")), note())

	phases := bot(scripted.New(
		scripted.Reply(scripted.Call("close", in{"closed"}).ID("c1"), scripted.Call("note", in{"a"}).ID("c2"), scripted.Call("look", in{}).ID("c3"),
			scripted.Call("note", in{"b"}).ID("c4"), scripted.Call("close", in{"twice"}).ID("c5"))), note(), look, finish)

	failing := bot(scripted.New(
		scripted.Reply(scripted.Call("nothing", in{"x"}).ID("c1"), scripted.Call("note", map[string]int{"text": 1, "more": 2}).ID("c2"),
			scripted.Call("note", `{"text": "cut o`).ID("c3"), scripted.Call("explode", in{"x"}).ID("c4"), scripted.Call("refuse", in{"x"}).ID("c5")),
		scripted.Text("I give up.")), note(), explode, refuse)

	guarded := bot(scripted.New(
		scripted.Text("I think yes."),
		scripted.Call(cairn.FinishTool, verdict{"perhaps"}).ID("c1"),
		scripted.Call(cairn.FinishTool, verdict{"no"}).ID("c2"),
		scripted.Reply(scripted.Text("Then yes."), scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c3"))))
	guarded.Output = cairn.OutputOf[verdict]()
	guarded.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
		if string(c.Output) == `{"verdict":"no"}` {
			return cairn.SendBack("be kinder"), nil
		}
		return cairn.Verdict{Text: "It is a yes."}, nil
	}

	retried := bot(scripted.New(
		scripted.Reply(scripted.Text("one two "), scripted.Fail(cairn.Errorf(cairn.CodeOverloaded, "busy"))),
		scripted.Reply(scripted.Text("one two three "), scripted.Call("note", `{"te`).ID("c1"), scripted.Break()),
		scripted.Fail(cairn.Errorf(cairn.CodeRateLimited, "slow down")),
		scripted.Text("one two three four")), note())

	capped := bot(scripted.New(scripted.Call("note", in{"1"}).ID("c1"), scripted.Call("note", in{"2"}).ID("c2"),
		scripted.Call("note", in{"3"}).ID("c3"), scripted.Text("at last")), note())
	capped.MaxSteps = 2

	stopped := bot(scripted.New(
		scripted.Reply(scripted.Text("I shall wait "), scripted.Call("note", in{"n"}).ID("c1"), scripted.Call("slow", in{}).ID("c2")),
		scripted.Text("where was I?"),
		scripted.Reply(scripted.Text("a long story "), scripted.Pause(time.Hour), scripted.Text("never told")),
		scripted.Text("the end")), note(), slow)

	return []scenario{
		{"hooks", hooked, say("note one", "and again")},
		{"phases", phases, say("close it")},
		{"tool-failures", failing, say("try all")},
		{"guarded-output", guarded, say("yes or no?")},
		{"retries", retried, say("count")},
		{"step-limit", capped, func(t *testing.T, eng *engine.Engine, d *diary) {
			wantError(t, turn(t, eng, "s", "go").Error, cairn.ErrMaxSteps)
			again, err := eng.Retry(t.Context(), "s", engine.WithHooks(d.hooks("call")))
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, again), cairn.RunCompleted, cairn.ReasonReply)
		}},
		{"stops", stopped, func(t *testing.T, eng *engine.Engine, d *diary) {
			first := start(t, eng, "s", "go", engine.WithHooks(d.hooks("call")))
			time.Sleep(time.Second)
			if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, first), cairn.RunInterrupted, cairn.ReasonInterrupted)
			resumed, err := eng.Resume(t.Context(), "s", engine.WithHooks(d.hooks("call")))
			if err != nil {
				t.Fatal(err)
			}
			wait(t, resumed)
			third := start(t, eng, "s", "tell me a story", engine.WithHooks(d.hooks("call")))
			time.Sleep(time.Second)
			if err := eng.Abort(t.Context(), "s", "boring"); err != nil {
				t.Fatal(err)
			}
			wantError(t, wait(t, third).Error, cairn.ErrAborted)
			say("again")(t, eng, d)
		}},
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				d := &diary{}
				sc.agent.Hooks = d.hooks("agent")
				quiet := &diary{} // parallel calls come in any order
				if sc.name != "hooks" {
					sc.agent.Hooks = quiet.hooks("agent")
				}
				eng := open(t, st, sc.agent, with(func(o *engine.Options) {
					if sc.name == "hooks" {
						o.Hooks = []*cairn.Hooks{d.hooks("engine")}
					}
				}))
				sc.talk(t, eng, d)
				wantSound(t, st, "s")
				text := render(t, st, "s")
				if sc.name == "hooks" {
					text += "\n# hooks\n" + d.text()
				}
				wantGolden(t, sc.name, text)
			})
		})
	}
}
