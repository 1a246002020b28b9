package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// clerkWorld is a server whose agent looks something up and then needs what ask names: an approval (pay), a client
// (locate), an account (connect), or an approval in a sub-agent (refund). Approvals go to the reviewers, if there are
// any.
func clerkWorld(t *testing.T, reviewers ...string) *world {
	t.Helper()
	type text struct {
		Text string `json:"text"`
	}
	approved := []cairn.ToolOption{cairn.RequireApproval()}
	if len(reviewers) > 0 {
		approved = []cairn.ToolOption{cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, reviewers...)}
	}
	done := func(context.Context, *cairn.Call, text) (string, error) { return "done", nil }
	plays := func(r *cairn.Request, call string) scripted.Step {
		if last := r.Messages[len(r.Messages)-1]; last.Role != cairn.RoleUser {
			return scripted.Text("Done.")
		}
		return scripted.Reply(scripted.Call("look", text{"it"}), scripted.Call(call, text{"it"}))
	}
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, text) (string, error) { return "what the tool found", nil })
	pay := cairn.Func("pay", "Pays.", done, approved...)
	desk := &cairn.Agent{Name: "desk", Description: "Refunds.", Tools: []cairn.Tool{look, pay},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step { return plays(r, "pay") })}
	connect := cairn.Func("connect", "Connects.", func(ctx context.Context, call *cairn.Call, _ text) (string, error) {
		return "done", call.Connect(ctx, "Connect the account.", "https://accounts.example/connect")
	})
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{look, pay, connect, cairn.ClientTool[text, string]("locate", "Locates."), cairn.SubAgent(desk)},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			last := r.Messages[len(r.Messages)-1]
			switch said := last.Text(); {
			case said == "refund":
				return scripted.Reply(scripted.Call("look", text{"it"}), scripted.Call("desk", map[string]string{"input": "refund it"}))
			case slices.Contains([]string{"pay", "locate", "connect"}, said):
				return plays(r, said)
			}
			return scripted.Text("Hello.")
		})}
	return newWorldOf(t, &Options{RequestsPerMinute: -1}, agent)
}

// ask takes turns of alice's in the session "s" and returns the open calls.
func (w *world) ask(turns ...string) []cairn.PendingCall {
	w.t.Helper()
	for _, text := range turns {
		want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: text}}})
		w.settled("s")
	}
	return want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls
}

// A reviewer reads the session of an open call, and those that wait for it, up to the message with the call, and no
// longer than it is open.
func TestReviewerReadsUpToCall(t *testing.T) {
	for text, depth := range map[string]int{"pay": 1, "refund": 2} {
		t.Run(text, func(t *testing.T) {
			w := clerkWorld(t)
			call := w.ask("hello", text)[0]
			sessions := []string{"s", call.SessionID}[:depth]
			if call.SessionID != sessions[depth-1] {
				t.Fatalf("the call is of session %q", call.SessionID)
			}
			for _, id := range sessions {
				all := want[messagesBody](w, 200, "a", "GET", "/sessions/"+id+"/messages", nil)
				part := want[messagesBody](w, 200, "r", "GET", "/sessions/"+id+"/messages", nil)
				last := part.Items[len(part.Items)-1]
				if part.Total != len(all.Items)-1 || len(part.Items) != part.Total || len(last.ToolUses()) != 2 {
					t.Errorf("the reviewer reads %d of %d messages of %s, the last one %+v", len(part.Items), len(all.Items), id, last)
				}
				if behind := want[messagesBody](w, 200, "r", "GET", "/sessions/"+id+"/messages?from=100", nil); len(behind.Items) > 0 {
					t.Errorf("behind the call: %+v", behind)
				}
				if got := want[cairn.Session](w, 200, "r", "GET", "/sessions/"+id, nil); got.ID != id {
					t.Errorf("the session is %+v", got)
				}
			}
			if st := want[client.Status](w, 200, "r", "GET", "/status?session_id=s", nil); len(st.Calls) != 1 || st.Calls[0].ID != call.ID {
				t.Errorf("the status is %+v", st)
			}
			if _, chat := w.do("r", "GET", "/chat/s", nil); !strings.Contains(string(chat), "hello") || strings.Contains(string(chat), "what the tool found") {
				t.Errorf("the chat is %s", chat)
			}
			for _, path := range []string{"/sessions/s/snapshot", "/sessions/s?include=cache", "/sessions/s/runs", "/sessions/s/checkpoints", "/sessions/s/queue"} {
				want[problemBody](w, 404, "r", "GET", path, nil)
			}
			if res, _ := w.do("r", "HEAD", "/sse?session_id=s", nil); res.StatusCode != http.StatusNotFound {
				t.Errorf("the events: %s", res.Status)
			}
			want[problemBody](w, 404, "e", "GET", "/sessions/s/messages", nil)
			want[cairn.Receipt](w, 200, "r", "POST", "/submit-tool-result", map[string]any{"session_id": "s", "type": "approval-response",
				"call_id": call.ID, "approval_id": call.ApprovalID, "approved": true})
			for _, id := range sessions {
				want[problemBody](w, 404, "r", "GET", "/sessions/"+id+"/messages", nil)
			}
		})
	}
}

