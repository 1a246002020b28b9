package server

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// A client tool has run when its result is posted, so characters that no session keeps are replaced in it. In what a
// caller can say again they are refused.
func TestResultOfAClientToolIsKept(t *testing.T) {
	for name, c := range map[string]struct{ path, body, want string }{
		"a submission":      {"/submit-tool-result", `{"session_id":"s","type":"client-tool-result","call_id":"ID","result":{"city":"Os\u0000lo\ud83d"}}`, `{"city":"Os\ufffdlo\ufffd"}`},
		"bytes":             {"/submit-tool-result", "{\"session_id\":\"s\",\"type\":\"client-tool-result\",\"call_id\":\"ID\",\"result\":{\"city\":\"caf\xe9\"}}", `{"city":"caf\ufffd"}`},
		"an error":          {"/submit-tool-result", `{"session_id":"s","type":"client-tool-result","call_id":"ID","error":"no\u0000"}`, "no\uFFFD"},
		"a chat":            {"/chat", `{"id":"s","messages":[{"id":"t","role":"assistant","parts":[{"type":"tool-locate","toolCallId":"ID","state":"output-available","output":{"city":"Os\u0000lo"}}]}]}`, `{"city":"Os\ufffdlo"}`},
		"an error in chats": {"/chat", `{"id":"s","messages":[{"id":"t","role":"assistant","parts":[{"type":"tool-locate","toolCallId":"ID","state":"output-error","errorText":"no\ud83d"}]}]}`, "no\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			w := chatWorld(t)
			want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "where"}}})
			w.settled("s")
			call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0].ID
			if res, body := w.do("a", "POST", c.path, strings.ReplaceAll(c.body, "ID", call)); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if c.path != "/chat" {
				want[client.Started](w, 202, "a", "POST", "/resume", map[string]string{"session_id": "s"})
			}
			w.settled("s")
			list, err := w.eng.Messages(t.Context(), "s", 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range list {
				for _, r := range list[i].ToolResults() {
					got = append(got, string(r.Output))
				}
			}
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("the model reads %q, want %s", got, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ path, body, field string }{
		"a user's words":      {"/chat", `{"id":"s","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"a\u0000"}]}]}`, "body"},
		"a reviewer's reason": {"/submit-tool-result", `{"session_id":"s","type":"approval-response","call_id":"ID","approval_id":"AP","reason":"\u0000"}`, "reason"},
		"a start":             {"/start", `{"session_id":"s2","agent":"bot","input":{"text":"a\u0000"}}`, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			w := chatWorld(t)
			want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
			w.settled("s")
			call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0]
			body := strings.NewReplacer("ID", call.ID, "AP", call.ApprovalID).Replace(c.body)
			if res, out := w.do("a", "POST", c.path, body); res.StatusCode != 400 || !strings.Contains(string(out), `"field":"`+c.field) {
				t.Errorf("%d %s, want an error about %s", res.StatusCode, out, c.field)
			}
			if row, err := w.eng.Session(t.Context(), "s"); err != nil || row.Status != cairn.SessionPaused {
				t.Errorf("the session is %v, %v", row, err)
			}
		})
	}
}
