package metrics_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/metrics"
	"github.com/cairn-agents/cairn/store/memstore"
)

// The server's work is counted by route and status. Counts contain no sessions or users.
func TestMetrics(t *testing.T) {
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("hi"))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	m := metrics.New()
	h, err := server.New(eng, &server.Options{Observer: m, Authenticate: server.Tokens(map[string]*server.Principal{
		"word": {User: "secretuser", Roles: []server.Role{server.RoleUser}}})})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	mux.Handle("/", h)
	srv := httptest.NewServer(mux)
	defer srv.Close()
	get := func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer word")
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body) // a stream that is cut ends with an error
		return string(text)
	}
	get("POST", "/start", `{"session_id": "secretsession", "agent": "bot", "input": {"text": "hi"}}`)
	run, err := eng.Attach(t.Context(), "secretsession")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := strings.Count(get("GET", "/sse?session_id=secretsession&run_id="+run.ID(), ""), "\nid: ")
	get("GET", "/sessions/secretsession", "")
	get("GET", "/sessions/secretother", "")
	get("GET", "/secretpath", "")
	req, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/sse?session_id=secretsession", nil)
	req.Header.Set("Authorization", "Bearer word")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if text := get("GET", "/metrics", ""); !strings.Contains(text, `cairn_server_streams_open{route="GET /sse"} 1`) {
		t.Errorf("no stream is open:\n%s", text)
	}
	h.Drain()
	h.Drain()
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	text := get("GET", "/metrics", "")
	if strings.Contains(text, "secret") {
		t.Errorf("a name is shown:\n%s", text)
	}
	lines := strings.Split(text, "\n")
	for _, want := range []string{
		`cairn_server_requests_total{route="POST /start",status="202"} 1`,
		`cairn_server_requests_total{route="GET /sessions/{id}",status="200"} 1`,
		`cairn_server_requests_total{route="GET /sessions/{id}",status="404"} 1`,
		`cairn_server_requests_total{route="other",status="404"} 1`,
		`cairn_server_request_seconds_count{route="POST /start"} 1`,
		`cairn_server_streams_open{route="GET /sse"} 0`,
		`cairn_server_streams_cut_total{route="GET /sse"} 1`,
		`cairn_server_drains_total 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if events == 0 || !strings.Contains(text, `cairn_server_stream_events_total{route="GET /sse"} `) {
		t.Errorf("%d events, but none is counted", events)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// The gauge counts the effects that nobody knows about.
func TestUnknownEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wire := cairn.Func("wire", "Wires.", func(context.Context, *cairn.Call, struct{}) (string, error) { panic("cut") }, cairn.Effectful())
		agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{wire}, Model: scripted.New(scripted.Reply(scripted.Call("wire", struct{}{}), scripted.Call("wire", struct{}{})))}
		eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(t.Context())
		m := metrics.New()
		m.WatchEffects(eng)
		if text := scrape(t, m); !strings.Contains(text, "cairn_effects_unknown 0\n") {
			t.Errorf("%s", text)
		}
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		testclock.Advance(10 * time.Second)
		if text := scrape(t, m); !strings.Contains(text, "cairn_effects_unknown 2\n") {
			t.Errorf("%s", text)
		}
	})
}
