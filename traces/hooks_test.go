package traces_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/traces"
)

// Each tool gets the context of the span that is exported of its call: in a turn below a caller's span, in the next one, in
// a run that resumes, and in a sub-agent.
func TestToolsGetTheirSpan(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []trace.SpanContext
	note := func(name string, opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func(name, "Notes.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, trace.SpanContextFromContext(ctx))
			return "ok", nil
		}, opts...)
	}
	below := &cairn.Agent{Name: "below", Description: "Works.", Tools: []cairn.Tool{note("deep")}, Model: scripted.New(scripted.Call("deep", struct{}{}), scripted.Text("Done."))}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{note("now"), note("later", cairn.RequireApproval()), cairn.SubAgent(below)}, Model: scripted.New(
		scripted.Reply(scripted.Call("now", struct{}{}), scripted.Call("later", struct{}{})), scripted.Text("First."),
		scripted.Call("below", map[string]string{"input": "x"}), scripted.Call("now", struct{}{}), scripted.Text("Second."))}
	var eng *engine.Engine
	hooks := traces.Hooks(func() *engine.Engine { return eng }, nil)
	eng = must(engine.New(memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{Hooks: []*cairn.Hooks{hooks}}))(t)
	defer eng.Close(t.Context())
	to := &sink{}
	x := must(traces.New(eng, to, nil))(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	waits := say(t, eng, "s", "bot", "one", engine.WithTraceParent(parent))
	must(eng.Submit(t.Context(), "s", cairn.Approve(waits.Suspended.Calls[0])))(t)
	run := must(eng.Resume(t.Context(), "s"))(t)
	must(run.Wait(t.Context()))(t)
	say(t, eng, "s", "bot", "two")
	flushed(t, x)
	exported := map[string]string{}
	for _, s := range to.named("execute_tool") {
		exported[fmt.Sprint(s.SpanContext.TraceID(), s.SpanContext.SpanID())] = s.Name
	}
	var names []string
	for _, c := range got {
		names = append(names, exported[fmt.Sprint(c.TraceID(), c.SpanID())])
		if !c.IsSampled() {
			t.Errorf("%v is not sampled", c)
		}
	}
	if want := "[execute_tool now execute_tool later execute_tool deep execute_tool now]"; fmt.Sprint(names) != want {
		t.Errorf("%s, want %s", names, want)
	}
	if caller := got[0].TraceID().String(); caller != "0af7651916cd43dd8448eb211c80319c" || got[2].TraceID() == got[0].TraceID() {
		t.Errorf("%s, %s", caller, got[2].TraceID())
	}
}

// A request within a span has its traceparent, others have none, and a request's own stays. The request is unchanged.
func TestTransport(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Traceparent") }))
	defer srv.Close()
	within := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": parent})
	for _, test := range []struct {
		ctx       context.Context
		own, want string
	}{{within, "", parent}, {t.Context(), "", ""}, {within, "own", "own"}} {
		req := must(http.NewRequestWithContext(test.ctx, "GET", srv.URL, nil))(t)
		if test.own != "" {
			req.Header.Set("Traceparent", test.own)
		}
		res := must((&http.Client{Transport: traces.Transport(nil)}).Do(req))(t)
		res.Body.Close()
		if got != test.want || req.Header.Get("Traceparent") != test.own {
			t.Errorf("%q, want %q; the request has %q", got, test.want, req.Header.Get("Traceparent"))
		}
	}
}
