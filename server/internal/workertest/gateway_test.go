// Package workertest tests servers together with the worker for Cloudflare.
package workertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/internal/ctxjoin"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/driver"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// gateway is what the worker takes for the Go server. It gives each request to the process that has begun the run.
type gateway struct {
	tb     testing.TB
	worker *testenv.WorkerProcess

	mu    sync.Mutex
	runs  map[lease]*driven
	rng   *rand.Rand
	woken func(at time.Time)
}

// lease is a run under a lease.
type lease struct {
	session, run string
	token        int64
}

func leaseOf(b host.Run) lease { return lease{b.SessionID, b.RunID, b.Token} }

// driven is a run that was given to the worker.
type driven struct {
	p      *process
	values context.Context // of the call that began it, whose hooks it has
	past   []string        // earlier tickets
	done   chan struct{}   // closed when the worker knows that it has ended, or cannot be driven
	err    error
}

// newGateway starts a worker, and the server that it knows.
func newGateway(tb testing.TB) *gateway {
	tb.Helper()
	g := &gateway{tb: tb, runs: map[lease]*driven{}, rng: rand.New(rand.NewPCG(1, 2))}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}}
	web.Start()
	tb.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	g.worker = testenv.WorkflowServer(tb, l.Addr().String())
	return g
}

// observe has a function called at each request.
func (g *gateway) observe(woken func(at time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.woken = woken
}

func (g *gateway) intN(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rng.IntN(n)
}

func (g *gateway) find(at lease) *driven {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[at]
}

// request is the body of a request for a step.
type request struct {
	Ticket string         `json:"ticket"`
	Wait   cairn.Duration `json:"wait"`
}

// answer is a part of the body of a response.
type answer struct {
	State  engine.AdvanceState `json:"state"`
	Ticket string              `json:"ticket"`
	Code   string              `json:"code"`
}

// ServeHTTP serves POST /advance over a network on which requests and answers are lost, doubled, late and cut off.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in request
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &in); err != nil || r.URL.Path != "/advance" || in.Wait == 0 {
		g.tb.Errorf("%s: %s", r.URL.Path, body)
		http.Error(w, "no request for a step", http.StatusBadRequest)
		return
	}
	run, err := tickets.Run(in.Ticket)
	d := g.find(leaseOf(run))
	if err != nil || d == nil || !d.p.enter() {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	defer d.p.calls.Done()
	g.mu.Lock()
	woken := g.woken
	g.mu.Unlock()
	if woken != nil {
		woken(time.Now())
	}
	out := g.call(r.Context(), d, in)
	if out == nil {
		panic(http.ErrAbortHandler)
	}
	var got answer
	_ = json.Unmarshal(out.Body.Bytes(), &got)
	switch {
	case got.Code == string(cairn.ErrClosed): // the process is dead
		out = &httptest.ResponseRecorder{Code: http.StatusGone, Body: new(bytes.Buffer)}
		d.end(errors.New("the process is dead"))
	case out.Code == http.StatusOK && got.State == engine.AdvanceMore:
		next, err := tickets.Run(got.Ticket)
		if err != nil {
			d.p.tb.Errorf("the next ticket: %v", err)
		}
		g.mu.Lock()
		g.runs[leaseOf(next)] = d
		d.past = append(d.past, in.Ticket)
		g.mu.Unlock()
	case out.Code == http.StatusOK:
		defer d.end(nil)
	case out.Code < 500 && out.Code != http.StatusConflict:
		d.end(errors.New(out.Body.String()))
	}
	for name := range out.Header() {
		w.Header().Set(name, out.Header().Get(name))
	}
	w.WriteHeader(out.Code)
	_, _ = w.Write(out.Body.Bytes())
}

