package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a log that many goroutines write.
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

// Nothing can be done with a session that was deleted, by its own user neither, but to restore it.
func TestNoRouteServesADeletedSession(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	want[Started](w, 202, "a", "POST", "/start", startIn{SessionID: "s", Agent: "bot", Input: Input{Text: "pay"}})
	w.settled("s")
	call := want[Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0].ID
	want[none](w, 204, "a", "DELETE", "/sessions/s", nil)
	for _, rt := range routes() {
		path, body := w.request(rt, "s", call)
		if rt.anonymous || strings.HasSuffix(path, "/restore") || rt.Path == "/sessions" || rt.Path == "/inbox" || !strings.Contains(path, "s") {
			continue
		}
		if rt.Path == "/start" || rt.Path == "/chat" || strings.Contains(rt.Path, "{") || strings.Contains(path, "=s") {
			if res, data := w.do("a", rt.Method, path, body); res.StatusCode != 404 {
				t.Errorf("%s %s: %d %s", rt.Method, rt.Path, res.StatusCode, data)
			}
		}
	}
}

// Ids with tricks, and bodies without end, get clear refusals, and tokens get into no log and no answer.
func TestHostileRequests(t *testing.T) {
	var log lockedBuffer
	const token = "a-very-secret-token"
	w := newWorld(t, &Options{RequestsPerMinute: -1, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Authenticate: Tokens(map[string]*Principal{token: {User: "alice", Roles: []Role{RoleUser}}})})
	for _, id := range []string{"%2e%2e%2fother", "a%00b", "%0d%0aSet-Cookie:%20x=1", "%ff%fe", strings.Repeat("x", 5000), "a%2fb%2f..", "*", "%25s"} {
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
	if res, err := http.DefaultClient.Do(req); err == nil { // else the server has closed the connection in mid-body
		res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("100 MiB: %s", res.Status)
		}
	}
	if page := want[Page[struct{}]](w, 200, token, "GET", "/sessions", nil); len(page.Items) != 0 {
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
