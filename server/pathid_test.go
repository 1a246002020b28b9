package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
)

// An id that a client or a proxy takes for a part of the path's structure is refused, wherever it can be chosen.
func TestIDsThatPathsLoseAreRefused(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
	w.settled("s")
	for _, id := range []string{".", "..", "a/..", "../s", "a/./b", "/", "/s", "s/", "a//b"} {
		for path, body := range map[string]any{
			"/sessions":          map[string]any{"session_id": id, "agent": "bot"},
			"/start":             map[string]any{"session_id": id, "agent": "bot", "input": client.UserMessage{Text: "hi"}},
			"/resume":            map[string]any{"session_id": id},
			"/interrupt":         map[string]any{"session_id": id},
			"/sessions/s/branch": map[string]any{"session_id": id},
			"/chat": map[string]any{"id": id, "assistant": "bot", "messages": []any{
				map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "hi"}}}}},
		} {
			if p := want[problemBody](w, 400, "a", "POST", path, body); p.Code != "invalid_argument" || p.Field == "" {
				t.Errorf("POST %s of %q: %+v", path, id, p)
			}
		}
	}
	if page, err := w.eng.Sessions(t.Context(), store.SessionQuery{}); err != nil || len(page.Items) != 1 {
		t.Errorf("the sessions are %+v, %v", page.Items, err)
	}
	for _, id := range []string{"...", "a.b", "a/b", "%2e%2e"} {
		if made := want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: id, Agent: "bot"}}); made.ID != id {
			t.Errorf("session %q is %q", id, made.ID)
		}
	}
}

// A path that is not clean is refused. A redirect to the clean one would lead to another route, for a DELETE of a queued
// turn to that of the session.
func TestUncleanPathsAreRefused(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	for _, path := range []string{"/sessions/s/queue/..", "/sessions/s/queue/../", "/sessions/./s", "/sessions//s", "//sessions/s", "/sessions/s//", "/sessions/x/../s"} {
		for _, method := range []string{"GET", "DELETE", "PATCH"} {
			req, res := httptest.NewRequest(method, "http://x/", http.NoBody), httptest.NewRecorder()
			req.URL.Path = path
			req.Header.Set("Authorization", "Bearer a")
			if w.h.ServeHTTP(res, req); res.Code != 400 || !strings.Contains(res.Body.String(), `"field":"path"`) {
				t.Errorf("%s %s: %d %s", method, path, res.Code, res.Body)
			}
		}
	}
	want[cairn.Session](w, 200, "a", "GET", "/sessions/s", nil)
	want[problemBody](w, 404, "a", "DELETE", "/sessions/s/queue/%2e%2e", nil)
	want[cairn.Session](w, 200, "a", "GET", "/sessions/s", nil)
}
