package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/server/internal/notebook"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

type payment struct {
	Cents int `json:"cents"`
}

// world is a server with two users, a reviewer, an operator and an administrator, on sessions in memory.
type world struct {
	t   *testing.T
	st  *memstore.Store
	eng *engine.Engine
	h   *Handler
	url string
	// aside are paths that the tests' clients call in addition to the server's own.
	aside *http.ServeMux
	ahead atomic.Int64 // offset of the store's clock
}

func newWorld(t *testing.T, opts *Options) *world {
	t.Helper()
	return newWorldOf(t, opts, newBot())
}

// newBot is an agent whose tool needs an approval.
func newBot() *cairn.Agent {
	pay := cairn.Func("pay", "Pays.", func(_ context.Context, _ *cairn.Call, in payment) (string, error) {
		return fmt.Sprintf("paid %d", in.Cents), nil
	}, cairn.RequireApproval())
	return &cairn.Agent{Name: "bot", Tools: []cairn.Tool{pay}, Memory: &notebook.Memory{Kind: cairn.MemoryOfUser}, Workspace: shelf{"note.txt": "a tree"}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == cairn.RoleUser && last.Text() == "pay often" {
			return scripted.Reply(slices.Repeat([]scripted.Step{scripted.Call("pay", payment{100})}, 120)...)
		}
		if last.Role == cairn.RoleUser && strings.Contains(last.Text(), "pay") {
			return scripted.Call("pay", payment{100})
		}
		return scripted.Text("You said: " + last.Text())
	})}
}

func newWorldOf(t *testing.T, opts *Options, agent *cairn.Agent) *world {
	t.Helper()
	w := &world{t: t}
	st := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})
	t.Cleanup(func() { st.Close() })
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	if opts == nil {
		opts = &Options{}
	}
	if !opts.AllowUnauthenticated && opts.Authenticate == nil {
		opts.Authenticate = Tokens(map[string]*Principal{
			"a": {User: "alice", Roles: []Role{RoleUser}}, "e": {User: "eve", Roles: []Role{RoleUser}},
			"r": {User: "rita", Roles: []Role{RoleReviewer}}, "o": {User: "olga", Roles: []Role{RoleOperator}}, "x": {User: "xena", Roles: []Role{RoleAdmin}}})
	}
	if !opts.AllowUnauthenticated && opts.SignIn == nil {
		opts.SignIn = &SignIn{}
	}
	h, err := New(eng, opts)
	if err != nil {
		t.Fatal(err)
	}
	aside := http.NewServeMux()
	aside.Handle("/", newContract(t).around(h))
	srv := httptest.NewServer(aside)
	t.Cleanup(srv.Close)
	t.Cleanup(h.Drain) // otherwise Close waits for streams
	w.st, w.eng, w.h, w.url, w.aside = st, eng, h, srv.URL, aside
	return w
}

// do makes a request. It returns the response and its body.
func (w *world) do(token, method, path string, body any) (*http.Response, []byte) {
	w.t.Helper()
	var in io.Reader
	if body != nil {
		raw, ok := body.(string)
		if !ok {
			data, err := json.Marshal(body)
			if err != nil {
				w.t.Fatal(err)
			}
			raw = string(data)
		}
		in = strings.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, in)
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, data
}

// want makes a request and decodes its response, which must have the given status.
func want[Out any](w *world, status int, token, method, path string, body any) Out {
	w.t.Helper()
	res, data := w.do(token, method, path, body)
	if res.StatusCode != status {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, path, res.StatusCode, status, data)
	}
	var out Out
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			w.t.Fatalf("%s %s: %v: %s", method, path, err, data)
		}
	}
	return out
}

