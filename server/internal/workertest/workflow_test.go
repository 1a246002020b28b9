package workertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// counter returns an agent that calls a tool that often before it answers, and the number of the tool's calls.
func counter(calls int) (*cairn.Agent, *atomic.Int64) {
	var steps []scripted.Step
	for range calls {
		steps = append(steps, scripted.Call("count", map[string]any{}))
	}
	n := &atomic.Int64{}
	tool := cairn.Func("count", "Counts.", func(context.Context, *cairn.Call, struct{}) (int64, error) { return n.Add(1), nil })
	return &cairn.Agent{Name: "bot", Model: scripted.New(append(steps, scripted.Text("done"))...), Tools: []cairn.Tool{tool}}, n
}

// A run with more steps than an instance of the worker takes is continued by further instances. No step is done twice.
func TestManySteps(t *testing.T) {
	t.Parallel()
	const calls = 11
	agent, n := counter(calls)
	p := newGateway(t).process(t, memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{}, 0)
	run, err := p.eng.Execute(t.Context(), "s", "bot", cairn.Text("count"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" || n.Load() != calls {
		t.Errorf("%+v after %d calls, error %v", res, n.Load(), err)
	}
}

// Tickets for one step of a run under one lease begin one instance. A ticket that the worker cannot check begins none.
func TestStart(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	run := host.Run{Position: host.Position{SessionID: "séance", RunID: "r", Token: 7}}
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			status, id, err := g.give(t.Context(), tickets.Issue(run, time.Duration(i+1)*time.Hour))
			if err != nil || status != http.StatusAccepted {
				t.Errorf("status %d, error %v", status, err)
			}
			ids[i] = id
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || len(id) == 0 || len(id) > 64 {
			t.Fatalf("the tickets of one run began %q", ids)
		}
	}
	seen := map[string]bool{ids[0]: true}
	for _, change := range []func(*host.Run){
		func(r *host.Run) { r.SessionID = "seance" }, func(r *host.Run) { r.RunID = "r2" },
		func(r *host.Run) { r.Token++ }, func(r *host.Run) { r.Step++ },
	} {
		other := run
		change(&other)
		_, id, err := g.give(t.Context(), newTickets(testenv.AdvanceNextSecret).Issue(other, time.Hour))
		if err != nil || seen[id] {
			t.Errorf("%+v began %q, error %v", other, id, err)
		}
		seen[id] = true
	}
	valid := tickets.Issue(run, time.Hour)
	text, mac, _ := strings.Cut(valid, ".")
	for ticket, want := range map[string]int{
		tickets.Issue(run, -time.Second):                                      http.StatusGone,
		newTickets(strings.Repeat("x", host.MinSecret)).Issue(run, time.Hour): http.StatusUnauthorized,
		text: http.StatusUnauthorized, text + ".": http.StatusUnauthorized, "." + mac: http.StatusUnauthorized,
		"x" + valid: http.StatusUnauthorized, text + "." + "ü" + mac: http.StatusUnauthorized, "": http.StatusUnauthorized,
		strings.Repeat("x", 1<<16): http.StatusRequestEntityTooLarge,
	} {
		status, id, err := g.give(t.Context(), ticket)
		for try := 0; (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) && try < 20; try++ { // a large body is refused before it was sent
			status, id, err = g.give(t.Context(), ticket)
		}
		if err != nil || status != want || id != "" {
			t.Errorf("%.100q: status %d, want %d; instance %q, error %v", ticket, status, want, id, err)
		}
	}
	for method, want := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPost: http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.worker.Address+"/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s without a body: status %d, want %d", method, resp.StatusCode, want)
		}
	}
}

// A suspended run ends its caller's work, except that the instance makes a request at the deadline: it wakes a server that is
// stopped while nothing is to do. A worker of the server then closes the call, and another instance continues.
func TestDeadline(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "paid", nil },
		cairn.RequireApproval(), cairn.WaitAtMost(3*time.Second))
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Call("pay", map[string]any{}), scripted.Text("too late")), Tools: []cairn.Tool{pay}}
	p := g.process(t, memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{WorkInterval: 50 * time.Millisecond}, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	g.observe(func(at time.Time) {
		row, err := p.eng.Session(ctx, "s")
		if err == nil && row.Status == cairn.SessionPaused && !row.NextDeadline.IsZero() && !at.Before(row.NextDeadline) {
			once.Do(func() { go p.eng.Work(ctx) })
		}
	})
	if _, err := p.eng.Execute(ctx, "s", "bot", cairn.Text("pay")); err != nil {
		t.Fatal(err)
	}
	await(t, p, "s", "too late")
}

// A killed runtime loses no run: a worker of the server takes it over when its patience is at an end, and gives it away again.
func TestKilledRuntime(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	const calls = 3
	agent, n := counter(calls)
	p := g.process(t, memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{LeaseTTL: time.Second, WorkInterval: 50 * time.Millisecond}, time.Second)
	reached := make(chan struct{})
	var once sync.Once
	g.observe(func(time.Time) { once.Do(func() { close(reached) }) })
	if _, err := p.eng.Execute(t.Context(), "s", "bot", cairn.Text("count")); err != nil {
		t.Fatal(err)
	}
	<-reached
	g.worker.Kill()
	if err := g.worker.Start(); err != nil {
		t.Fatal(err)
	}
	go p.eng.Work(t.Context())
	await(t, p, "s", "done")
	if n.Load() != calls {
		t.Errorf("%d calls, want %d", n.Load(), calls)
	}
}

// await waits until a session's last message has a text.
func await(t *testing.T, p *process, session, text string) {
	t.Helper()
	testclock.Await(t, "the end", func() bool {
		list, err := p.eng.Messages(t.Context(), session, 0, 0)
		return err == nil && len(list) > 0 && list[len(list)-1].Text() == text
	})
}
