package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// outcomes returns the outcomes of a session's calls in order: the tool and its text or the code of its error.
func outcomes(t *testing.T, st store.Store, id string) string {
	t.Helper()
	var words []string
	for _, m := range messages(t, st, id) {
		for _, r := range m.ToolResults() {
			word := r.Tool + "=" + decode[string](t, r.Output)
			if r.IsError {
				word = r.Tool + "!" + string(r.Code)
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

func wantOutcomes(t *testing.T, st store.Store, id, want string) {
	t.Helper()
	if got := outcomes(t, st, id); got != want {
		t.Errorf("calls of session %s: %s, want %s", id, got, want)
	}
}

func switchTools(t *testing.T, eng *engine.Engine, session string, tools map[string]bool) {
	t.Helper()
	if err := eng.SwitchTools(t.Context(), session, tools); err != nil {
		t.Fatal(err)
	}
}

func off(names ...string) map[string]bool { return switched(false, names) }
func on(names ...string) map[string]bool  { return switched(true, names) }

func switched(to bool, names []string) map[string]bool {
	tools := map[string]bool{}
	for _, name := range names {
		tools[name] = to
	}
	return tools
}

// switcher is a tool that switches another one: "-x" off, "+x" on.
func switcher() cairn.Tool {
	return tool("switch", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return in.Text, call.SwitchTools(map[string]bool{in.Text[1:]: in.Text[0] == '^'})
	})
}

func TestToolIsSwitchedOffAndOnAgain(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	model := obey()
	agent := bot(model, echo("a"), echo("b"))
	eng := open(t, st, agent)
	says(t, eng, "a:1")
	switchTools(t, eng, "s", off("a"))
	res := says(t, eng, "a:2 b:3")
	if res.Usage.ToolErrors != 1 {
		t.Errorf("usage %+v", res.Usage)
	}
	says(t, open(t, st, agent, named("two")), "a:4")
	switchTools(t, eng, "s", map[string]bool{"b": false, "a": true})
	says(t, eng, "a:5 b:6")
	wantOutcomes(t, st, "s", "a=1 a!tool_off b=3 a!tool_off a=5 b!tool_off")
	if text := result(t, messages(t, st, "s"), callOf(t, st, "s", 1)).Output; string(text) != `"the tool \"a\" is switched off"` {
		t.Errorf("the model is told %s", text)
	}
	var told []string
	for _, m := range messages(t, st, "s") {
		if m.Hidden {
			told = append(told, m.Text())
		}
	}
	want := []string{`The tool "a" is not available from now on.`, "The tool \"a\" is available again.\nThe tool \"b\" is not available from now on."}
	if !slices.Equal(told, want) {
		t.Errorf("the model reads %q, want %q", told, want)
	}
	// The previous request is still the beginning, word for word, and so are the tools.
	requests := model.Requests()
	for i := range requests[1:] {
		before, after := requests[i], requests[i+1]
		if marshal(before.Messages) != marshal(after.Messages[:len(before.Messages)]) || marshal(before.Tools) != marshal(after.Tools) || before.System != after.System {
			t.Errorf("request %d does not begin as the one before", i+2)
		}
	}
	wantSound(t, st, "s")
}

// callOf returns the id of a session's nth call, from 0.
func callOf(t *testing.T, st store.Store, id string, n int) string {
	t.Helper()
	var ids []string
	for _, m := range messages(t, st, id) {
		for _, use := range m.ToolUses() {
			ids = append(ids, use.CallID)
		}
	}
	return ids[n]
}

// By any caller, and however often steps are committed: it applies from the next step on.
func TestSwitchHoldsFromTheNextStepOn(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			agent := bot(obey(), echo("a"), switcher())
			agent.Durability = d
			eng := open(t, st, agent)
			says(t, eng, "switch:-a+a:1 a:2 switch:^a+a:3 a:4 switch:-a")
			says(t, eng, "a:5")
			wantOutcomes(t, st, "s", "switch=-a a=1 a!tool_off switch=^a a!tool_off a=4 switch=-a a!tool_off")
			wantSound(t, st, "s")
		})
	}
}

func TestRunningSessionIsSwitched(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var eng *engine.Engine
	agent := bot(obey(), echo("a"), tool("ask", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
		return "", eng.SwitchTools(ctx, "s", off("a")) // as any other caller would
	}))
	eng = open(t, st, agent)
	says(t, eng, "ask:+a:1 a:2")
	wantOutcomes(t, st, "s", "ask= a=1 a!tool_off")
	wantSound(t, st, "s")
}

func TestHookSwitchesTools(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(obey(), echo("a"))
	agent.Hooks = &cairn.Hooks{AfterTool: func(_ context.Context, call *cairn.Call, _ *cairn.ToolResult) {
		if err := call.SwitchTools(off("a")); err != nil { // once is enough
			t.Error(err)
		}
	}}
	says(t, open(t, st, agent), "a:1 a:2")
	wantOutcomes(t, st, "s", "a=1 a!tool_off")
}

