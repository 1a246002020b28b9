package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestHookThatPanicsFailsTheRunOnlyWhereItMayVeto(t *testing.T) {
	t.Parallel()
	boom := func() { panic("boom") }
	for name, c := range map[string]struct {
		hooks cairn.Hooks
		fails bool
	}{
		"RunStart":      {cairn.Hooks{RunStart: func(context.Context, *cairn.Step) { boom() }}, false},
		"RunComplete":   {cairn.Hooks{RunComplete: func(context.Context, *cairn.Step, *cairn.Result) { boom() }}, false},
		"StepContext":   {cairn.Hooks{StepContext: func(context.Context, *cairn.Step) ([]string, error) { boom(); return nil, nil }}, true},
		"BeforeModel":   {cairn.Hooks{BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error { boom(); return nil }}, true},
		"AfterModel":    {cairn.Hooks{AfterModel: func(context.Context, *cairn.Step, *cairn.Message, cairn.Usage) { boom() }}, false},
		"TextDelta":     {cairn.Hooks{TextDelta: func(context.Context, *cairn.Step, string) { boom() }}, false},
		"BeforeTool":    {cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error { boom(); return nil }}, false},
		"OnStateChange": {cairn.Hooks{OnStateChange: func(context.Context, *cairn.Call, []cairn.Op) { boom() }}, false},
		"OnMessage":     {cairn.Hooks{OnMessage: func(context.Context, *cairn.Step, *cairn.Message) { boom() }}, false},
		"AfterTool":     {cairn.Hooks{AfterTool: func(context.Context, *cairn.Call, *cairn.ToolResult) { boom() }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			agent := bot(counter(2), note())
			agent.Hooks = &c.hooks
			res := turn(t, open(t, st, agent), "s", "go")
			if c.fails {
				wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
				if res.Error.Code != cairn.ErrHook {
					t.Errorf("error %s: %v", res.Error.Code, res.Error)
				}
			} else {
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
			}
			wantSound(t, st, "s")
		})
	}
}

func TestInstructionsThatPanicFailTheRun(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.New(scripted.Text("ok")))
	agent.InstructionsFunc = func(context.Context, *cairn.Step) (string, error) { panic("boom") }
	res := turn(t, open(t, st, agent), "s", "go")
	wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
	if res.Error.Code != cairn.ErrHook {
		t.Errorf("error %s: %v", res.Error.Code, res.Error)
	}
	wantSound(t, st, "s")
}

func TestInstructionsFollowTheState(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Call("note", in{"x"}), scripted.Text("ok"))
	agent := bot(model, note())
	agent.InstructionsFunc = func(_ context.Context, step *cairn.Step) (string, error) {
		s, err := cairn.State[map[string][]string](step)
		return "notes: " + marshal(s["notes"]), err
	}
	turn(t, open(t, tapOn(nil), agent), "s", "go")
	if a, b := model.Requests()[0].System, model.Requests()[1].System; a != "notes: null" || b != `notes: ["x"]` {
		t.Errorf("instructions %q, then %q", a, b)
	}
}

func TestVetoOfAToolIsItsResult(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	ran := false
	agent := bot(scripted.New(scripted.Call("t", in{}).ID("c1"), scripted.Text("ok")),
		tool("t", func(context.Context, *cairn.Call, in) (string, error) { ran = true; return "", nil }))
	agent.Hooks = &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error { return errors.New("not on a Sunday") }}
	wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	if r := result(t, messages(t, st, "s"), "c1"); r.Code != cairn.ErrHook || string(r.Output) != `"not on a Sunday"` || ran {
		t.Errorf("result %s (%s), ran %t", r.Output, r.Code, ran)
	}
}

func TestVetoOfAModelCallFailsTheRunAndLaterHooksAreNotAsked(t *testing.T) {
	t.Parallel()
	asked := false
	agent := bot(scripted.New(scripted.Text("ok")))
	agent.Hooks = &cairn.Hooks{BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error { asked = true; return nil }}
	eng := open(t, tapOn(nil), agent, with(func(o *engine.Options) {
		o.Hooks = []*cairn.Hooks{{BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error { return errors.New("no budget") }}}
	}))
	res := turn(t, eng, "s", "go")
	wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
	if res.Error.Code != cairn.ErrHook || asked {
		t.Errorf("error %v, agent's hook asked %t", res.Error, asked)
	}
}

