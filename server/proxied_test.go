package server

import (
	"github.com/cairn-agents/cairn/client"
	"net/http"
	"strings"
	"testing"
)

// Behind a proxy that changes the host, a browser that sends no Sec-Fetch-Site, as over plain http, is recognized by the
// origin of Options.URL.
func TestURLIsTheOriginOfItsPages(t *testing.T) {
	post := func(w *world, origin string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/start", strings.NewReader(`{"agent": "bot", "input": {"text": "hi"}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer a", "Content-Type": "application/json", "Origin": origin} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	w := newWorld(t, &Options{URL: "http://chat.example:8080/agents"})
	for origin, want := range map[string]int{"http://chat.example:8080": 202, "http://chat.example": 403, "https://chat.example:8080": 403, "http://evil.example": 403, w.url: 202} {
		if got := post(w, origin); got != want {
			t.Errorf("from %s: %d, want %d", origin, got, want)
		}
	}
	if got := post(newWorld(t, nil), "http://chat.example:8080"); got != 403 {
		t.Errorf("without a URL: %d", got)
	}
}

// A process that is about to stop is not ready, so that proxies pass it by, and closes connections after their response.
// It serves requests and streams until it is drained.
func TestLameDuckServesUntilItIsDrained(t *testing.T) {
	w := newWorld(t, nil)
	if res, _ := w.do("", "GET", "/readyz", nil); res.StatusCode != 200 || res.Close {
		t.Errorf("at first: %d, closes: %v", res.StatusCode, res.Close)
	}
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
	open, lines := w.stream("a", "/sse?session_id=s", "")
	defer open.Body.Close()
	w.h.LameDuck()
	if res, _ := w.do("", "GET", "/readyz", nil); res.StatusCode != 503 || !res.Close {
		t.Errorf("readyz: %d, closes: %v", res.StatusCode, res.Close)
	}
	if res, _ := w.do("a", "GET", "/sessions/s", nil); res.StatusCode != 200 || !res.Close {
		t.Errorf("a session: %d, closes: %v", res.StatusCode, res.Close)
	}
	if res, _ := w.stream("a", "/sse?session_id=s", ""); res.StatusCode != 200 || !res.Close {
		t.Errorf("a stream: %d, closes: %v", res.StatusCode, res.Close)
	} else {
		res.Body.Close()
	}
	for lines.Scan() {
		if lines.Text() == "event: run_end" {
			break
		}
	}
	w.h.Drain()
	for lines.Scan() {
	}
	if lines.Err() == nil {
		t.Error("the open stream ends as if it were whole")
	}
	if p := want[problemBody](w, 503, "a", "GET", "/sse?session_id=s", nil); p.Code != "closed" {
		t.Errorf("a stream after that: %+v", p)
	}
}
