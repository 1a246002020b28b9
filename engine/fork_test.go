package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// clerk is an agent that looks an order up, asks to refund it and then repeats all results. Its replies say the model and
// the system prompt that they come from.
func clerk(b *bank) *cairn.Agent {
	model := func(name string) cairn.Model {
		return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			var said []string
			for i := range req.Messages {
				for _, r := range req.Messages[i].ToolResults() {
					said = append(said, string(r.Output))
				}
			}
			switch len(said) {
			case 0:
				return scripted.Reply(scripted.Call("look", in{"42"}), scripted.Call("count", in{"1"}))
			case 2:
				return scripted.Call("refund", in{"42"})
			case 3:
				return scripted.Call("notify", in{"42"})
			}
			return scripted.Text(fmt.Sprintf("%s, %s: %s", name, req.System, strings.Join(said, " ")))
		})
	}
	count := tool("count", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return in.Text, call.Set([]string{"counted"}, in.Text)
	})
	a := bot(model("small"), echo("look"), count, b.refund(cairn.RequireApproval()), echo("notify", cairn.RequireApproval()))
	a.Models, a.Instructions = map[string]cairn.Model{"large": model("large"), "tiny": model("tiny")}, "Be kind."
	return a
}

// served takes the clerk's turn to its end, with a refund that is denied and a mail that is approved.
func served(t *testing.T, eng *engine.Engine, id string, opts ...engine.RunOption) {
	t.Helper()
	res := turn(t, eng, id, "go", opts...)
	submit(t, eng, id, cairn.Deny(res.Suspended.Calls[0], "too late"), cairn.OutcomeAccepted)
	res = resume(t, eng, id)
	submit(t, eng, id, cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
	wantStatus(t, resume(t, eng, id), cairn.RunCompleted, cairn.ReasonReply)
}

func fork(t *testing.T, eng *engine.Engine, from, to string, opts ...engine.BranchOption) *cairn.Result {
	t.Helper()
	run, err := eng.Fork(t.Context(), from, to, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return wait(t, run)
}

// A fork continues from its point with another model and other instructions, in every process, and in its own forks. The
// other session stays as it is.
func TestForkContinuesDifferently(t *testing.T) {
	t.Parallel()
	b, st := &bank{}, tapOn(nil)
	eng, other := open(t, st, clerk(b)), open(t, st, clerk(b), named("other"))
	served(t, eng, "acme::s", engine.WithModel("tiny"))
	before := marshal(messages(t, st, "acme::s"))

	res := fork(t, eng, "acme::s", "same", engine.AtMessage(1))
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
	if runs := runsOf(t, st, "acme::same"); runs[0].Model != "tiny" {
		t.Errorf("the fork runs with model %q, not with that of its point", runs[0].Model)
	}
	res = fork(t, eng, "acme::s", "f", engine.AtMessage(1), engine.WithBranchModel("large"), engine.WithBranchInstructions("Be strict."))
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
	submit(t, other, "acme::f", cairn.Deny(res.Suspended.Calls[0], "no"), cairn.OutcomeAccepted)
	res = resume(t, other, "acme::f")
	submit(t, eng, "acme::f", cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
	if res = resume(t, other, "acme::f"); !strings.HasPrefix(res.Text, "large, Be strict.: ") {
		t.Errorf("the fork says %q", res.Text)
	}
	if res = turn(t, other, "acme::f", "and now?"); !strings.HasPrefix(res.Text, "large, Be strict.: ") {
		t.Errorf("its next turn says %q", res.Text)
	}
	if res = turn(t, eng, "acme::f", "small again", engine.WithModel("")); !strings.HasPrefix(res.Text, "small, Be strict.: ") {
		t.Errorf("a turn with a model of its own says %q", res.Text)
	}
	wantBranch(t, st, "acme::f", cairn.BranchOrigin{From: "acme::s", Messages: 1, Model: "large", Instructions: "Be strict."})

	fork(t, other, "acme::f", "ff", engine.AtMessage(1), engine.WithBranchModel("tiny"))
	wantBranch(t, st, "acme::ff", cairn.BranchOrigin{From: "acme::f", Messages: 1, Model: "tiny", Instructions: "Be strict."})
	if shown := load(t, st, "acme::ff").Public(); shown.Branch.Instructions != "" || shown.Branch.Model != "tiny" {
		t.Errorf("users see %+v", shown.Branch)
	}
	to := memstore.New(nil)
	if _, err := store.Copy(t.Context(), st.Store, to, "acme::ff"); err != nil {
		t.Fatal(err)
	}
	wantBranch(t, to, "acme::ff", cairn.BranchOrigin{From: "acme::f", Messages: 1, Model: "tiny", Instructions: "Be strict."})
	if after := marshal(messages(t, st, "acme::s")); after != before || b.times() != 0 {
		t.Errorf("the forks have changed the session, or sent %d refunds", b.times())
	}
	for _, id := range []string{"acme::s", "acme::same", "acme::f", "acme::ff"} {
		wantSound(t, st, id)
	}
}

func wantBranch(t *testing.T, st store.Store, id string, want cairn.BranchOrigin) {
	t.Helper()
	if got := load(t, st, id).Branch; got == nil || *got != want {
		t.Errorf("session %s: branch %+v, want %+v", id, got, want)
	}
}

// In a fork a call has another answer: an effectful one is asked about again, unless it is denied.
func TestForkWithAnotherAnswer(t *testing.T) {
	t.Parallel()
	b, st := &bank{}, tapOn(nil)
	eng := open(t, st, clerk(b))
	served(t, eng, "s")
	refund, notify := settledCall(t, st, "s", "refund"), settledCall(t, st, "s", "notify")

	res := fork(t, eng, "s", "pays", engine.WithBranchAnswer(cairn.Approve(refund)))
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
	if call := res.Suspended.Calls[0]; call.Tool != "refund" || b.times() != 0 {
		t.Fatalf("after an approval in the fork, %d refunds, and it waits for %s", b.times(), marshal(call))
	}
	submit(t, eng, "pays", cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
	resume(t, eng, "pays")
	if got := string(resultOf(t, st, "pays", "refund").Output); got != `"refunded 42"` || b.times() != 1 {
		t.Errorf("the refund that was approved in the fork: %s, %d refunds", got, b.times())
	}

	res = fork(t, eng, "s", "silent", engine.WithBranchAnswer(cairn.Deny(notify, "keep silent")))
	if !strings.Contains(res.Text, "keep silent") || !strings.Contains(res.Text, "too late") {
		t.Errorf("the fork says %q", res.Text)
	}
	wantBranch(t, st, "silent", cairn.BranchOrigin{From: "s", Messages: load(t, st, "silent").Branch.Messages, CallID: notify.ID})
	res = fork(t, eng, "silent", "loud", engine.WithBranchAnswer(cairn.Approve(settledCall(t, st, "silent", "notify")).WithInput(in{"all"})))
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	if got := string(resultOf(t, st, "loud", "notify").Output); got != `"all"` {
		t.Errorf("the call with edited arguments has result %s", got)
	}
	for _, id := range []string{"s", "pays", "silent", "loud"} {
		wantSound(t, st, id)
	}
}

// resultOf returns the last result of a tool.
func resultOf(t *testing.T, st store.Store, id, tool string) *cairn.ToolResult {
	t.Helper()
	var last *cairn.ToolResult
	list := messages(t, st, id)
	for i := range list {
		for _, r := range list[i].ToolResults() {
			if r.Tool == tool {
				last = r
			}
		}
	}
	if last == nil {
		t.Fatalf("session %s has no result of %s", id, tool)
	}
	return last
}

// settledCall returns the approval that a call of a tool waited for.
func settledCall(t *testing.T, st store.Store, root, tool string) cairn.CallRef {
	t.Helper()
	page, err := st.Calls(t.Context(), store.CallQuery{RootID: root, Statuses: []cairn.CallStatus{cairn.CallSettled, cairn.CallAnswered, cairn.CallOpen}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Items {
		if page.Items[i].Tool == tool {
			return page.Items[i].CallRef
		}
	}
	t.Fatalf("session %s has no call of %s: %s", root, tool, marshal(page.Items))
	return cairn.CallRef{}
}

// In a fork a call has another result. The rest of its step, and the state that it left, stay.
func TestForkWithAnotherResult(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, clerk(&bank{}))
	served(t, eng, "s")
	look := resultOf(t, st, "s", "look").CallID
	for id, c := range map[string]struct {
		result any
		want   string
	}{"value": {"nothing", `"nothing" "1"`}, "error": {errors.New("down"), `"down" "1"`}} {
		res := fork(t, eng, "s", id, engine.WithBranchResult(look, c.result), engine.WithBranchModel("large"))
		wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
		submit(t, eng, id, cairn.Deny(res.Suspended.Calls[0], "no"), cairn.OutcomeAccepted)
		submit(t, eng, id, cairn.Approve(resume(t, eng, id).Suspended.Calls[0]), cairn.OutcomeAccepted)
		if res = resume(t, eng, id); !strings.Contains(res.Text, c.want) || state(t, st, id) != `{"counted":"1"}` {
			t.Errorf("%s: the fork says %q, with state %s", id, res.Text, state(t, st, id))
		}
		if r := resultOf(t, st, id, "look"); r.IsError != (id == "error") {
			t.Errorf("%s: result %s", id, marshal(r))
		}
		wantBranch(t, st, id, cairn.BranchOrigin{From: "s", Messages: 2, Model: "large", CallID: look})
		wantSound(t, st, id)
	}
}

// Effectful calls of a fork's sub-agents ask, too.
func TestForkAsksInSubAgents(t *testing.T) {
	t.Parallel()
	b, st := &bank{}, tapOn(nil)
	teller := &cairn.Agent{Name: "teller", Model: refunder(), Tools: []cairn.Tool{b.refund()}}
	boss := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("done")
		}
		return scripted.Call("teller", map[string]string{"input": "refund"})
	})
	eng := open(t, st, bot(boss, cairn.SubAgent(teller)))
	turn(t, eng, "s", "go")
	res := fork(t, eng, "s", "f", engine.AtMessage(1))
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
	page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "f"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Tool != "refund" || page.Items[0].Kind != cairn.CallApproval || b.times() != 1 {
		t.Errorf("the inbox of the fork has %s, %v, after %d refunds", marshal(page.Items), err, b.times())
	}
}

// A fork that is refused leaves nothing behind.
func TestForkRefused(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, clerk(&bank{}))
	served(t, eng, "s")
	notify, look := settledCall(t, st, "s", "notify"), resultOf(t, st, "s", "look").CallID
	wrong := cairn.Approve(notify)
	wrong.ApprovalID = "another"
	for name, c := range map[string]struct {
		opts []engine.BranchOption
		code error
		says string
	}{
		"an unknown model":             {[]engine.BranchOption{engine.AtMessage(1), engine.WithBranchModel("huge")}, cairn.ErrInvalid, `no model "huge"; its models are: large, tiny`},
		"instructions that are long":   {[]engine.BranchOption{engine.AtMessage(1), engine.WithBranchInstructions(strings.Repeat("x", cairn.MaxInstructionsBytes+1))}, cairn.ErrTooLarge, "instructions: "},
		"instructions with a NUL":      {[]engine.BranchOption{engine.AtMessage(1), engine.WithBranchInstructions("a\x00b")}, cairn.ErrInvalid, "instructions: "},
		"the end of a turn":            {nil, cairn.ErrInvalid, "is complete after"},
		"before the first message":     {[]engine.BranchOption{engine.AtMessage(0)}, cairn.ErrInvalid, "no message before"},
		"an answer to no call":         {[]engine.BranchOption{engine.WithBranchAnswer(cairn.Deny(cairn.CallRef{ID: "none", ApprovalID: "a"}, ""))}, cairn.ErrNotFound, "none"},
		"an answer of another kind":    {[]engine.BranchOption{engine.WithBranchAnswer(cairn.Answer(notify, 1))}, cairn.ErrInvalid, "type: "},
		"another approval":             {[]engine.BranchOption{engine.WithBranchAnswer(wrong)}, cairn.ErrInvalid, "approval_id: "},
		"an answer at another point":   {[]engine.BranchOption{engine.AtMessage(1), engine.WithBranchAnswer(cairn.Deny(notify, ""))}, cairn.ErrInvalid, "selects the point itself"},
		"a result of no call":          {[]engine.BranchOption{engine.WithBranchResult("none", 1)}, cairn.ErrNotFound, "call_id"},
		"a result that is no JSON":     {[]engine.BranchOption{engine.WithBranchResult(look, func() {})}, cairn.ErrInvalid, "result: "},
		"a result with an answer":      {[]engine.BranchOption{engine.WithBranchResult(look, 1), engine.WithBranchAnswer(cairn.Deny(notify, ""))}, cairn.ErrInvalid, "not both"},
		"a checkpoint that is unknown": {[]engine.BranchOption{engine.AtCheckpoint("none")}, cairn.ErrNotFound, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := eng.Fork(t.Context(), "s", "f", c.opts...)
			wantError(t, err, c.code)
			if text := cairn.AsError(err).Field + ": " + err.Error(); !strings.Contains(text, c.says) {
				t.Errorf("error %q does not say %q", text, c.says)
			}
			if _, err := eng.Session(t.Context(), "f"); !errors.Is(err, cairn.ErrNotFound) {
				t.Errorf("the refused fork exists: %v", err)
			}
		})
	}
}

