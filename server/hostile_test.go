package server

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// lockedBuffer is a log with concurrent writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A session that was deleted or has expired accepts no operation, even from its own user, except to be restored. Only its
// user learns that it has expired.
func TestNoRouteServesARemovedSession(t *testing.T) {
	for name, test := range map[string]struct {
		remove func(w *world)
		status int
	}{
		"deleted": {func(w *world) { want[none](w, 204, "a", "DELETE", "/sessions/s", nil) }, 404},
		"expired": {func(w *world) { w.ahead.Store(int64(time.Hour)) }, 410},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &Options{RequestsPerMinute: -1})
			want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
			w.settled("s")
			call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0].ID
			until := time.Now().Add(time.Minute)
			want[cairn.Session](w, 200, "a", "PATCH", "/sessions/s", patchIn{Change: client.Change{ExpiresAt: &until}})
			test.remove(w)
			for _, rt := range routes() {
				path, body := w.request(rt, "s", call)
				if rt.anonymous || strings.HasSuffix(path, "/restore") || rt.Path == "/sessions" || rt.Path == "/inbox" || !strings.Contains(path, "s") {
					continue
				}
				if rt.Path == "/start" || rt.Path == "/chat" || strings.Contains(rt.Path, "{") || strings.Contains(path, "=s") {
					for token, status := range map[string]int{"a": test.status, "e": 404} {
						if strings.Contains(path, call) || strings.HasSuffix(rt.Path, "/submit-tool-result") || strings.HasSuffix(rt.Path, "/promote") {
							status = 404
						}
						if status == 404 {
							status = missing(rt)
						}
						if res, data := w.do(token, rt.Method, path, body); res.StatusCode != status {
							t.Errorf("%s %s with token %s: %d %s", rt.Method, rt.Path, token, res.StatusCode, data)
						}
					}
				}
			}
			if page := want[pageBody[cairn.PendingCall]](w, 200, "a", "GET", "/inbox?user_id=alice", nil); len(page.Items) > 0 {
				t.Errorf("its calls are in the inbox: %+v", page.Items)
			}
		})
	}
}