// settled waits until a session's run has ended.
func (w *world) settled(session string) *cairn.Session {
	w.t.Helper()
	run, err := w.eng.Attach(w.t.Context(), session)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := run.Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	row, err := w.eng.Session(w.t.Context(), session)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

func TestNewFailsClosed(t *testing.T) {
	w := newWorld(t, nil)
	for _, opts := range []*Options{nil, {}, {MaxBody: -1, AllowUnauthenticated: true},
		{AllowUnauthenticated: true, Authenticate: Tokens(nil)}, {AllowUnauthenticated: true, Origins: []string{"example.com"}}} {
		if _, err := New(w.eng, opts); err == nil {
			t.Errorf("options %+v make a handler", opts)
		}
	}
	if _, err := New(nil, &Options{AllowUnauthenticated: true}); err == nil {
		t.Error("no engine makes a handler")
	}
}

// A turn that needs a person, from its start through the approval to its end.
func TestTurn(t *testing.T) {
	w := newWorld(t, nil)
	begun := want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay 1"}}})
	if begun.SessionID != "s" || begun.RunID == "" || begun.Turn != 1 {
		t.Fatalf("got %+v", begun)
	}
	w.settled("s")
	st := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil)
	if st.Session.Status != cairn.SessionPaused || len(st.Calls) != 1 || st.Session.Lease != (cairn.Lease{}) {
		t.Fatalf("got %+v", st)
	}
	call := st.Calls[0]
	box := want[pageBody[cairn.PendingCall]](w, 200, "r", "GET", "/inbox", nil)
	if len(box.Items) != 1 || box.Items[0].ID != call.ID {
		t.Fatalf("the reviewer's inbox is %+v", box)
	}
	want[cairn.PendingCall](w, 200, "r", "POST", "/inbox/s/"+call.ID+"/claim", nil)
	approve := map[string]any{"session_id": "s", "type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true}
	if p := want[problemBody](w, 409, "a", "POST", "/submit-tool-result", approve); p.Code != "claimed" {
		t.Errorf("another one's claim: %+v", p)
	}
	approve["reviewer"] = "alice"
	if p := want[problemBody](w, 400, "r", "POST", "/submit-tool-result", approve); p.Field != "reviewer" {
		t.Errorf("in another's name: %+v", p)
	}
	delete(approve, "reviewer")
	receipt := want[cairn.Receipt](w, 200, "r", "POST", "/submit-tool-result", approve)
	if receipt.Outcome != cairn.OutcomeAccepted || !receipt.Ready || receipt.Call.Answer.Reviewer != "rita" {
		t.Fatalf("got %+v", receipt)
	}
	want[client.Started](w, 202, "a", "POST", "/resume?session_id=s", nil)
	if row := w.settled("s"); row.Status != cairn.SessionCompleted {
		t.Errorf("it is %s", row.Status)
	}
	list := want[messagesBody](w, 200, "a", "GET", "/sessions/s/messages", nil)
	if list.Total != len(list.Items) {
		t.Errorf("%d of %d messages", len(list.Items), list.Total)
	}
	if text := list.Items[len(list.Items)-1]; text.Role != cairn.RoleAssistant {
		t.Errorf("the last message is %+v", text)
	}
	if runs := want[pageBody[cairn.Run]](w, 200, "a", "GET", "/sessions/s/runs", nil); len(runs.Items) != 2 || *runs.Total != 2 {
		t.Errorf("got %d runs", len(runs.Items))
	}
	marks := want[pageBody[cairn.Checkpoint]](w, 200, "a", "GET", "/sessions/s/checkpoints?limit=1", nil)
	if len(marks.Items) != 1 || marks.Next == "" {
		t.Fatalf("got %+v", marks)
	}
	made := want[cairn.Session](w, 201, "a", "POST", "/sessions/s/branch", branchIn{Branching: client.Branching{SessionID: "s2", CheckpointID: marks.Items[0].ID}})
	if made.ID != "s2" || made.UserID != "alice" {
		t.Errorf("the branch is %+v", made)
	}
	want[cairn.Session](w, 200, "a", "POST", "/sessions/s/rewind", rewindIn{Rewind: wire.Rewind{CheckpointID: marks.Items[0].ID}})
	if all := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?assistant_id=bot", nil); len(all.Items) != 2 {
		t.Errorf("got %d sessions", len(all.Items))
	}
	named := want[cairn.Session](w, 200, "a", "PATCH", "/sessions/s2", `{"title": "A refund", "metadata": {"plan": "pro"}, "tags": ["vip"]}`)
	if named.Title != "A refund" || named.Metadata["plan"] != "pro" || len(named.Tags) != 1 {
		t.Errorf("it is %+v", named)
	}
	if found := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?search=refund", nil); len(found.Items) != 1 || found.Items[0].ID != "s2" {
		t.Errorf("found %+v", found.Items)
	}
	if p := want[problemBody](w, 400, "a", "PATCH", "/sessions/s2", `{"user_id": "eve"}`); p.Field != "user_id" {
		t.Errorf("got %+v", p)
	}
	want[problemBody](w, 400, "a", "PATCH", "/sessions/s2", `{}`)
	w.do("a", "DELETE", "/sessions/s2", nil)
	want[problemBody](w, 404, "a", "GET", "/sessions/s2", nil)
}

