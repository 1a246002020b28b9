package server

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A client can choose another model of its agent for each run.
func TestModelOfARun(t *testing.T) {
	says := func(text string) cairn.Model {
		return scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text(text) })
	}
	failing := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "no"))
	})
	w := newWorldOf(t, nil, &cairn.Agent{Name: "bot", Model: says("own"), Models: map[string]cairn.Model{"deep": says("deep"), "broken": failing}})
	answer := func(started *client.Started) string {
		events, _ := w.all("a", "/sse?type=text_delta&type=run_end&session_id=s&run_id="+started.RunID, "")
		return events
	}
	start := func(path, body, says string) {
		t.Helper()
		out := want[client.Started](w, 202, "a", "POST", path, body)
		if got := answer(&out); !strings.Contains(got, says) {
			t.Errorf("%s %s: %q is not in %s", path, body, says, got)
		}
	}
	start("/start", `{"session_id":"s","agent":"bot","input":{"text":"hi"}}`, "own")
	start("/start", `{"session_id":"s","model":"deep","input":{"text":"hi"}}`, "deep")
	start("/start", `{"session_id":"s","model":"broken","input":{"text":"hi"}}`, "content_filtered")
	start("/retry", `{"session_id":"s"}`, "content_filtered")
	start("/retry", `{"session_id":"s","model":"deep"}`, "deep")
	start("/start", `{"session_id":"s","model":"broken","input":{"text":"hi"}}`, "content_filtered")
	start("/retry", `{"session_id":"s","model":""}`, "own")
	for _, path := range []string{"/start", "/retry"} {
		body := `{"session_id":"s","model":"secret","input":{"text":"hi"}}`
		if path == "/retry" {
			body = `{"session_id":"s","model":"secret"}`
		}
		if p := want[problemBody](w, 400, "a", "POST", path, body); p.Code != "invalid_argument" {
			t.Errorf("%s: got %+v", path, p)
		}
	}
	for _, body := range []string{`{"session_id":"new","agent":"bot","model":"secret","input":{"text":"hi"}}`,
		`{"session_id":"new","agent":"bot","model":"deep","on_busy":"steer","input":{"text":"hi"}}`} {
		want[problemBody](w, 400, "a", "POST", "/start", body)
		want[problemBody](w, 404, "a", "GET", "/sessions/new", "") // nothing was created
	}
}