// call makes a request to the server of a process. It returns nil if there is no answer.
func (g *gateway) call(ctx context.Context, d *driven, in request) *httptest.ResponseRecorder {
	switch g.intN(12) {
	case 0: // the request is lost
		return nil
	case 1: // the answer is lost
		d.serve(ctx, in)
		return nil
	case 2: // the caller disconnects
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		d.serve(ctx, in)
		return nil
	case 3: // the step takes longer than the request waits
		in.Wait = cairn.Duration(time.Millisecond)
	case 4: // the request is doubled
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- d.serve(ctx, in) }()
		second := d.serve(ctx, in)
		if g.intN(2) == 0 {
			return <-first
		}
		<-first
		return second
	case 5: // an earlier request comes late
		g.mu.Lock()
		past := d.past
		g.mu.Unlock()
		if len(past) > 0 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				d.serve(ctx, request{Ticket: past[g.intN(len(past))], Wait: in.Wait})
			}()
			defer func() { <-done }()
		}
	}
	return d.serve(ctx, in)
}

// serve has the process serve a request.
func (d *driven) serve(ctx context.Context, in request) *httptest.ResponseRecorder {
	raw, err := json.Marshal(in)
	if err != nil {
		d.p.tb.Error(err)
	}
	r := httptest.NewRequestWithContext(ctxjoin.Join(ctx, d.values), http.MethodPost, "/advance", bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.p.h.ServeHTTP(w, r)
	return w
}

// end ends a run, once.
func (d *driven) end(err error) {
	d.p.g.mu.Lock()
	defer d.p.g.mu.Unlock()
	select {
	case <-d.done:
	default:
		d.err = err
		close(d.done)
	}
}

// tickets sign for all servers.
var tickets = newTickets(testenv.AdvanceSecret)

func newTickets(secret string) *host.Tickets {
	t, err := host.NewTickets(secret)
	if err != nil {
		panic(err)
	}
	return t
}

// process is an engine with a server, whose runs are driven by the worker.
type process struct {
	tb  testing.TB
	g   *gateway
	eng *engine.Engine
	h   *server.Handler

	mu    sync.Mutex
	over  bool
	calls sync.WaitGroup
}

func (g *gateway) process(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options, patience time.Duration) *process {
	tb.Helper()
	p := &process{tb: tb, g: g}
	h, err := httphost.New(&httphost.Options{Start: p.start, Patience: patience})
	if err != nil {
		tb.Fatal(err)
	}
	own := *opts
	own.Host = h
	if patience == 0 {
		own.Host = waitable{h, g}
	}
	if p.eng, err = engine.New(st, agents, &own); err != nil {
		tb.Fatal(err)
	}
	p.h, err = server.New(p.eng, &server.Options{AllowUnauthenticated: true, RequestsPerMinute: -1, Advance: &server.Advance{Tickets: tickets}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.h.Drain()
		p.calls.Wait()
	})
	return p
}

// enter begins a request, unless the test is over.
func (p *process) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.calls.Add(1)
	}
	return !p.over
}

// start gives a run to the worker. The ticket may come twice, or its answer be lost.
func (p *process) start(ctx context.Context, run host.Run) error {
	p.g.mu.Lock()
	if p.g.runs[leaseOf(run)] == nil {
		p.g.runs[leaseOf(run)] = &driven{p: p, values: context.WithoutCancel(ctx), done: make(chan struct{})}
	}
	p.g.mu.Unlock()
	status, _, err := p.g.give(ctx, tickets.Issue(run, time.Hour))
	switch {
	case err != nil || status != http.StatusAccepted:
		return cairn.Errorf(cairn.ErrUnavailable, "status %d, error %v", status, err)
	case p.g.intN(5) == 0:
		return cairn.Errorf(cairn.ErrUnavailable, "the answer is lost")
	}
	return nil
}

// give posts a ticket to the worker, and returns the status and the id of the instance.
func (g *gateway) give(ctx context.Context, ticket string) (status int, id string, err error) {
	raw, err := json.Marshal(map[string]string{"ticket": ticket})
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.worker.Address+"/runs", bytes.NewReader(raw))
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var out struct{ ID string }
	err = json.NewDecoder(resp.Body).Decode(&out)
	return resp.StatusCode, out.ID, err
}

// waitable is a host whose runs can be waited for. It is not a Keeper, since the servers of a dead process are dead.
type waitable struct {
	host.Host
	g *gateway
}

func (h waitable) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	if _, err := h.Host.Start(ctx, b); err != nil {
		return nil, err
	}
	d := h.g.find(leaseOf(b))
	return func(ctx context.Context) error {
		select {
		case <-d.done:
			return d.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}