// A branch with another answer can be resumed, continued, stopped and deleted by any process before its run began.
func TestBranchWithAnotherAnswer(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, clerk(&bank{}))
	served(t, eng, "s")
	answer := engine.WithBranchAnswer(cairn.Deny(settledCall(t, st, "s", "notify"), "no"))
	for id, do := range map[string]func(*engine.Engine) error{
		"resumed": func(eng *engine.Engine) error { resume(t, eng, "resumed"); return nil },
		"worked": func(eng *engine.Engine) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- eng.Work(ctx) }()
			for ev := range until(t, ctx, eng.Events(ctx, "worked", cairn.Cursor{})) {
				if ev.Type == cairn.EventRunEnd {
					break
				}
			}
			cancel()
			return <-done
		},
		"continued": func(eng *engine.Engine) error { turn(t, eng, "continued", "more"); return nil },
		"stopped":   func(eng *engine.Engine) error { return eng.Interrupt(t.Context(), "stopped", "why") },
		"deleted":   func(eng *engine.Engine) error { return eng.Delete(t.Context(), "deleted") },
	} {
		t.Run(id, func(t *testing.T) {
			if _, err := eng.Branch(t.Context(), "s", id, answer); err != nil {
				t.Fatal(err)
			}
			if row := load(t, st, id); !row.Ready() {
				t.Errorf("the branch is %s and waits for %d calls", row.Status, row.OpenCalls)
			}
			if s, err := eng.Situation(t.Context(), id); err != nil {
				t.Errorf("situation %+v, %v", s, err)
			}
			if err := do(open(t, st, clerk(&bank{}), named(id))); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", id, err)
			}
			if id != "deleted" {
				wantSound(t, st, id)
			}
		})
	}
}
