package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/aisdk"
)

// stream opens a stream and returns its lines as they arrive.
func (w *world) stream(token, path, last string) (*http.Response, *bufio.Scanner) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	return res, bufio.NewScanner(res.Body)
}

// all reads a stream to its end.
func (w *world) all(token, path, last string) (string, int) {
	w.t.Helper()
	res, _ := w.stream(token, path, last)
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s after %q: %v", path, last, err)
	}
	return string(data), res.StatusCode
}

// The stream of a run is the same when it is interrupted after any of its events and resumed there, byte for byte.
func TestStreamResumesAnywhere(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 3 {
		want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: fmt.Sprint("turn ", i)}}})
		w.settled("s")
	}
	runs := want[pageBody[cairn.Run]](w, 200, "a", "GET", "/sessions/s/runs", nil)
	path := "/sse?session_id=s&run_id=" + runs.Items[1].ID
	whole, _ := w.all("a", path, "")
	frames := strings.SplitAfter(whole, "\n\n")
	frames = frames[:len(frames)-1]
	if len(frames) < 5 || !strings.Contains(frames[len(frames)-1], "event: run_end\n") {
		t.Fatalf("the run's events are %s", whole)
	}
	for i, f := range frames {
		id, _, _ := strings.Cut(strings.TrimPrefix(f, "id: "), "\n")
		rest, status := w.all("a", path, id)
		if got := strings.Join(frames[:i+1], "") + rest; got != whole {
			t.Errorf("resumed after %s: %s", id, rest)
		}
		if last := i == len(frames)-1; last != (status == 204) {
			t.Errorf("resumed after %s: status %d", id, status)
		}
	}
	if only, _ := w.all("a", path+"&type=text_delta", ""); strings.Count(only, "event: ") != strings.Count(only, "event: text_delta\n") || only == "" {
		t.Errorf("of one type: %s", only)
	}
}

// The stream of a session shows every turn, by any process, sends comments while it is silent, and is cut when the
// server is drained.
func TestSessionStream(t *testing.T) {
	w := newWorld(t, &Options{KeepAlive: 20 * time.Millisecond})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	res, lines := w.stream("a", "/sse?session_id=s", "")
	if h := res.Header; h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-transform") {
		t.Errorf("the headers are %v", h)
	}
	until := func(line string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == line {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", line, lines.Err())
	}
	until(": keep-alive")
	for range 2 {
		if _, err := w.eng.Execute(t.Context(), "s", "bot", cairn.Text("hi")); err != nil {
			t.Fatal(err)
		}
		until("event: run_start")
		until("event: run_end")
	}
	w.h.Drain()
	for lines.Scan() {
	}
	if lines.Err() == nil {
		t.Error("the stream was closed as if it were whole")
	}
	if res, _ := w.do("a", "GET", "/sse?session_id=s", nil); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("a drained server: %d", res.StatusCode)
	}
	if res, _ := w.do("", "GET", "/readyz", nil); res.StatusCode != 503 {
		t.Errorf("a drained server is ready: %d", res.StatusCode)
	}
	if res, _ := w.do("", "GET", "/healthz", nil); res.StatusCode != 200 {
		t.Errorf("a drained server is not alive: %d", res.StatusCode)
	}
}

// A session that is deleted ends its open streams. Afterwards there is nothing to resume.
func TestStreamOfDeleted(t *testing.T) {
	w := newWorld(t, nil)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
	w.settled("s")
	_, lines := w.stream("a", "/sse?session_id=s", "")
	for lines.Scan() && lines.Text() != "event: run_end" {
	}
	if res, data := w.do("a", "DELETE", "/sessions/s", nil); res.StatusCode != 204 {
		t.Fatalf("status %d: %s", res.StatusCode, data)
	}
	deleted := false
	for lines.Scan() {
		deleted = deleted || lines.Text() == "event: session_deleted"
	}
	if !deleted {
		t.Error("the stream does not say that the session was deleted")
	}
	want[problemBody](w, 404, "a", "GET", "/sse?session_id=s", nil)
}

func TestStreamsPerUser(t *testing.T) {
	w := newWorld(t, &Options{StreamsPerUser: 2})
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	var open []*http.Response
	for range 2 {
		res, _ := w.stream("a", "/sse?session_id=s", "")
		open = append(open, res)
	}
	if p := want[problemBody](w, 429, "a", "GET", "/sse?session_id=s", nil); p.Code != "too_many_streams" {
		t.Errorf("got %+v", p)
	}
	// A post whose stream is refused has no effect.
	said := chatIn{ID: "s", Messages: []aisdk.Message{{Role: "user", Parts: []aisdk.Part{{Type: "text", Text: "hi"}}}}}
	want[problemBody](w, 429, "a", "POST", "/chat", said)
	if row, err := w.eng.Session(t.Context(), "s"); err != nil || row.Turn != 0 {
		t.Errorf("the session is %+v, %v", row, err)
	}
	open[0].Body.Close()
	testclock.Await(t, "a stream that its client left not to count", func() bool {
		res, _ := w.stream("a", "/sse?session_id=s", "")
		return res.StatusCode == 200
	})
}

// A server that is being stopped begins nothing.
func TestNoTurnWhileDraining(t *testing.T) {
	w := newWorld(t, nil)
	want[cairn.Session](w, 201, "a", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "s", Agent: "bot"}})
	w.h.Drain()
	said := chatIn{ID: "s", Messages: []aisdk.Message{{Role: "user", Parts: []aisdk.Part{{Type: "text", Text: "hi"}}}}}
	want[problemBody](w, 503, "a", "POST", "/chat", said)
	if row, err := w.eng.Session(t.Context(), "s"); err != nil || row.Turn != 0 {
		t.Errorf("the session is %+v, %v", row, err)
	}
}

// A provider's text about a failed call, and the failure of a sub-agent, are on the log but are not sent to
// clients.
func TestErrorsOfRunsStayPrivate(t *testing.T) {
	const secret = "hunter2"
	failed := func() *cairn.Error {
		return cairn.Errorf(cairn.ErrModelRequest, "key %s is of another tenant", secret)
	}
	child := &cairn.Agent{Name: "child", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Fail(failed()) })}
	asked := 0
	w := newWorldOf(t, nil, &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(child)}, Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		if asked++; asked == 1 {
			return scripted.Call("child", map[string]string{"input": "look"})
		}
		return scripted.Fail(failed())
	})})
	run := want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "go"}}})
	events, _ := w.all("a", "/sse?session_id=s&run_id="+run.RunID, "")
	log, err := w.eng.History(t.Context(), "s", cairn.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := json.Marshal(log); !strings.Contains(string(raw), secret) {
		t.Fatalf("the log has not why the turn failed: %s", raw)
	}
	if !strings.Contains(events, `"code":"model_request"`) {
		t.Errorf("the code is not in %s", events)
	}
	for _, path := range []string{"/sessions/s", "/sessions/s/runs", "/sessions/s/messages", "/sessions/s/snapshot", "/status?session_id=s", "/chat/s"} {
		res, body := w.do("a", "GET", path, nil)
		if res.StatusCode != 200 {
			t.Errorf("%s: %d: %s", path, res.StatusCode, body)
		}
		events += string(body)
	}
	if i := strings.Index(events, secret); i >= 0 {
		t.Errorf("a client is given …%s…", events[max(0, i-300):i+20])
	}
}
