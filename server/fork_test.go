package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A fork continues with the model, instructions, answer or result of the request. Only administrators may give
// instructions and results, and only operators read instructions.
func TestFork(t *testing.T) {
	t.Parallel()
	agent := newBot()
	agent.Instructions = "Be kind."
	agent.Models = map[string]cairn.Model{"deep": scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		return scripted.Text("deep: " + req.System)
	})}
	w := newWorldOf(t, nil, agent)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	call := want[pageBody[cairn.CallBrief]](w, 200, "a", "GET", "/inbox", nil).Items[0]

	instructions, deep := "Be strict.", "deep"
	at := client.Branching{SessionID: "f", Messages: new(1)}
	for _, in := range []client.Forking{{Branching: at, Instructions: &instructions}, {Branching: client.Branching{SessionID: "f"}, Result: &client.ForkResult{CallID: call.ID, Error: "no"}}} {
		if p := want[problemBody](w, 400, "a", "POST", "/sessions/s/fork", in); p.Field != "instructions" && p.Field != "result" {
			t.Errorf("a user's fork is refused with %+v", p)
		}
	}
	if p := want[problemBody](w, 400, "a", "POST", "/sessions/s/fork", client.Forking{Branching: at, Model: new("huge")}); p.Field != "model" || !strings.Contains(p.Detail, "deep") {
		t.Errorf("an unknown model is refused with %+v", p)
	}
	want[problemBody](w, 404, "a", "GET", "/sessions/f", nil)

	made := want[cairn.Session](w, 201, "x", "POST", "/sessions/s/fork", client.Forking{Branching: at, Instructions: &instructions, Model: &deep})
	if made.ID != "f" || made.RunID == "" || made.Branch.Instructions != instructions || made.Branch.From != "s" || made.Branch.Model != "deep" {
		t.Errorf("the fork is %+v", made.Branch)
	}
	w.settled("f")
	list := want[messagesBody](w, 200, "a", "GET", "/sessions/f/messages", nil)
	if text := list.Items[len(list.Items)-1]; text.Text() != "deep: Be strict." {
		t.Errorf("the fork says %q", text.Text())
	}
	if seen := want[cairn.Session](w, 200, "a", "GET", "/sessions/f", nil); seen.Branch.Instructions != "" || seen.Branch.Model != "deep" {
		t.Errorf("the user sees %+v", seen.Branch)
	}
	if seen := want[cairn.Session](w, 200, "x", "GET", "/sessions/f", nil); seen.Branch.Instructions != instructions {
		t.Errorf("an administrator sees %+v", seen.Branch)
	}

	deny := cairn.Deny(cairn.CallRef{ID: call.ID, Kind: cairn.CallApproval, ApprovalID: approvalOf(w, "s", call.ID)}, "never")
	want[cairn.Session](w, 201, "a", "POST", "/sessions/s/fork", client.Forking{Branching: client.Branching{SessionID: "g"}, Answer: &deny})
	w.settled("g")
	raw, _ := json.Marshal(want[messagesBody](w, 200, "a", "GET", "/sessions/g/messages", nil))
	if !strings.Contains(string(raw), "never") {
		t.Errorf("the fork with a denial has %s", raw)
	}
	if row := w.settled("s"); row.Status != cairn.SessionPaused {
		t.Errorf("the session that was forked is %s", row.Status)
	}
}

func approvalOf(w *world, root, id string) string {
	w.t.Helper()
	return want[cairn.PendingCall](w, 200, "a", "GET", "/inbox/"+root+"/"+id, nil).ApprovalID
}
