package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// listed returns the ids that a list of sessions has, in alphabetical order.
func (w *world) listed(token, query string) string {
	w.t.Helper()
	page := want[pageBody[cairn.Session]](w, 200, token, "GET", "/sessions?"+query, nil)
	var names []string
	for _, s := range page.Items {
		names = append(names, s.ID)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Sessions are found by everything by which the engine finds them.
func TestListFilters(t *testing.T) {
	w := newWorld(t, nil)
	for id, metadata := range map[string]string{
		"number": `{"seats":1,"order":{"lines":2,"express":true}}`, "text": `{"seats":"1","note":null}`, "plain": `{"plan":"pro"}`} {
		want[cairn.Session](w, 201, "a", "POST", "/sessions", fmt.Sprintf(`{"session_id":%q,"agent":"bot","tags":["t","t-%s"],"metadata":%s}`, id, id, metadata))
	}
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "paused", Input: client.UserMessage{Text: "pay"}}})
	w.settled("paused")
	_, err := driver.Create(t.Context(), w.st, &cairn.Session{ID: "child", Agent: "bot", UserID: "alice", ParentID: "plain", RootID: "plain"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.ahead.Store(int64(time.Hour))
	later := time.Now().Add(30 * time.Minute).UTC().Format(time.RFC3339)
	want[cairn.Session](w, 200, "a", "PATCH", "/sessions/plain", `{"metadata":{"plan":{"name":"pro"}}}`)
	want[cairn.Session](w, 201, "a", "POST", "/sessions", `{"session_id":"gone","agent":"bot"}`)
	want[none](w, 204, "a", "DELETE", "/sessions/gone", nil)
	want[cairn.Session](w, 201, "a", "POST", "/sessions", map[string]any{"session_id": "over", "expires_at": time.Now().Add(90 * time.Minute).UTC()})
	w.ahead.Store(int64(2 * time.Hour))
	filter := func(object string) string { return "metadata=" + url.QueryEscape(object) }
	for query, ids := range map[string]string{
		"": "number paused plain text", "tag=t": "number plain text", "tag=t&tag=t-text": "text",
		filter(`{"seats":1}`): "number", filter(`{"seats":"1"}`): "text", filter(`{"seats":1.0,"order":{"lines":2}}`): "number",
		filter(`{"order":{"express":true}}`): "number", filter(`{"order":{"express":"true"}}`): "", filter(`{"note":null}`): "text",
		filter(`{"plan":{"name":"pro"}}`): "plain", filter(`{"plan":"pro"}`): "",
		"parent_id=plain": "child", "status=paused": "paused", "status=idle": "number plain text",
		"status=idle,paused": "number paused plain text", "status=active": "", "status=deleted": "gone", "status=expired": "over",
		"status=expired&status=deleted": "gone over", "updated_after=" + later: "plain", "updated_before=" + later: "number paused text",
		"created_after=" + later: "", "created_before=" + later: "number paused plain text",
		"agent=bot": "number paused plain text", "assistant=bot": "number paused plain text", "assistant_id=other": "", "agent=bot&assistant_id=bot&tag=t-text": "text",
	} {
		if got := w.listed("a", query); got != ids {
			t.Errorf("%s: %q, want %q", query, got, ids)
		}
	}
	want[problemBody](w, 404, "e", "GET", "/sessions?parent_id=plain", nil)
	want[problemBody](w, 404, "a", "GET", "/sessions?parent_id=none", nil)
	for query, field := range map[string]string{
		"status=busy": "status", "status=": "status", "status=deleted,idle": "status", "metadata=pro": "metadata", "metadata=[1]": "metadata", "metadata=null": "metadata",
		filter(`{"a":[1]}`): "metadata", filter(`{"a":{}}`): "metadata", filter(`{"a":1,"a":2}`): "metadata", filter(`{"a":9007199254740993}`): "metadata",
		"agent=bot&assistant=other": "assistant", "updated_after=now": "updated_after", "removed=purged": "removed", "plan=pro": "plan", "limit=0x1": "limit",
	} {
		if p := want[problemBody](w, 400, "a", "GET", "/sessions?"+query, nil); p.Field != field || !strings.HasPrefix(p.Detail, field) {
			t.Errorf("%s: %+v, want the field %q", query, p, field)
		}
	}
}

// A page says how much of its list it is.
func TestPageShape(t *testing.T) {
	w := newWorld(t, nil)
	for n := range 25 {
		want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: fmt.Sprintf("s%02d", n)}})
	}
	page := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions", nil)
	if len(page.Items) != 20 || page.Limit != 20 || !page.HasMore || page.Offset == nil || *page.Offset != 0 || page.Cursor != "" || page.Next == "" {
		t.Errorf("the first page is %+v", page)
	}
	rest := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?cursor="+url.QueryEscape(page.Next), nil)
	if len(rest.Items) != 5 || rest.HasMore || rest.Next != "" || rest.Offset != nil || rest.Cursor != page.Next {
		t.Errorf("the last page is %+v", rest)
	}
	rest = want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?limit=10&offset=20", nil)
	if len(rest.Items) != 5 || rest.HasMore || rest.Limit != 10 || *rest.Offset != 20 {
		t.Errorf("the page at an offset is %+v", rest)
	}
	for _, path := range []string{"/sessions?offset=50", "/sessions/s00/runs", "/sessions/s00/checkpoints", "/sessions/s00/decisions", "/inbox", "/agents?offset=5"} {
		_, raw := w.do("a", "GET", path, nil)
		var shape map[string]any
		if err := json.Unmarshal(raw, &shape); err != nil || shape["has_more"] != false || shape["limit"] != 20.0 || len(shape["items"].([]any)) != 0 {
			t.Errorf("%s: %s", path, raw)
		}
	}
	messages := want[messagesBody](w, 200, "a", "GET", "/sessions/s00/messages", nil)
	if messages.Limit != 20 || messages.HasMore || messages.Total != 0 {
		t.Errorf("the messages are %+v", messages)
	}
}

