package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// A turn keeps the traceparent of the request that began it, on a new session and on one that exists; a malformed one is
// ignored. Users do not see it.
func TestTraceParent(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newWorldOf(t, nil, &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("one"), scripted.Text("two"), scripted.Text("three"))})
	for _, header := range []string{parent, "00-x", parent} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/start", strings.NewReader(`{"session_id": "s", "agent": "bot", "input": {"text": "hi"}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("traceparent", header)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusAccepted {
			t.Fatal(res, err)
		}
		res.Body.Close()
		run, err := w.eng.Attach(t.Context(), "s")
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runs, err := w.eng.Runs(t.Context(), "s", store.PageQuery{})
	if err != nil || len(runs.Items) != 3 {
		t.Fatal(runs, err)
	}
	for i, want := range []string{parent, "", parent} {
		if got := runs.Items[i].TraceParent; got != want {
			t.Errorf("run %d has %q, want %q", i+1, got, want)
		}
	}
	_, body := w.do("a", "GET", "/sessions/s/runs", nil)
	events, _ := w.all("a", "/sse?session_id=s&run_id="+runs.Items[0].ID, "")
	if !strings.Contains(events, "run_start") || strings.Contains(string(body)+events, "0af765") {
		t.Errorf("%s\n%s", body, events)
	}
}