// A stop that names a run affects no other run.
func TestStop(t *testing.T) {
	w := newWorld(t, nil)
	first := want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
	w.settled("s")
	second := want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	late := map[string]string{"session_id": "s", "run_id": first.RunID}
	if p := want[problemBody](w, 409, "a", "POST", "/interrupt", late); p.Code != "not_running" {
		t.Errorf("a late stop: %+v", p)
	}
	row := want[cairn.Session](w, 200, "a", "POST", "/abort", map[string]string{"session_id": "s", "run_id": second.RunID, "reason": "enough"})
	if row.Status != cairn.SessionFailed {
		t.Errorf("it is %s", row.Status)
	}
	want[problemBody](w, 404, "a", "POST", "/abort", map[string]string{"session_id": "s", "run_id": "another"})
}

// A paused session names its pending calls. A turn that is queued behind them can be removed.
func TestQueue(t *testing.T) {
	w := newWorld(t, nil)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	more := startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "hi"}}}
	if p := want[problemBody](w, 409, "a", "POST", "/start", more); p.Code != "waiting" || len(p.Calls) != 1 || p.Calls[0].Tool != "pay" {
		t.Errorf("got %+v", p)
	}
	more.OnWaiting = "enqueue"
	queued := want[client.Started](w, 202, "a", "POST", "/start", more)
	if list := want[pageBody[client.QueuedTurn]](w, 200, "a", "GET", "/sessions/s/queue", nil); len(list.Items) != 1 || list.Items[0].ID != queued.RunID || *list.Total != 1 {
		t.Errorf("the queue is %+v", list)
	}
	want[none](w, 204, "a", "DELETE", "/sessions/s/queue/"+queued.RunID, nil)
	want[problemBody](w, 404, "a", "DELETE", "/sessions/s/queue/"+queued.RunID, nil)
	more.OnWaiting = "withdraw"
	want[client.Started](w, 202, "a", "POST", "/start", more)
	if row := w.settled("s"); row.Status != cairn.SessionCompleted {
		t.Errorf("it is %s", row.Status)
	}
}

// However many calls are pending, each is shown and can be answered.
func TestManyOpenCalls(t *testing.T) {
	w := newWorld(t, nil)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay often"}}})
	w.settled("s")
	calls := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls
	if len(calls) != 120 {
		t.Fatalf("%d calls are shown", len(calls))
	}
	answer := aisdk.Message{Role: "assistant", Parts: []aisdk.Part{}}
	for _, c := range calls {
		yes := true
		answer.Parts = append(answer.Parts, aisdk.Part{Type: "tool-pay", CallID: c.ID, Approval: &aisdk.Approval{ID: c.ApprovalID, Approved: &yes}})
	}
	if res, data := w.do("a", "POST", "/chat", chatIn{ID: "s", Messages: []aisdk.Message{answer}}); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, data)
	}
	if row := w.settled("s"); row.Status != cairn.SessionCompleted || row.Usage.ToolCalls != 120 {
		t.Errorf("it is %s after %d calls", row.Status, row.Usage.ToolCalls)
	}
}

