package engine_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// submit answers a call and checks what became of the answer.
func submit(t *testing.T, eng *engine.Engine, root string, s cairn.Submission, want cairn.Outcome) cairn.Receipt {
	t.Helper()
	r, err := eng.Submit(context.Background(), root, s)
	if r.Outcome != want {
		t.Fatalf("submission: %s, want %s; error %v", r.Outcome, want, err)
	}
	return r
}

// resume resumes a session and returns its outcome.
func resume(t *testing.T, eng *engine.Engine, session string) *cairn.Result {
	t.Helper()
	run, err := eng.Resume(context.Background(), session)
	if err != nil {
		t.Fatal(err)
	}
	return wait(t, run)
}

func TestApprovalSuspendsAndResumesInAnotherProcess(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	ran := 0
	agent := func() *cairn.Agent {
		return bot(scripted.New(
			scripted.Reply(scripted.Text("Let me see."), scripted.Call("refund", in{"42"}), scripted.Call("note", in{"n"})),
			scripted.Text("refunded")), note(),
			tool("refund", func(_ context.Context, call *cairn.Call, in in) (string, error) {
				ran++
				return "paid " + in.Text, call.Set([]string{"paid"}, in.Text)
			}, cairn.RequireApproval()))
	}
	one := open(t, st, agent())
	res := turn(t, one, "s", "refund it")
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonStepPartial)
	if row := load(t, st, "s"); row.OpenCalls != 1 || row.Status != cairn.SessionPaused {
		t.Fatalf("row: %+v", row)
	}
	if len(res.Suspended.Calls) != 1 || ran != 0 {
		t.Fatalf("suspension %+v, ran %d", res.Suspended, ran)
	}
	two := open(t, st, bot(scripted.New(scripted.Text("refunded")), agent().Tools...), named("two"))
	_, err := two.Resume(t.Context(), "s")
	wantError(t, err, cairn.ErrNotResumable)
	call := res.Suspended.Calls[0]
	if r := submit(t, two, "s", cairn.Approve(call).WithInput(in{"43"}), cairn.OutcomeAccepted); !r.Ready {
		t.Errorf("receipt %+v", r)
	}
	submit(t, one, "s", cairn.Deny(call, "no"), cairn.OutcomeAlreadyCompleted)
	res = resume(t, two, "s")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	if ran != 1 || state(t, st, "s") != `{"notes":["n"],"paid":"43"}` {
		t.Errorf("ran %d times, state %s", ran, state(t, st, "s"))
	}
	if got := result(t, messages(t, st, "s"), call.ID); string(got.Output) != `"paid 43"` {
		t.Errorf("result %s", got.Output)
	}
	wantSound(t, st, "s")
	t.Log(render(t, st, "s"))
	_ = store.CallQuery{}
}

func TestApprovalInAGrandchild(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	ran := 0
	grandchild := &cairn.Agent{Name: "payer", Description: "pays", Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("paid it")
		}
		return scripted.Call("refund", in{"42"})
	}), Tools: []cairn.Tool{tool("refund", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		ran++
		return "paid " + in.Text, nil
	}, cairn.RequireApproval())}}
	delegate := func(name, to, answer string) func(context.Context, *cairn.Request) scripted.Step {
		return func(_ context.Context, req *cairn.Request) scripted.Step {
			if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
				return scripted.Text(answer)
			}
			return scripted.Call(to, map[string]string{"input": "do it"})
		}
	}
	child := &cairn.Agent{Name: "clerk", Model: scripted.Func(delegate("clerk", "payer", "the payer did")), Tools: []cairn.Tool{cairn.SubAgent(grandchild)}}
	root := bot(scripted.Func(delegate("bot", "clerk", "all done")), cairn.SubAgent(child))
	one := open(t, st, root)
	res := turn(t, one, "s", "refund it")
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
	two := open(t, st, root, named("two"))
	call := res.Suspended.Calls[0]
	submit(t, two, "s", cairn.Approve(call), cairn.OutcomeAccepted)
	res = resume(t, two, "s")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	if ran != 1 {
		t.Errorf("ran %d times", ran)
	}
	wantSound(t, st, "s")
	t.Log(render(t, st, "s"))
}
