package temporalhost_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// pause suspends a server for a while, once each of the watched activities is about to send its first heartbeat. No
// heartbeat that is sent then is answered in time.
type pause struct {
	interceptor.WorkerInterceptorBase
	watches  func(activity.Info) bool
	sending  sync.WaitGroup // watched activities that have sent nothing yet
	begun    chan struct{}
	over     chan struct{}
	reported sync.WaitGroup // watched activities that have sent nothing since the pause
	ended    chan struct{}  // closed when all have
}

func newPause(server *testenv.TemporalProcess, lasts time.Duration, activities int, watches func(activity.Info) bool) *pause {
	p := &pause{watches: watches, begun: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	p.sending.Add(activities)
	p.reported.Add(activities)
	go func() {
		p.sending.Wait()
		server.Pause()
		close(p.begun)
		testclock.Deaf(lasts)
		server.Resume()
		close(p.over)
		p.reported.Wait()
		close(p.ended)
	}()
	return p
}

func (p *pause) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &pausedActivity{pause: p}
	i.Next = next
	return i
}

type pausedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	pause *pause
}

func (a *pausedActivity) Init(out interceptor.ActivityOutboundInterceptor) error {
	h := &pausedHeartbeats{pause: a.pause}
	h.Next = out
	h.first, h.last = sync.OnceFunc(a.pause.sending.Done), sync.OnceFunc(a.pause.reported.Done)
	return a.Next.Init(h)
}

// pausedHeartbeats are those of one attempt of an activity.
type pausedHeartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
	pause       *pause
	first, last func()
}

func (h *pausedHeartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	if !h.pause.watches(activity.GetInfo(ctx)) {
		h.Next.RecordHeartbeat(ctx, details...)
		return
	}
	select {
	case <-h.pause.over:
		h.Next.RecordHeartbeat(ctx, details...)
		h.last()
	default:
		h.first()
		<-h.pause.begun
		h.Next.RecordHeartbeat(ctx, details...)
	}
}

// A server that answers nothing for five seconds costs no call its attempt: the heartbeats lost in the meantime say
// nothing about the activity. A turn that begins in the meantime does not wait for the server.
func TestPauseOfTheServerCutsNoCall(t *testing.T) {
	t.Parallel()
	server := testenv.TemporalServer(t)
	c, err := client.Dial(client.Options{HostPort: server.Address, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	paused := newPause(server, 5*time.Second, 2, func(a activity.Info) bool {
		return a.ActivityType.Name == "cairn.tool" || strings.Contains(a.WorkflowExecution.ID, "thinks")
	})
	var models, tools atomic.Int64
	agents := []*cairn.Agent{
		{Name: "thinks", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			models.Add(1)
			return scripted.Reply(scripted.Gate(paused.ended), scripted.Text("done"))
		})},
		{Name: "works", Model: rounds(1), Tools: []cairn.Tool{cairn.Func("note", "Notes.", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
			tools.Add(1)
			select {
			case <-paused.ended:
			case <-ctx.Done():
			}
			return "noted", ctx.Err()
		})}},
		{Name: "begins", Model: scripted.New(scripted.Text("done"))},
	}
	h, err := temporalhost.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(memstore.New(nil), agents, &engine.Options{Host: h})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	w := h.Worker(eng, worker.Options{Interceptors: []interceptor.WorkerInterceptor{paused}})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, a := range agents {
		if a.Name == "begins" {
			<-paused.begun
		}
		if _, err := eng.Execute(t.Context(), a.Name, a.Name, cairn.Text("go")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-paused.over:
		t.Error("the turn began when the server was back")
	default:
	}
	for _, a := range agents {
		run, err := eng.Attach(t.Context(), a.Name)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" {
			t.Errorf("%s: the turn came to %+v, %v", a.Name, res, err)
		}
	}
	if m, n := models.Load(), tools.Load(); m != 1 || n != 1 {
		t.Errorf("the model was called %d times and the tool %d times, want once each", m, n)
	}
}
