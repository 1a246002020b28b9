package workertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

// container is a server behind the front, at an address that does not change, which can be lost and started.
type container struct {
	t       *testing.T
	st      *memstore.Store
	address string
	url     string // of the front
	lives   atomic.Int64
	held    atomic.Int64 // requests and tools that the first life does not end
	lose    func()
}

func newContainer(t *testing.T) *container {
	t.Helper()
	c := &container{t: t, st: memstore.New(nil), address: testenv.FreeAddress(t)}
	c.url = "http://" + testenv.FrontServer(t, c.address).Address
	return c
}

// hold does not return in the first life until ctx ends.
func (c *container) hold(ctx context.Context, life int64) {
	if life == 1 {
		c.held.Add(1)
		<-ctx.Done()
	}
}

func (c *container) start() {
	c.t.Helper()
	life := c.lives.Add(1)
	wait := cairn.Func("wait", "Waits.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
		c.hold(ctx, life)
		return "waited", ctx.Err()
	})
	model := scripted.New(scripted.Call("wait", map[string]any{}), scripted.Text("all of it"))
	if life > 1 { // continues behind the reply that was recorded, or repeats it
		model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) > 1 {
				return scripted.Text("all of it")
			}
			return scripted.Call("wait", map[string]any{})
		})
	}
	agent := &cairn.Agent{Name: "bot", Model: model, Tools: []cairn.Tool{wait}}
	eng, err := engine.New(c.st, []*cairn.Agent{agent}, &engine.Options{LeaseTTL: time.Second, WorkInterval: 20 * time.Millisecond})
	if err != nil {
		c.t.Fatal(err)
	}
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true})
	if err != nil {
		c.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { c.hold(r.Context(), life) })
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go web.Serve(l)
	go eng.Work(ctx)
	c.lose = func() {
		cancel()
		_ = web.Close()
		_ = eng.Close(ctx)
	}
	c.t.Cleanup(c.lose)
}

// result is the response to a request, and the error of the request or of reading its body.
type result struct {
	*http.Response
	body string
	err  error
}

// request makes a request to the front.
func (c *container) request(method, path, body string, headers ...string) result {
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		return result{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return result{resp, string(text), err}
}

// later makes a request in the background.
func (c *container) later(method, path string) <-chan result {
	done := make(chan result, 1)
	go func() { done <- c.request(method, path, "") }()
	return done
}

// follow reads events of the session from behind a cursor on, until take returns false or the stream ends. It returns the
// last cursor, and the error of the stream, if it was cut.
func (c *container) follow(after string, take func(*cairn.Event) bool) (cursor string, err error) {
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/sse?session_id=s", nil)
	if err != nil {
		return after, err
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return after, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return after, errors.New(resp.Status)
	}
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return after, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			after = value
		case "data":
			var ev cairn.Event
			if err := json.Unmarshal([]byte(value), &ev); err != nil {
				return after, err
			}
			if !take(&ev) {
				return after, nil
			}
		}
	}
}

// A request waits until the server has started. If it does not start, the caller learns when to repeat the request.
func TestStarting(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	down := c.request(http.MethodPost, "/start", "{}", "Patience", "200")
	if down.err != nil || down.StatusCode != http.StatusServiceUnavailable || down.Header.Get("Retry-After") == "" || !strings.Contains(down.body, `"unavailable"`) {
		t.Errorf("without a server: %+v", down)
	}
	early := c.later(http.MethodGet, "/readyz")
	c.start()
	if up := <-early; up.err != nil || up.StatusCode != http.StatusOK {
		t.Errorf("before the server has started: %+v", up)
	}
	if refused := c.request(http.MethodPost, "/start", "{}"); refused.err != nil || refused.StatusCode != http.StatusBadRequest {
		t.Errorf("a refusal of the server: %+v", refused)
	}
}

// If the server is lost during a request, one that changes nothing is repeated, and the caller of another learns that it may
// have been served.
func TestLostServer(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.start()
	read, write := c.later(http.MethodGet, "/slow"), c.later(http.MethodPost, "/slow")
	testclock.Await(t, "both requests to be served", func() bool { return c.held.Load() == 2 })
	c.lose()
	if lost := <-write; lost.err != nil || lost.StatusCode != http.StatusBadGateway || lost.Header.Get("Retry-After") == "" {
		t.Errorf("a POST: %+v", lost)
	}
	c.start()
	if repeated := <-read; repeated.err != nil || repeated.StatusCode != http.StatusOK {
		t.Errorf("a GET: %+v", repeated)
	}
}

// An event stream is cut with its server, and is resumed through the front when another server has started, which continues
// the run. No event is lost or doubled.
func TestStreamThroughFront(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.start()
	begun := c.request(http.MethodPost, "/start", `{"session_id": "s", "agent": "bot", "input": {"text": "hi"}}`)
	if begun.err != nil || begun.StatusCode != http.StatusAccepted {
		t.Fatalf("start: %+v", begun)
	}
	var sequences []int64
	end := false
	take := func(ev *cairn.Event) bool {
		sequences = append(sequences, ev.Sequence)
		if ev.Type == cairn.EventToolStart && c.lives.Load() == 1 {
			go c.lose()
		}
		end = ev.Type == cairn.EventRunEnd
		return !end
	}
	cursor, err := c.follow("", take)
	if err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("the stream of a lost server ended, error %v", err)
	}
	resumed := make(chan error, 1)
	go func() {
		_, err := c.follow(cursor, take)
		resumed <- err
	}()
	c.start()
	if err := <-resumed; err != nil || !end {
		t.Errorf("the resumed stream: %v, after the end of the run: %t", err, end)
	}
	for i, seq := range sequences {
		if seq != int64(i)+1 {
			t.Fatalf("events %v", sequences)
		}
	}
}