// However many calls of others there are, a request for one's own reads a bounded number of pages, and the next
// request continues.
func TestInboxBehindOthers(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	for n := range 1 + inboxPages*maxPage/120 {
		id := fmt.Sprint("of-eve-", n)
		want[client.Started](w, 202, "e", "POST", "/start", startIn{Turn: client.Turn{SessionID: id, Agent: "bot", Input: client.UserMessage{Text: "pay often"}}})
		w.settled(id)
	}
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	page := want[pageBody[cairn.PendingCall]](w, 200, "a", "GET", "/inbox?limit=100", nil)
	if len(page.Items) > 0 || page.Next == "" {
		t.Fatalf("the first page is %+v", page)
	}
	page = want[pageBody[cairn.PendingCall]](w, 200, "a", "GET", "/inbox?limit=100&cursor="+url.QueryEscape(page.Next), nil)
	if len(page.Items) != 1 || page.Items[0].RootID != "s" {
		t.Errorf("the second page is %+v", page)
	}
}

// The response to a HEAD is that of the GET without its body. This includes streams, which do not keep the client
// waiting.
func TestHead(t *testing.T) {
	w := newWorld(t, &Options{StreamsPerUser: 1})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	for _, is := range []struct{ path, kind string }{
		{"/sse?session_id=s", "text/event-stream"}, {"/sessions/s", "application/json"}, {"/sse?session_id=s", "text/event-stream"}} {
		req := httptest.NewRequestWithContext(t.Context(), "HEAD", is.path, nil)
		req.Header.Set("Authorization", "Bearer a")
		answered, res := make(chan struct{}), httptest.NewRecorder()
		go func() {
			w.h.ServeHTTP(res, req)
			close(answered)
		}()
		select {
		case <-answered:
		case <-time.After(20 * time.Second):
			t.Fatalf("HEAD %s is not answered", is.path)
		}
		if res.Code != 200 || res.Header().Get("Content-Type") != is.kind {
			t.Errorf("HEAD %s: %d %v", is.path, res.Code, res.Header())
		}
	}
	if res, _ := w.do("e", "HEAD", "/sse?session_id=s", nil); res.StatusCode != 404 {
		t.Errorf("of another user: %s", res.Status)
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, &Options{MaxBody: 2000})
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		field        string
	}{
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"text":"hi"},"extra":1}`, 400, "extra"},
		{"POST", "/start", `{"session_id":5}`, 400, "session_id"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{}}`, 400, "input"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","on_busy":"later","input":{"text":"hi"}}`, 400, "on_busy"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","on_waiting":"later","input":{"text":"hi"}}`, 400, "on_waiting"},
		{"POST", "/start", `{"session_id":"s","agent":"none","input":{"text":"hi"}}`, 404, "agent"},
		{"POST", "/start", `{"session_id":"a\u0000","agent":"bot","input":{"text":"hi"}}`, 400, "body"},
		{"POST", "/start?session_id=s", `{"session_id":"t","agent":"bot","input":{"text":"hi"}}`, 400, "session_id"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"files":[{"url":"data:x"}]}}`, 400, "url"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"text":"hi"},"session_id":"t"}`, 400, "session_id"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"text":"hi"},"Session_ID":"t"}`, 400, "session_id"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"text":"hi","text":"ho"}}`, 400, "text"},
		{"POST", "/chat", `{"id":"s","messages":[{"id":"m","role":"user","role":"system","parts":[{"type":"text","text":"hi"}]}]}`, 400, "role"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"text":"hi"}} {}`, 400, "body"},
		{"POST", "/start", `null`, 400, "input"},
		{"POST", "/start", `[]`, 400, "body"},
		{"POST", "/start", `{`, 400, "body"},
		{"POST", "/start", strings.Repeat("[", 200) + strings.Repeat("]", 200), 400, "body"},
		{"POST", "/start", `{"input":{"text":"` + strings.Repeat("x", 3000) + `"}}`, 413, "body"},
		{"POST", "/start", `{"session_id":"s","agent":"bot","input":{"files":[{"name":"a","url":"https://x"}]}}`, 400, "input.file.media_type"},
		{"POST", "/chat", `{"id":"s","messages":[]}`, 400, "messages"},
		{"POST", "/chat", `{"id":"s","version":4,"messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]}`, 400, "version"},
		{"POST", "/chat", `{"id":"s","messages":[{"role":"user","parts":[]}]}`, 400, "messages"},
		{"POST", "/chat", `{"id":"s","messages":[{"role":"user","parts":[{"type":"file","filename":"a","url":"https://x"}]}]}`, 400, "input.file.media_type"},
		{"POST", "/chat", `{"id":"s","messages":[{"id":"\n","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, 400, "messages"},
		{"POST", "/chat", `{"id":"s","trigger":"regenerate-message","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, 404, "session_id"},
		{"POST", "/chat", `{"id":"s","messageId":"m","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, 404, "session_id"},
		{"POST", "/start", `{"session_id":"s","input":{"text":"hi"},"tags":3}`, 400, "tags"},
		{"POST", "/start", `{"session_id":"s","input":{"text":3}}`, 400, "input.text"},
		{"POST", "/sessions", `{"assistant":3}`, 400, "assistant"},
		{"GET", "/sessions?limit=101", nil, 400, "limit"},
		{"GET", "/sessions?limit=x", nil, 400, "limit"},
		{"GET", "/sessions?limit=1&limit=2", nil, 400, "limit"},
		{"GET", "/sessions?offset=5&cursor=x", nil, 400, "offset"},
		{"GET", "/sessions?created_after=yesterday", nil, 400, "created_after"},
		{"GET", "/sessions?user_id=eve", nil, 400, "user_id"},
		{"GET", "/sessions?colour=red", nil, 400, "colour"},
		{"GET", "/sse?session_id=", nil, 400, "session"},
		{"GET", "/sessions/" + strings.Repeat("x", 300), nil, 400, "session"},
		{"GET", "/sessions/..%2f..%2fetc", nil, 400, "session"},
		{"GET", "/nowhere", nil, 404, ""},
		{"PUT", "/sessions", nil, 405, ""},
	} {
		res, data := w.do("a", c.method, c.path, c.body)
		var p problemBody
		if err := json.Unmarshal(data, &p); err != nil {
			t.Errorf("%s %s: %v: %s", c.method, c.path, err, data)
		}
		if res.StatusCode != c.status || p.Status != c.status || p.Field != c.field || p.Detail == "" || p.RequestID == "" ||
			p.RequestID != res.Header.Get("X-Request-Id") || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s, want status %d and field %q", c.method, c.path, res.StatusCode, data, c.status, c.field)
		}
	}
	if page, err := w.eng.Sessions(t.Context(), store.SessionQuery{}); err != nil || len(page.Items) > 0 {
		t.Errorf("bad requests left %+v, %v", page.Items, err)
	}
	req, _ := http.NewRequest("POST", w.url+"/start", strings.NewReader(`{"agent":"bot","input":{"text":"hi"}}`))
	req.Header.Set("Authorization", "Bearer a")
	req.Header.Set("Content-Type", "text/plain")
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != 415 {
		t.Errorf("a body that is not JSON: %v, %v", res, err)
	}
}

// A new session gets the engine's agent. If there are several, the request must name one.
func TestAgentOfANewSession(t *testing.T) {
	w := newWorld(t, nil)
	begin := func(session string) (status int, field string) {
		res, data := w.do("a", "POST", "/start", startIn{Turn: client.Turn{SessionID: session, Input: client.UserMessage{Text: "hi"}}})
		var p problemBody
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, p.Field
	}
	if status, _ := begin("s"); status != 202 {
		t.Errorf("with one agent: %d", status)
	}
	if row := w.settled("s"); row.Agent != "bot" {
		t.Errorf("the agent is %q", row.Agent)
	}
	if row := want[cairn.Session](w, 201, "a", "POST", "/sessions", struct{}{}); row.Agent != "bot" {
		t.Errorf("the agent is %q", row.Agent)
	}
	if err := w.eng.Replace(newBot(), &cairn.Agent{Name: "other", Model: scripted.New()}); err != nil {
		t.Fatal(err)
	}
	if status, _ := begin("s"); status != 202 {
		t.Errorf("a session that has its agent: %d", status)
	}
	if status, field := begin("new"); status != 400 || field != "agent" {
		t.Errorf("with two agents: %d, %q", status, field)
	}
}

func TestOrigins(t *testing.T) {
	w := newWorld(t, &Options{Origins: []string{"https://app.example.com"}})
	ask := func(method, origin, site string) *http.Response {
		req, _ := http.NewRequest(method, w.url+"/sessions", strings.NewReader(`{"agent":"bot"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Origin", origin)
		req.Header.Set("Sec-Fetch-Site", site)
		if method == http.MethodOptions {
			req.Header.Set("Access-Control-Request-Method", "POST")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	if res := ask("POST", "https://evil.example.com", "cross-site"); res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page: %d %v", res.StatusCode, res.Header)
	}
	if res := ask("POST", "https://app.example.com", "cross-site"); res.StatusCode != 201 || res.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a permitted page: %d %v", res.StatusCode, res.Header)
	}
	if res := ask("OPTIONS", "https://app.example.com", "cross-site"); res.StatusCode != 204 || !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Last-Event-ID") {
		t.Errorf("its preflight: %d %v", res.StatusCode, res.Header)
	} else {
		allowed := strings.Split(res.Header.Get("Access-Control-Allow-Methods"), ", ")
		for _, r := range routes() {
			if !slices.Contains(allowed, r.Method) {
				t.Errorf("a preflight allows %q, which %s %s is not in", allowed, r.Method, r.Path)
			}
		}
	}
}

func TestRequestRate(t *testing.T) {
	var w *world
	for codes := []int(nil); codes == nil; {
		w = newWorld(t, &Options{RequestsPerMinute: 20})
		began := time.Now()
		for range 4 {
			res, _ := w.do("a", "GET", "/sessions", nil)
			codes = append(codes, res.StatusCode)
		}
		if time.Since(began) >= time.Minute/20 { // the third was permitted, since this took so long
			codes = nil
		} else if !slices.Equal(codes, []int{200, 200, 429, 429}) {
			t.Fatalf("got %v", codes)
		}
	}
	if res, _ := w.do("e", "GET", "/sessions", nil); res.StatusCode != 200 {
		t.Errorf("another user: %d", res.StatusCode)
	}
}

// The reason of an internal failure is in the server's log, not in its response.
func TestFailuresWithin(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Authenticate: func(*http.Request) (*Principal, error) {
		return nil, fmt.Errorf("the password of the directory is hunter2")
	}})
	p := want[problemBody](w, 503, "a", "GET", "/sessions", nil)
	if strings.Contains(fmt.Sprint(p), "hunter2") || !p.Retryable {
		t.Errorf("got %+v", p)
	}
	if !strings.Contains(log.String(), "request failed") {
		t.Errorf("the log is %s", &log)
	}
}