// Each request that names an agent takes either of the three names of the field.
func TestNamesOfTheAgentField(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.eng.Replace(newBot(), &cairn.Agent{Name: "other", Description: "Does the rest.", Model: scripted.New(),
		Models: map[string]cairn.Model{"fast": scripted.New(), "deep": scripted.New()}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agent", "assistant", "assistant_id"} {
		for path, body := range map[string]string{
			"/sessions": `{"session_id":"s-%[1]s",%[1]q:"bot"}`, "/start": `{"session_id":"t-%[1]s",%[1]q:"bot","input":{"text":"hi"}}`,
			"/chat": `{"id":"c-%[1]s",%[1]q:"bot","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`,
		} {
			if res, raw := w.do("a", "POST", path, fmt.Sprintf(body, name)); res.StatusCode >= 300 {
				t.Errorf("%s in %s: %d %s", name, path, res.StatusCode, raw)
			}
		}
		if res, raw := w.do("a", "GET", "/inbox?"+name+"=bot", nil); res.StatusCode != 200 {
			t.Errorf("%s in the inbox: %d %s", name, res.StatusCode, raw)
		}
	}
	if p := want[problemBody](w, 400, "a", "POST", "/sessions", `{"agent":"bot","assistant_id":"other"}`); p.Field != "assistant_id" {
		t.Errorf("two agents: %+v", p)
	}
}

// A principal lists the agents of which it may create sessions, and an operator all.
func TestAgentsAreListed(t *testing.T) {
	w := newWorld(t, &Options{Policy: func(ctx context.Context, a Access) (bool, error) {
		if a.Session.Agent == "secret" && !a.Principal.Is(RoleAdmin) {
			return false, nil
		}
		return OwnSessions(ctx, a)
	}})
	fast := map[string]cairn.Model{"fast": scripted.New(), "deep": scripted.New()}
	if err := w.eng.Replace(newBot(), &cairn.Agent{Name: "other", Description: "Does the rest.", Version: "2", Model: scripted.New(), Models: fast},
		&cairn.Agent{Name: "secret", Model: scripted.New()}); err != nil {
		t.Fatal(err)
	}
	list := want[pageBody[client.Agent]](w, 200, "a", "GET", "/agents", nil)
	if got := fmt.Sprint(list.Items); got != "[{bot   [] true user} {other Does the rest. 2 [deep fast] true }]" || *list.Total != 2 {
		t.Errorf("a user lists %s of %d", got, *list.Total)
	}
	if list := want[pageBody[client.Agent]](w, 200, "x", "GET", "/agents?limit=1&offset=2", nil); len(list.Items) != 1 || list.Items[0].Name != "secret" || list.HasMore || *list.Total != 3 {
		t.Errorf("an administrator lists %+v", list)
	}
	if list := want[pageBody[client.Agent]](w, 200, "o", "GET", "/agents", nil); len(list.Items) != 3 || list.Items[0].Startable {
		t.Errorf("an operator lists %+v", list)
	}
	if list := want[pageBody[client.Agent]](w, 200, "r", "GET", "/agents", nil); len(list.Items) != 0 {
		t.Errorf("a reviewer lists %+v", list)
	}
}

// A session is shown together with what it has, and a checkpoint with its state. The decisions of people are on the
// session and on its branches.
func TestSessionWithDetails(t *testing.T) {
	w := newWorld(t, nil)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0]
	want[cairn.Receipt](w, 200, "r", "POST", "/submit-tool-result?session_id=s", map[string]any{"type": "approval-response",
		"call_id": call.ID, "approval_id": call.ApprovalID, "approved": false, "reason": "too much"})
	want[client.Started](w, 202, "a", "POST", "/resume?session_id=s", nil)
	w.settled("s")
	want[cairn.Session](w, 201, "a", "POST", "/sessions/s/branch", branchIn{Branching: client.Branching{SessionID: "b"}})
	want[none](w, 204, "a", "DELETE", "/sessions/s", nil)
	v := want[sessionViewBody](w, 200, "a", "GET", "/sessions/b?include=messages,decisions&include=checkpoints,cache", nil)
	if v.ID != "b" || v.Messages == nil || len(v.Messages.Items) != 4 || v.Checkpoints == nil || v.Decisions == nil || len(v.Decisions.Items) != 1 {
		t.Fatalf("the branch is %+v", v)
	}
	d := v.Decisions.Items[0]
	if d.CallID != call.ID || d.Tool != "pay" || d.Kind != cairn.DecisionDenied || d.Reviewer != "rita" || d.Notes != "too much" || d.Step == "" || d.At.IsZero() {
		t.Errorf("the decision is %+v", d)
	}
	if v := want[sessionViewBody](w, 200, "a", "GET", "/sessions/b", nil); v.Messages != nil || v.Checkpoints != nil || v.Decisions != nil || v.ToolCache != nil {
		t.Errorf("unasked: %+v", v)
	}
	for _, query := range []string{"include=", "include=messages,runs"} {
		if p := want[problemBody](w, 400, "a", "GET", "/sessions/b?"+query, nil); p.Field != "include" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	want[problemBody](w, 404, "e", "GET", "/sessions/b/decisions", nil)

	mark := want[cairn.Checkpoint](w, 201, "a", "POST", "/sessions/b/checkpoints", nil)
	want[cairn.Session](w, 200, "x", "PUT", "/sessions/b/state", `{"state":{"n":1}}`)
	at := want[client.CheckpointView](w, 200, "a", "GET", "/sessions/b/checkpoints/"+mark.ID, nil)
	if at.ID != mark.ID || at.MessageCount != 4 || string(at.State) != "{}" {
		t.Errorf("the checkpoint is %+v with the state %s", at.Checkpoint, at.State)
	}
	want[problemBody](w, 404, "a", "GET", "/sessions/b/checkpoints/none", nil)
	want[problemBody](w, 404, "e", "GET", "/sessions/b/checkpoints/"+mark.ID, nil)
}

// Decided calls are listed with the statuses that a request names.
func TestInboxByStatus(t *testing.T) {
	w := newWorld(t, nil)
	for _, id := range []string{"open", "decided"} {
		want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: id, Input: client.UserMessage{Text: "pay"}}})
		w.settled(id)
	}
	call := want[pageBody[cairn.PendingCall]](w, 200, "a", "GET", "/inbox?session_id=decided", nil).Items[0]
	want[cairn.Receipt](w, 200, "a", "POST", "/submit-tool-result?session_id=decided", map[string]any{"type": "approval-response",
		"call_id": call.ID, "approval_id": call.ApprovalID, "approved": true})
	want[client.Started](w, 202, "a", "POST", "/resume?session_id=decided", nil)
	w.settled("decided")
	for query, want1 := range map[string]string{"": "open", "status=open": "open", "status=settled": "decided", "status=settled,open": "open decided",
		"status=dropped&status=settled": "decided", "status=answered": "", "status=settled&agent=other": ""} {
		var got []string
		for _, c := range want[pageBody[cairn.PendingCall]](w, 200, "r", "GET", "/inbox?"+query, nil).Items {
			got = append(got, c.RootID)
		}
		if strings.Join(got, " ") != want1 {
			t.Errorf("%s: %q, want %q", query, got, want1)
		}
	}
	for query, field := range map[string]string{"status=done": "status", "kind=call": "kind"} {
		if p := want[problemBody](w, 400, "a", "GET", "/inbox?"+query, nil); p.Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// The extent of a stream is one request, and an administrator can publish events of the application on it.
func TestStreamOfASession(t *testing.T) {
	w := newWorld(t, nil)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "hi"}}})
	w.settled("s")
	before := want[client.Stream](w, 200, "a", "GET", "/sessions/s/stream", nil)
	if before.First != 1 || before.Last < 3 || !before.Ended || before.Cursor.Sequence != before.Last {
		t.Errorf("the stream is %+v", before)
	}
	want[none](w, 204, "x", "POST", "/sessions/s/events", `{"name":"order.shipped","data":{"parcel":7}}`)
	list, err := w.eng.History(t.Context(), "s", before.Cursor, 0)
	if err != nil || len(list) != 1 || list[0].Type != cairn.EventCustom || list[0].Name != "order.shipped" || string(list[0].Data) != `{"parcel":7}` || list[0].SessionID != "s" {
		t.Errorf("the log continues with %+v, %v", list, err)
	}
	for body, token := range map[string]string{`{"name":"x"}`: "a", `{"name":""}`: "x", `{"name":"a\n"}`: "x"} {
		if p := want[problemBody](w, 400, token, "POST", "/sessions/s/events", body); p.Field != "name" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	want[problemBody](w, 404, "e", "POST", "/sessions/s/events", `{"name":"x"}`)
	want[problemBody](w, 404, "e", "GET", "/sessions/s/stream", nil)
}
