package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestCallThatIsCut has a model whose every reply is cut within a call: it reads by what, and the turn ends after the
// third one.
func TestCallThatIsCut(t *testing.T) {
	t.Parallel()
	type out struct {
		Text string `json:"text"`
	}
	started := func(tool string) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "c", Tool: tool})
	}
	for name, test := range map[string]struct {
		reply  scripted.Step
		limit  int
		reason cairn.FinishReason
		output bool
		told   string
		remedy string
	}{
		"in its arguments":               {reply: scripted.Call("echo", `{"text":"a long te`).Usage(10, 4096), told: "truncated by the output limit of 4096 tokens", remedy: "raise Settings.MaxOutputTokens"},
		"by a limit of its own":          {reply: scripted.Call("echo", `{"text":"a long te`).Usage(10, 90), limit: 100, told: "truncated by the output limit of 100 tokens"},
		"with an unknown limit":          {reply: scripted.Call("echo", `{"te`), told: "truncated by the output limit;"},
		"before its arguments":           {reply: started("echo"), told: "truncated by the output limit"},
		"behind text":                    {reply: scripted.Reply(scripted.Text("I write."), scripted.Call("echo", `{`)), told: "truncated by the output limit"},
		"of an output":                   {reply: scripted.Call(cairn.FinishTool, `{"text":"a l`), output: true, told: "truncated by the output limit"},
		"of a client tool":               {reply: scripted.Call("ask", `{"text":"a l`), told: "truncated by the output limit"},
		"that needs approval":            {reply: scripted.Call("sure", `{"text":"a l`), told: "truncated by the output limit"},
		"of a sub-agent":                 {reply: scripted.Call("helper", `{"input":"a l`), told: "truncated by the output limit"},
		"by a full window":               {reply: scripted.Call("echo", `{`), reason: cairn.FinishReasonWindow, told: "end of the model's context window", remedy: "larger window"},
		"no call, but an output is owed": {reply: scripted.Text("Once upon a time"), output: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			if test.reason == "" {
				test.reason = cairn.FinishReasonLength
			}
			model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return test.reply.FinishReason(test.reason) })
			helper := bot(scripted.New())
			helper.Name = "helper"
			agent := bot(model, echo("echo"), echo("sure", cairn.RequireApproval()), cairn.ClientTool[in, string]("ask", ""), cairn.SubAgent(helper))
			agent.Settings.MaxOutputTokens = test.limit
			if test.output {
				agent.Output = cairn.OutputOf[out]()
			}
			res := turn(t, open(t, st, agent), "s", "go")
			if res.Status != cairn.RunFailed || res.Error.Code != cairn.ErrOutputLimit || model.Calls() != 3 || !strings.Contains(res.Error.Message, test.remedy) {
				t.Fatalf("the run is %s after %d calls of the model, %v", res.Status, model.Calls(), res.Error)
			}
			list := messages(t, st, "s")
			told := 0
			for i := range list {
				for _, r := range list[i].ToolResults() {
					if told++; !r.IsError || r.Code != cairn.ErrOutputLimit || !strings.Contains(string(r.Output), test.told) {
						t.Errorf("the model reads %s (%s), want %q", r.Output, r.Code, test.told)
					}
				}
				if strings.Contains(list[i].Text(), "was truncated by the output limit") {
					told++
				}
			}
			if told < 2 {
				t.Errorf("the model was told %d times", told)
			}
			plain := *agent
			plain.Output = nil
			continues(t, st, &plain)
		})
	}
}

// TestCallsBeforeTheCutRun has replies with a complete call before the one that is cut. It runs, and such replies get
// the turn forward, so there may be many of them.
func TestCallsBeforeTheCutRun(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	write := tool("write", func(context.Context, *cairn.Call, in) (string, error) { ran.Add(1); return "written", nil })
	calls := 0
	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		if calls++; calls == 6 {
			return scripted.Text("done")
		}
		return scripted.Reply(scripted.Call("write", in{"x"}), scripted.Call("write", `{"text":"a l`)).FinishReason(cairn.FinishReasonLength)
	})
	res := turn(t, open(t, memstore.New(nil), bot(model, write)), "s", "go")
	if res.Status != cairn.RunCompleted || ran.Load() != 5 {
		t.Fatalf("the run is %s after %d calls of the tool, %v", res.Status, ran.Load(), res.Error)
	}
}

// TestCutsApartAreForgiven has a complete reply between two that are cut, and a turn of its own for the third.
func TestCutsApartAreForgiven(t *testing.T) {
	t.Parallel()
	cut := scripted.Call("echo", `{"te`).FinishReason(cairn.FinishReasonLength)
	whole := scripted.Call("echo", in{"x"})
	eng := open(t, memstore.New(nil), bot(scripted.New(cut, cut, whole, cut, cut, scripted.Text("done"), cut, cut, scripted.Text("done")), echo("echo")))
	for range 2 {
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	}
}