// The documentation lists every route.
func TestRoutesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/SERVER.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, rt := range routes() {
		fmt.Fprintf(&want, "| `%s %s` | %s |\n", rt.Method, rt.Path, rt.Summary)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("docs/SERVER.md does not list the routes as\n%s", &want)
	}
}

// Only an administrator sets the state of a session, since tools trust it.
func TestAdministratorSetsState(t *testing.T) {
	w := newWorld(t, nil)
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	in := stateIn{SetState: wire.SetState{State: []byte(`{"plan":"pro"}`)}}
	if p := want[problemBody](w, 400, "a", "PUT", "/sessions/s/state", in); p.Field != "state" {
		t.Errorf("from its user: %+v", p)
	}
	row := want[cairn.Session](w, 200, "x", "PUT", "/sessions/s/state", in)
	if got := want[client.SessionSnapshot](w, 200, "a", "GET", "/sessions/s/snapshot", nil); string(got.State) != `{"plan":"pro"}` {
		t.Errorf("the state is %s", got.State)
	}
	in.State, in.Version = []byte(`{"plan":"gold"}`), row.Version-1
	if p := want[problemBody](w, 409, "x", "PUT", "/sessions/s/state", in); p.Code != "stale" {
		t.Errorf("with an old version: %+v", p)
	}
	in.State, in.Version = []byte(`[]`), 0
	if p := want[problemBody](w, 400, "x", "PUT", "/sessions/s/state", in); p.Field != "state" {
		t.Errorf("a list: %+v", p)
	}
}