// A call is shown, with its session, to those who may decide it: the reviewers that it names, or, for what only the
// session's user can do, that user.
func TestReviewersSeeWhatTheyDecide(t *testing.T) {
	for name, test := range map[string]struct {
		text      string
		reviewers []string
		sees      bool
	}{
		"an approval":                {"pay", nil, true},
		"an approval by the reader":  {"pay", []string{"rita"}, true},
		"an approval by another":     {"pay", []string{"rob"}, false},
		"a client's tool":            {"locate", nil, false},
		"an account of the user's":   {"connect", nil, false},
		"an approval in a sub-agent": {"refund", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := clerkWorld(t, test.reviewers...)
			call := w.ask(test.text)[0]
			shown, status := 0, 404
			if test.sees {
				shown, status = 1, 200
			}
			if box := want[pageBody[cairn.PendingCall]](w, 200, "r", "GET", "/inbox", nil); len(box.Items) != shown {
				t.Errorf("the inbox has %+v", box.Items)
			}
			for _, path := range []string{"/inbox/s/" + call.ID, "/sessions/s/messages", "/sessions/s", "/chat/s", "/status?session_id=s"} {
				if res, data := w.do("r", "GET", path, nil); res.StatusCode != status {
					t.Errorf("GET %s: %d %s", path, res.StatusCode, data)
				}
			}
			if res, data := w.do("r", "POST", "/inbox/s/"+call.ID+"/claim", nil); res.StatusCode != status {
				t.Errorf("claim: %d %s", res.StatusCode, data)
			}
		})
	}
}

// Another policy shows the context of a call only if it permits that action.
func TestPolicyDecidesOnContext(t *testing.T) {
	for permitted, status := range map[bool]int{true: 200, false: 404} {
		w := newWorld(t, &Options{Policy: func(_ context.Context, a Access) (bool, error) {
			own := a.Session.UserID == a.Principal.User
			return own || a.Action == ActionReview || permitted && a.Action == ActionContext && a.Call.Tool == "pay", nil
		}})
		w.ask("pay")
		want[struct{}](w, status, "r", "GET", "/sessions/s", nil)
	}
}

// An operator sees errors as they are, and changes nothing. Users and administrators see what is meant for users.
func TestOperatorSeesWholeErrors(t *testing.T) {
	agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if r.Messages[len(r.Messages)-1].Role == cairn.RoleUser {
			return scripted.Call("pay", payment{1})
		}
		return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "the provider's reason"))
	}), Tools: []cairn.Tool{cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, payment) (string, error) {
		return "", errors.New("the program's reason")
	})}}
	w := newWorldOf(t, nil, agent)
	run, err := w.eng.Execute(t.Context(), "s", "bot", cairn.Text("go"), engine.WithUser("alice"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = run.Wait(t.Context()) // it fails
	if e := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Error; e == nil || e.Code != cairn.ErrModelRequest {
		t.Errorf("the status of the owner has the error %+v", e)
	}
	for path, reason := range map[string]string{
		"/sessions/s/runs":                         "the provider's reason",
		"/status?session_id=s":                     "the provider's reason",
		"/sse?session_id=s&run_id=" + run.ID():     "the provider's reason",
		"/sessions/s/messages":                     "the program's reason",
		"/sessions/s/snapshot":                     "the program's reason",
		"/sessions?user_id=alice":                  "alice",
		"/inbox?user_id=alice":                     "items",
		"/sessions/s/messages?limit=1&from=100000": "items",
	} {
		res, data := w.do("o", "GET", path, nil)
		if res.StatusCode != 200 || !strings.Contains(string(data), reason) {
			t.Errorf("GET %s: %d %s, without %q", path, res.StatusCode, data, reason)
		}
		for _, token := range []string{"a", "x"} {
			if _, data := w.do(token, "GET", path, nil); strings.HasSuffix(reason, "reason") && strings.Contains(string(data), reason) {
				t.Errorf("GET %s with token %s: %s", path, token, data)
			}
		}
	}
}