// Whatever kind of tool it is, none of it runs.
func TestEveryKindOfToolCanBeOff(t *testing.T) {
	t.Parallel()
	child := &cairn.Agent{Name: "child", Model: scripted.New()}
	for name, c := range map[string]cairn.Tool{
		"approval":  echo("a", cairn.RequireApproval()),
		"client":    cairn.ClientTool[in, string]("a", "Somebody does a."),
		"finishing": echo("a", cairn.FinishWith()),
		"cached":    echo("a", cairn.Cache(cairn.CachePolicy{})),
		"sub-agent": cairn.SubAgent(child),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			agent := bot(obey(), c, echo("b"))
			agent.Hooks = &cairn.Hooks{
				BeforeTool: func(_ context.Context, call *cairn.Call) error {
					if call.Tool != "b" {
						t.Errorf("BeforeTool hears of %s", call.Tool)
					}
					return nil
				},
				BeforeSubAgent: func(context.Context, *cairn.Call, string) error { t.Error("BeforeSubAgent is called"); return nil },
			}
			eng := open(t, st, agent)
			says(t, eng, "b:1")
			switchTools(t, eng, "s", off(c.Name()))
			res := says(t, eng, c.Name()+":2+b:3 b:4")
			wantOutcomes(t, st, "s", "b=1 "+c.Name()+"!tool_off b=3 b=4")
			if res.Usage.SubAgentRuns != 0 {
				t.Errorf("usage %+v", res.Usage)
			}
			page, err := st.Calls(t.Context(), store.CallQuery{})
			if err != nil || len(page.Items) != 0 {
				t.Errorf("calls that wait: %+v, %v", page.Items, err)
			}
			wantSound(t, st, "s")
		})
	}
}

func TestCompanionToolCanBeOff(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent, _ := companions(cairn.Blocking, scribe(0), scripted.Text("hello"), spawn("c1", "ann", "hi"), scripted.Text("done"))
	eng := open(t, st, agent)
	says(t, eng, "go")
	switchTools(t, eng, "s", off(cairn.CompanionSpawn))
	says(t, eng, "go")
	wantOutcomes(t, st, "s", cairn.CompanionSpawn+"!tool_off")
}

// A suspended call was made while its tool was on: it runs once it is approved.
func TestSwitchLeavesCallsThatWaitAlone(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(obey(), echo("pay", cairn.RequireApproval()), echo("end", cairn.FinishWith()))
	res := turn(t, open(t, st, agent), "s", "pay:1 pay:2 pay:3")
	two := open(t, st, agent, named("two"))
	switchTools(t, two, "s", off("pay"))
	submit(t, two, "s", cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
	wantStatus(t, resume(t, two, "s"), cairn.RunCompleted, cairn.ReasonReply)
	wantOutcomes(t, st, "s", "pay=1 pay!tool_off pay!tool_off")
	wantSound(t, st, "s")
}

func TestRewindAndBranchSwitchAsTheirTranscriptDoes(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(obey(), echo("a"), switcher()))
	says(t, eng, "a:1")
	says(t, eng, "switch:-a")
	page, err := eng.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil || len(page.Items) != 4 {
		t.Fatalf("checkpoints %+v, %v", page.Items, err)
	}
	for name, at := range map[string]int{"before": 1, "after": 2} {
		if _, err := eng.Branch(t.Context(), "s", name, engine.AtCheckpoint(page.Items[at].ID)); err != nil {
			t.Fatal(err)
		}
		turn(t, eng, name, "a:2")
	}
	wantOutcomes(t, st, "before", "a=1 a=2")
	wantOutcomes(t, st, "after", "a=1 switch=-a a!tool_off")
	says(t, eng, "a:3")
	if _, err := eng.Rewind(t.Context(), "s", page.Items[1].ID); err != nil {
		t.Fatal(err)
	}
	says(t, eng, "a:4")
	wantOutcomes(t, st, "s", "a=1 a=4")
}

// What the model knew when it made the call decides, also for a process that continues it.
func TestTakeoverUsesWhatTheModelWasSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after map[string]bool
		want          string
	}{
		"off after the call": {on("a"), off("a"), "a=1 a!tool_off"},
		"on after the call":  {off("a"), on("a"), "a!tool_off a=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(obey(), echo("a"))
				agent.Durability = cairn.PerTool
				says(t, open(t, st, agent, shortLease), "nothing:")
				eng := open(t, tapOn(st.Store), agent, shortLease, named("two"))
				switchTools(t, eng, "s", c.before)
				st.stepIn(nil, func(_ context.Context, op string) error {
					if op == "Stage" { // the reply
						st.cut()
					}
					return nil
				})
				_, _ = start(t, open(t, st, agent, shortLease, named("three")), "s", "a:1 a:2").Wait(t.Context())
				switchTools(t, eng, "s", c.after)
				bringToEnd(t, st, agent)
				wantOutcomes(t, st.Store, "s", "nothing!unknown_tool "+c.want)
				wantSound(t, st.Store, "s")
			})
		})
	}
}

