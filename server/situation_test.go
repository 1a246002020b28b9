package server

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
)

// briefly returns what a principal sees of a situation.
func briefly(s *cairn.Situation) string {
	if s == nil {
		return "none"
	}
	kind := s.Kind
	if kind == cairn.SituationModel { // the event of the call may be published later
		kind = cairn.SituationRunning
	}
	text := fmt.Sprint(kind, " ", s.Verbs)
	if s.Call != nil {
		text += fmt.Sprintf(" %s %s", s.Call.Tool, s.Call.Input)
	}
	if s.Error != nil {
		text += " " + s.Error.Message
	}
	if s.Owner != "" {
		text += " owned"
	}
	return text
}

// Operators and administrators see who stopped a run, wherever it says so, and users see only their own name.
func TestWhoStoppedARun(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	agent := newBot()
	agent.Model = scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Gate(gate) })
	w := newWorldOf(t, &Options{RequestsPerMinute: -1}, agent)
	for session, by := range map[string]string{"own": "a", "other": "x"} {
		want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: session, Agent: "bot", Input: client.UserMessage{Text: "work"}}})
		want[cairn.Session](w, 200, by, "POST", "/interrupt", map[string]string{"session_id": session, "reason": "enough"})
	}
	for session, sees := range map[string]map[string]string{
		"own":   {"a": "alice", "o": "alice", "x": "alice"},
		"other": {"a": "", "o": "xena", "x": "xena"},
	} {
		for token, expected := range sees {
			s := want[client.Status](w, 200, token, "GET", "/status?session_id="+session, nil).Situation
			if s.Kind != cairn.SituationStopped || s.Reason != "enough" || s.StoppedBy != expected {
				t.Errorf("%s of %s is %s by %q (%q), want %q", session, token, s.Kind, s.StoppedBy, s.Reason, expected)
			}
		}
		for token, expected := range map[string]string{"a": "", "o": sees["o"]} {
			for _, run := range want[pageBody[cairn.Run]](w, 200, token, "GET", "/sessions/"+session+"/runs", nil).Items {
				log, status := w.all(token, "/sse?session_id="+session+"&run_id="+run.ID, "")
				named := strings.Contains(log, `"name":"`+sees["o"]+`"`)
				if run.StoppedBy != expected || status != 200 || !strings.Contains(log, "event: run_end") || named != (expected != "") {
					t.Errorf("the run of %s says %q to %s, want %q; status %d, events %s", session, run.StoppedBy, token, expected, status, log)
				}
			}
		}
	}
}

// A situation has the verbs that the principal may use, whole errors for operators, and calls for those who may see them:
// alike in each response that has it.
func TestSituationsByRole(t *testing.T) {
	const secret = "key sk-1 was refused"
	gate := make(chan struct{})
	defer close(gate)
	agent := newBot()
	play := agent.Model
	agent.Model = scripted.Func(func(ctx context.Context, r *cairn.Request) scripted.Step {
		switch r.Messages[len(r.Messages)-1].Text() {
		case "fail":
			return scripted.Fail(cairn.Errorf(cairn.ErrAuth, "%s", secret))
		case "work":
			return scripted.Gate(gate)
		}
		return scripted.Text("Hello.")
	})
	paying := newBot()
	paying.Name, paying.Model = "paying", play
	w := newWorldOf(t, &Options{RequestsPerMinute: -1}, agent)
	if err := w.eng.Replace(agent, paying); err != nil {
		t.Fatal(err)
	}
	for session, say := range map[string]string{"paying": "pay", "failed": "fail", "done": "hello", "working": "work"} {
		name := "bot"
		if say == "pay" {
			name = "paying"
		}
		want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: session, Agent: name, Input: client.UserMessage{Text: say}}})
		if run, err := w.eng.Attach(t.Context(), session); err != nil {
			t.Fatal(err)
		} else if say != "work" {
			_, _ = run.Wait(t.Context()) // one fails
		}
	}
	const call = ` pay {"cents":100}`
	for session, sees := range map[string]map[string]string{
		"paying":  {"a": "approval [approve stop]" + call, "r": "approval [approve]" + call, "o": "approval []" + call, "x": "approval [approve stop]" + call},
		"failed":  {"a": "failed [retry] authentication", "o": "failed [] " + secret, "x": "failed [retry] authentication"},
		"done":    {"a": "done []", "o": "done []", "x": "done []"},
		"working": {"a": "running [stop]", "o": "running [] owned", "x": "running [stop] owned"},
	} {
		for token, expected := range sees {
			status := briefly(want[client.Status](w, 200, token, "GET", "/status?session_id="+session, nil).Situation)
			alone := briefly(want[client.ListedSession](w, 200, token, "GET", "/sessions/"+session, nil).Situation)
			listed := expected
			if token != "r" { // whose lists are of its own sessions
				listed = ""
				for _, s := range want[pageBody[client.ListedSession]](w, 200, token, "GET", "/sessions?include=situation", nil).Items {
					if s.ID == session {
						listed = briefly(s.Situation)
					}
				}
			}
			if status != expected || alone != expected || listed != expected {
				t.Errorf("%s for %s: %q in its status, %q alone, %q in the list, want %q", session, token, status, alone, listed, expected)
			}
		}
	}
	if list := want[pageBody[client.ListedSession]](w, 200, "a", "GET", "/sessions", nil).Items; len(list) != 4 || list[0].Situation != nil {
		t.Errorf("a list without situations: %+v", list)
	}
	if p := want[problemBody](w, 400, "a", "GET", "/sessions?include=messages", nil); p.Field != "include" {
		t.Errorf("an unknown addition: %+v", p)
	}
	w.checkCounts()
}

// checkCounts checks the counts of the four sessions of TestSituationsByRole.
func (w *world) checkCounts() {
	w.t.Helper()
	count := func(token, query string) string {
		var words []string
		for _, n := range want[client.SessionCounts](w, 200, token, "GET", "/session-counts"+query, nil).Statuses {
			if text := fmt.Sprint(n.Status, " ", n.Count); n.More {
				words = append(words, text+"+")
			} else if n.Count > 0 {
				words = append(words, text)
			}
		}
		return strings.Join(words, ", ")
	}
	for request, expected := range map[string]string{
		"a": "active 1, completed 1, failed 1, paused 1", "o": "active 1, completed 1, failed 1, paused 1", "e": "", "r": "",
		"a ?agent=paying": "paused 1", "a ?status=failed,paused": "failed 1, paused 1",
		"o ?user_id=alice&search=hello": "completed 1", "o ?user_id=eve": "",
	} {
		token, query, _ := strings.Cut(request, " ")
		if got := count(token, query); got != expected {
			w.t.Errorf("counts of %s: %q, want %q", request, got, expected)
		}
	}
	for i := range 3 {
		want[cairn.Session](w, 201, "a", "POST", "/sessions", fmt.Sprintf(`{"session_id":"new-%d","agent":"bot"}`, i))
	}
	for limit, expected := range map[int]string{2: "idle 2+", 3: "idle 3", 4: "idle 3"} {
		if got := count("a", fmt.Sprintf("?status=idle&limit=%d", limit)); got != expected {
			w.t.Errorf("counts up to %d: %q, want %q", limit, got, expected)
		}
	}
	for query, field := range map[string]string{"limit=1001": "limit", "limit=-1": "limit", "status=deleted": "status", "latest=true": "latest", "user_id=alice": "user_id"} {
		if p := want[problemBody](w, 400, "e", "GET", "/session-counts?"+query, nil); p.Field != field {
			w.t.Errorf("%s: %+v", url.QueryEscape(query), p)
		}
	}
}