func TestContextThatHooksAddIsReadByTheNextCall(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	model := scripted.New(scripted.Call("note", in{"x"}), scripted.Text("ok"))
	agent := bot(model, note())
	agent.Hooks = &cairn.Hooks{
		RunStart: func(_ context.Context, s *cairn.Step) { _ = s.AddContext("from RunStart") },
		AfterModel: func(_ context.Context, s *cairn.Step, _ *cairn.Message, _ cairn.Usage) {
			_ = s.AddContext("from AfterModel")
		},
		OnMessage: func(_ context.Context, s *cairn.Step, m *cairn.Message) {
			if m.Role == cairn.RoleTool {
				_ = s.AddContext("from OnMessage")
			}
		},
		AfterTool: func(_ context.Context, c *cairn.Call, _ *cairn.ToolResult) { _ = c.AddContext("from AfterTool") },
	}
	turn(t, open(t, st, agent), "s", "go")
	var got []string
	for _, m := range model.Requests()[1].Messages {
		if m.Hidden {
			got = append(got, m.Text())
		}
	}
	slices.Sort(got)
	if want := []string{"from AfterModel", "from AfterTool", "from OnMessage", "from RunStart"}; !slices.Equal(got, want) {
		t.Errorf("the second call read %q, want %q", got, want)
	}
	wantSound(t, st, "s")
}

func TestStepContextIsOnTheTranscriptAheadOfTheReply(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	model := scripted.New(scripted.Text("it is noon"))
	agent := bot(model)
	agent.Hooks = &cairn.Hooks{StepContext: func(context.Context, *cairn.Step) ([]string, error) { return []string{"time: 12:00"}, nil }}
	turn(t, open(t, st, agent), "s", "what time is it?")
	list := messages(t, st, "s")
	if len(list) != 3 || !list[1].Hidden || list[1].Text() != "time: 12:00" || list[2].Text() != "it is noon" {
		t.Errorf("transcript %s", marshal(list))
	}
	if got := model.Requests()[0].Messages; len(got) != 2 || got[1].Text() != "time: 12:00" {
		t.Errorf("request %s", marshal(got))
	}
}

// A BeforeModel hook may change its request; the stored messages must not change with it.
func TestRequestThatAHookChangesIsItsOwn(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	model := scripted.New(scripted.Text("one"), scripted.Text("two"), scripted.Text("three"))
	agent := bot(model)
	agent.Hooks = &cairn.Hooks{BeforeModel: func(_ context.Context, _ *cairn.Step, req *cairn.Request) error {
		if first := req.Messages[0].Text(); first != "first" {
			t.Errorf("the hook is given %q as the first message", first)
		}
		for i := range req.Messages {
			req.Messages[i] = cairn.Context("redacted")
		}
		return nil
	}}
	eng := open(t, st, agent)
	turn(t, eng, "s", "first")
	turn(t, eng, "s", "second")
	turn(t, open(t, st, agent, named("cold")), "s", "third")
	for i, want := range []string{"first", "one", "second", "two", "third", "three"} {
		if got := messages(t, st, "s")[i].Text(); got != want {
			t.Errorf("message %d is %q, want %q", i, got, want)
		}
	}
	for _, req := range model.Requests() {
		for i := range req.Messages {
			if req.Messages[i].Text() != "redacted" {
				t.Errorf("the model saw %q", req.Messages[i].Text())
			}
		}
	}
}

// A hook that changes its arguments changes neither the transcript nor what other hooks see.
func TestWhatHooksAreShownIsTheirOwn(t *testing.T) {
	t.Parallel()
	spoil := func(m *cairn.Message) {
		for i := range m.Parts {
			switch p := &m.Parts[i]; {
			case p.ToolUse != nil:
				p.ToolUse.CallID, p.ToolUse.Tool = "spoiled", "spoiled"
			case p.Result != nil:
				p.Result.CallID, p.Result.Output, p.Result.IsError = "spoiled", []byte(`"spoiled"`), true
			default:
				p.Text = "spoiled\xff"
			}
		}
		m.Parts = append(m.Parts, cairn.TextPart("spoiled"))
	}
	hooks := &cairn.Hooks{
		AfterModel:    func(_ context.Context, _ *cairn.Step, m *cairn.Message, _ cairn.Usage) { spoil(m) },
		OnMessage:     func(_ context.Context, _ *cairn.Step, m *cairn.Message) { spoil(m) },
		OnStateChange: func(_ context.Context, _ *cairn.Call, ops []cairn.Op) { ops[0].Path = "/spoiled" },
		AfterTool:     func(_ context.Context, _ *cairn.Call, r *cairn.ToolResult) { r.CallID, r.Output = "spoiled", nil },
		RunComplete:   func(_ context.Context, _ *cairn.Step, r *cairn.Result) { r.Text = "spoiled" },
	}
	var kept [2]string
	for i, h := range []*cairn.Hooks{nil, hooks} {
		st := tapOn(nil)
		agent := bot(counter(2), note())
		agent.Hooks = h
		turn(t, open(t, st, agent), "s", "go")
		wantSound(t, st, "s")
		kept[i] = render(t, st, "s")
	}
	if kept[0] != kept[1] {
		t.Errorf("with hooks that change what they are shown:\n%s\nwithout:\n%s", kept[1], kept[0])
	}
}