func TestToolThatIsOffCannotBeForced(t *testing.T) {
	t.Parallel()
	model := obey()
	agent := bot(model, echo("a"), echo("b"))
	force := ""
	agent.Hooks = &cairn.Hooks{BeforeModel: func(_ context.Context, _ *cairn.Step, req *cairn.Request) error {
		req.Choice.Tool = force
		return nil
	}}
	eng := open(t, tapOn(nil), agent)
	says(t, eng, "a:1")
	switchTools(t, eng, "s", off("a"))
	for _, c := range []struct{ force, want string }{{"a", ""}, {"b", "b"}} {
		force = c.force
		says(t, eng, "b:2")
		requests := model.Requests()
		if got := requests[len(requests)-1].Choice.Tool; got != c.want {
			t.Errorf("a hook demands %q, the model must call %q, want %q", c.force, got, c.want)
		}
	}
}

func TestUnknownToolIsNotPointedToThoseThatAreOff(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(obey(), echo("a"), echo("b")))
	says(t, eng, "b:1")
	switchTools(t, eng, "s", off("a"))
	says(t, eng, "c:2")
	if got, want := string(result(t, messages(t, st, "s"), callOf(t, st, "s", 1)).Output), `"unknown tool \"c\"; the tools are: b"`; got != want {
		t.Errorf("the model is told %s, want %s", got, want)
	}
}

func TestSwitchIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tools map[string]bool
		want  string
	}{
		"nothing":      {nil, "tools: no tools given"},
		"unknown tool": {off("a", "zoo", "nowhere"), `tools: agent "bot" has no tool "nowhere"`},
		"finish tool":  {off("a", cairn.FinishTool), "tools: __finish__ cannot be switched"},
		"no name":      {off("a", "not a name"), `tools: "not a name" is not a valid tool name`},
		"empty name":   {off(""), `tools: "" is not a valid tool name`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			var errs []error
			agent := bot(obey(), tool("a", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
				errs = append(errs, call.SwitchTools(c.tools))
				return "", nil
			}))
			eng := open(t, st, agent)
			says(t, eng, "a:1 a:2")
			errs = append(errs, eng.SwitchTools(t.Context(), "s", c.tools))
			if len(errs) != 3 {
				t.Fatalf("errors %v: the tool was switched", errs)
			}
			for _, err := range errs {
				wantError(t, err, cairn.ErrInvalid)
				if err.Error() != c.want {
					t.Errorf("error %q, want %q", err, c.want)
				}
			}
			for _, m := range messages(t, st, "s") {
				if m.Hidden {
					t.Errorf("the model reads %q", m.Text())
				}
			}
		})
	}
}

func TestSwitchNeedsASessionButNotItsAgent(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(obey(), echo("a")))
	wantError(t, eng.SwitchTools(t.Context(), "s", off("a")), cairn.ErrNotFound)
	wantError(t, eng.SwitchTools(t.Context(), "", off("a")), cairn.ErrInvalid)
	says(t, eng, "a:1")
	st.seen()
	// An engine that does not have the agent cannot know its tools.
	other := open(t, st, &cairn.Agent{Name: "other", Model: obey()}, named("two"))
	switchTools(t, other, "s", off("a", "mystery"))
	if calls, want := fmt.Sprint(st.seen()), "[Load Commit]"; calls != want {
		t.Errorf("store calls %v, want %v", calls, want)
	}
	says(t, eng, "a:2")
	wantOutcomes(t, st, "s", "a=1 a!tool_off")
}

// The transcript may come from other sources: only hidden messages switch tools, and nothing switches the finish tool.
func TestForeignMessagesSwitchNoMoreThanTheyMay(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.New(scripted.Call("a", in{"1"}), scripted.Call(cairn.FinishTool, verdict{"yes"})), echo("a"))
	agent.Output = cairn.OutputOf[verdict]()
	agent.MaxSteps = 2
	visible, hidden := cairn.User(cairn.TextPart("go")), cairn.Context("go on")
	visible.ID, visible.Tools = "m1", off("a")
	hidden.ID, hidden.Tools = "m2", off(cairn.FinishTool)
	_, err := driver.Create(t.Context(), st, &cairn.Session{ID: "s", Agent: "bot"}, nil)
	if err == nil {
		_, err = driver.AppendMessages(t.Context(), st, "s", visible, hidden)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, resume(t, open(t, st, agent), "s"), cairn.RunCompleted, cairn.ReasonFinish)
	wantOutcomes(t, st, "s", "a=1 __finish__=finished")
	if last := agent.Model.(*scripted.Model).Requests()[1]; last.Choice.Tool != cairn.FinishTool {
		t.Errorf("the last step must call %q", last.Choice.Tool)
	}
}