// A call is decided only under the session of its tree, by a user of that session, in the user's own name, and
// once.
func TestForgedApprovals(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	calls, approvals := map[string]string{}, map[string]string{} // by session, by call
	for session, token := range map[string]string{"s": "a", "s2": "a", "of-eve": "e"} {
		want[client.Started](w, 202, token, "POST", "/start", startIn{Turn: client.Turn{SessionID: session, Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
		w.settled(session)
		call := want[client.Status](w, 200, token, "GET", "/status?session_id="+session, nil).Calls[0]
		calls[session], approvals[call.ID] = call.ID, call.ApprovalID
	}
	approve := func(call, reviewer string) map[string]any {
		body := map[string]any{"type": "approval-response", "call_id": call, "approval_id": approvals[call], "approved": true}
		if reviewer != "" {
			body["reviewer"] = reviewer
		}
		return body
	}
	for name, c := range map[string]struct {
		token, session, call, reviewer string
		status                         int
	}{
		"another user's call in one's own session":  {"e", "of-eve", calls["s"], "", 404},
		"another user's call in the other session":  {"e", "s", calls["s"], "", 404},
		"another user's call in one's own name":     {"e", "s", calls["s"], "eve", 404},
		"a call of another session of one's own":    {"a", "s2", calls["s"], "", 404},
		"one's own call, in the name of a reviewer": {"a", "s", calls["s"], "rita", 400},
		"one's own call, as a user of another name": {"a", "s", calls["s"], "Alice", 400},
		"a call that never was":                     {"a", "s", "call_x", "", 404},
		"a call with a path for its id":             {"a", "s", "../s2/" + calls["s2"], "", 404},
		"no call at all":                            {"a", "s", "", "", 400},
	} {
		for _, path := range []string{"/submit-tool-result?session_id=" + c.session, "/chat/" + c.session + "/submit-tool-result"} {
			if res, data := w.do(c.token, "POST", path, approve(c.call, c.reviewer)); res.StatusCode != c.status {
				t.Errorf("%s, by %s: %d %s", name, path, res.StatusCode, data)
			}
		}
	}
	// A chat client's post with another user's call decides nothing, in its own session or in the other one.
	for session, status := range map[string]int{"of-eve": 0, "s": 404} {
		part := map[string]any{"type": "tool-pay", "toolCallId": calls["s"], "state": "approval-responded", "input": payment{100},
			"approval": map[string]any{"id": approvals[calls["s"]], "approved": true}}
		res, data := w.do("e", "POST", "/chat", map[string]any{"id": session, "trigger": "submit-message",
			"messages": []any{map[string]any{"id": "m", "role": "assistant", "parts": []any{part}}}})
		if status != 0 && res.StatusCode != status || bytes.Contains(data, []byte("paid")) {
			t.Errorf("a chat on %s: %d %s", session, res.StatusCode, data)
		}
	}
	for session, token := range map[string]string{"s": "a", "s2": "a", "of-eve": "e"} {
		if st := want[client.Status](w, 200, token, "GET", "/status?session_id="+session, nil); len(st.Calls) != 1 || st.Calls[0].Status != cairn.CallOpen {
			t.Errorf("session %s has the calls %+v", session, st.Calls)
		}
	}
	deny := approve(calls["s"], "")
	deny["approved"] = false
	if r := want[cairn.Receipt](w, 200, "a", "POST", "/submit-tool-result?session_id=s", deny); r.Outcome != cairn.OutcomeAccepted {
		t.Errorf("the first decision: %+v", r)
	}
	if r := want[cairn.Receipt](w, 200, "a", "POST", "/submit-tool-result?session_id=s", approve(calls["s"], "")); r.Outcome != cairn.OutcomeAlreadyCompleted {
		t.Errorf("the second decision: %+v", r)
	}
	want[client.Started](w, 202, "a", "POST", "/resume", map[string]any{"session_id": "s"})
	w.settled("s")
	if _, data := w.do("a", "GET", "/sessions/s/snapshot", nil); bytes.Contains(data, []byte("paid")) || !bytes.Contains(data, []byte(calls["s"])) {
		t.Errorf("a denied call has run: %s", data)
	}
}

// A client that sends its body slowly is cut off, whether it has a valid token or not.
func TestSlowBodies(t *testing.T) {
	w := newWorld(t, &Options{ReadTimeout: 50 * time.Millisecond})
	for _, token := range []string{"a", "wrong"} { // valid or not
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /start HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", token)
		answer, err := io.ReadAll(conn) // ends because the server closes the connection
		status := map[string]string{"a": "HTTP/1.1 408 ", "wrong": "HTTP/1.1 401 "}[token]
		if err != nil || !strings.HasPrefix(string(answer), status) {
			t.Errorf("with the token %q: %v, %s", token, err, answer)
		}
	}
	if page, err := w.eng.Sessions(t.Context(), store.SessionQuery{}); err != nil || len(page.Items) > 0 {
		t.Errorf("it left %+v, %v", page.Items, err)
	}
}

// A client that does not read a large answer is cut off.
func TestSlowReaders(t *testing.T) {
	seen := &watchEnds{routes: make(chan string, 10)}
	w := newWorld(t, &Options{WriteTimeout: time.Second, Observer: seen})
	srv := httptest.NewServer(w.h) // the responses are cut off and cannot be checked
	t.Cleanup(srv.Close)
	if _, err := w.eng.Create(t.Context(), "s", "bot", engine.WithUser("alice")); err != nil { // not by the server, which a busy machine may delay
		t.Fatal(err)
	}
	message := cairn.User(cairn.TextPart(strings.Repeat("x", 1<<20)))
	if _, err := driver.AppendMessages(t.Context(), w.st, "s", slices.Repeat([]cairn.Message{message}, 32)...); err != nil { // more than a connection buffers
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /sessions/s/snapshot HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n\r\n")
	for timeout := time.After(time.Minute); ; {
		select {
		case route := <-seen.routes:
			if route == "GET /sessions/{id}/snapshot" {
				return
			}
		case <-timeout:
			t.Fatal("it keeps the answer")
		}
	}
}

// watchEnds is an observer that reports which requests have ended.
type watchEnds struct {
	unobserved
	routes chan string
}

func (e *watchEnds) Request(route string, _ int, _ time.Duration) { e.routes <- route }

// A user who requests ten thousand streams gets only the permitted number.
func TestTenThousandStreams(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	for range streamsPerUser {
		if res, _ := w.stream("a", "/sse?session_id=s", ""); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	for range 10_000 {
		req := httptest.NewRequest("GET", "/sse?session_id=s", nil)
		req.Header.Set("Authorization", "Bearer a")
		res := httptest.NewRecorder()
		if w.h.ServeHTTP(res, req); res.Code != 429 {
			t.Fatalf("status %d: %s", res.Code, res.Body)
		}
	}
	want[cairn.Session](w, 200, "a", "GET", "/sessions/s", nil)
}

// Request headers reach no response except in a valid form.
func TestHostileHeaders(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	for header, c := range map[string]struct {
		value  string
		status string
	}{
		"X-Request-Id":  {"a b", "200"},
		"X-Request-Id ": {"a", "400"},
		"X-Request-ID":  {"a\x00b", "400"},
		"Last-Event-ID": {"../../s.1", "410"},
		"last-event-id": {strings.Repeat("9", 5000), "400"},
		"Authorization": {"Bearer a, Bearer x", "401"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		path, own := "/sessions/s", "Authorization: Bearer a\r\n"
		if strings.EqualFold(header, "Last-Event-ID") {
			path = "/sse?session_id=s"
		}
		if header == "Authorization" {
			own = ""
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s%s: %s\r\n\r\n", path, own, header, c.value)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.status) || strings.Contains(string(answer), "Id: "+c.value+"\r") {
			t.Errorf("%s: %.40q: %v, %s", header, c.value, err, answer)
		}
	}
}

// Malicious ids and endless bodies are refused clearly, and tokens appear in no log and no response.
func TestHostileRequests(t *testing.T) {
	var log lockedBuffer
	const token = "a-very-secret-token"
	w := newWorld(t, &Options{RequestsPerMinute: -1, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Authenticate: Tokens(map[string]*Principal{token: {User: "alice", Roles: []Role{RoleUser}}})})
	for _, id := range []string{"%2e%2e%2fother", "a%00b", "%0d%0aSet-Cookie:%20x=1", "%ff%fe", strings.Repeat("x", 5000), "a%2fb%2f..", "*", "%25s", "%c3%a9%cc%81", "%e2%80%ae", "%f0%9f%92%a9", strings.Repeat("%f0%9f%92%a9", 500)} {
		for _, path := range []string{"/sessions/" + id, "/sessions/" + id + "/messages", "/chat/" + id, "/status?session_id=" + id,
			"/inbox/" + id + "/" + id, "/sse?session_id=" + id} {
			res, data := w.do(token, "GET", path, nil)
			if res.StatusCode != 400 && res.StatusCode != 404 || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("GET %.80s: %d %.200s", path, res.StatusCode, data)
			}
			if bytes.Contains(data, []byte(token)) {
				t.Errorf("GET %.80s shows the token: %.200s", path, data)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/start", io.LimitReader(endless{}, 100<<20))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if res, err := http.DefaultClient.Do(req); err == nil { // otherwise the server has closed the connection while reading the body
		res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("100 MiB: %s", res.Status)
		}
	}
	if page := want[pageBody[struct{}]](w, 200, token, "GET", "/sessions", nil); len(page.Items) != 0 {
		t.Errorf("%d sessions were made", len(page.Items))
	}
	if strings.Contains(log.String(), token) {
		t.Errorf("the token is in the log:\n%s", log.String())
	}
}

// endless is JSON that does not end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '['
	}
	return len(b), nil
}
