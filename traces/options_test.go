package traces_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/traces"
)

// sink keeps spans, and refuses them while refuse is set.
type sink struct {
	tracetest.InMemoryExporter
	refuse bool
}

func (s *sink) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if s.refuse {
		return errors.New("no room")
	}
	return s.InMemoryExporter.ExportSpans(ctx, spans)
}

// named returns the spans whose name begins with a text.
func (s *sink) named(prefix string) (list []tracetest.SpanStub) {
	for _, span := range s.GetSpans() {
		if strings.HasPrefix(span.Name, prefix) {
			list = append(list, span)
		}
	}
	return list
}

// attr returns an attribute of a span as text; empty for none.
func attr(s *tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// inMemory returns an engine with an agent in memory, and what its exporter has exported.
func inMemory(t *testing.T, agent *cairn.Agent, opts *traces.Options) (*engine.Engine, *traces.Exporter, *sink) {
	t.Helper()
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil))(t)
	t.Cleanup(func() { eng.Close(context.WithoutCancel(t.Context())) })
	to := &sink{}
	return eng, must(traces.New(eng, to, opts))(t), to
}

// say makes a turn.
func say(t *testing.T, eng *engine.Engine, id, agent, text string, opts ...engine.RunOption) *cairn.Result {
	t.Helper()
	run := must(eng.Execute(t.Context(), id, agent, cairn.Text(text), opts...))(t)
	return must(run.Wait(t.Context()))(t)
}

// greeter answers each message with a text.
func greeter(text string) *cairn.Agent {
	return &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text(text).Usage(10, 2) })}
}

// A share of the traces is exported, each whole or not at all.
func TestSample(t *testing.T) {
	t.Parallel()
	eng, x, to := inMemory(t, greeter("hi"), &traces.Options{Sample: .5})
	for i := range 60 {
		say(t, eng, fmt.Sprint("s", i), "bot", "hi")
	}
	flushed(t, x)
	runs, chats := to.named("invoke_agent"), to.named("chat")
	if len(runs) < 10 || len(runs) > 50 || len(chats) != len(runs) {
		t.Errorf("%d runs and %d model calls of 60 turns", len(runs), len(chats))
	}
	for _, c := range chats {
		found := false
		for _, r := range runs {
			found = found || c.Parent.SpanID() == r.SpanContext.SpanID() && c.SpanContext.TraceID() == r.SpanContext.TraceID()
		}
		if !found {
			t.Errorf("a model call without its run: %v", c)
		}
	}
}

// What was said is exported only on request, cut and redacted. Idempotency keys never are.
func TestContent(t *testing.T) {
	t.Parallel()
	key := ""
	pay := cairn.Func("pay", "Pays.", func(_ context.Context, call *cairn.Call, in struct {
		Card string `json:"card"`
	}) (string, error) {
		key = call.IdempotencyKey()
		return "paid by " + in.Card, nil
	})
	agent := func() *cairn.Agent {
		return &cairn.Agent{Name: "bot", Tools: []cairn.Tool{pay}, Model: scripted.New(scripted.Call("pay", map[string]string{"card": "4242"}), scripted.Text("Paid with 4242. "+strings.Repeat("x", 5000)))}
	}
	eng, x, to := inMemory(t, agent(), nil)
	say(t, eng, "s", "bot", "my card is 4242")
	flushed(t, x)
	if text := fmt.Sprint(to.GetSpans()); strings.Contains(text, "4242") || strings.Contains(text, "card is") {
		t.Errorf("content is exported: %s", text)
	}
	eng, x, to = inMemory(t, agent(), &traces.Options{Langfuse: true, Content: &traces.Content{Redact: func(text string) string { return strings.ReplaceAll(text, "4242", "####") }}})
	say(t, eng, "s", "bot", "my card is 4242")
	flushed(t, x)
	text := fmt.Sprint(to.GetSpans())
	if key == "" || strings.Contains(text, "4242") || strings.Contains(text, key) {
		t.Errorf("%q or a card is exported: %s", key, text)
	}
	chats, tools := to.named("chat"), to.named("execute_tool")
	for _, want := range [][3]string{
		{attr(&chats[0], "gen_ai.input.messages"), `"my card is ####"`, "user"},
		{attr(&chats[0], "gen_ai.output.messages"), `"tool_call"`, `{"card":"####"}`},
		{attr(&chats[1], "gen_ai.input.messages"), `"tool_call_response"`, "paid by ####"},
		{attr(&chats[1], "gen_ai.output.messages"), "Paid with ####", "assistant"},
		{attr(&tools[0], "gen_ai.tool.call.arguments"), `{"card":"####"}`, ""},
		{attr(&tools[0], "langfuse.observation.output"), "paid by ####", ""},
	} {
		if !strings.Contains(want[0], want[1]) || !strings.Contains(want[0], want[2]) || len(want[0]) > 4096 {
			t.Errorf("%s has no %s and %s", want[0], want[1], want[2])
		}
	}
	if in := attr(&chats[1], "gen_ai.input.messages"); strings.Contains(in, "my card") {
		t.Errorf("the second call repeats the first message: %s", in)
	}
}

// A turn that is resumed late is a trace of its own, linked to the run before, if that is asked for. The span of a run says
// what it waited for, and until when.
func TestNewTraceAfter(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ask := cairn.Func("ask", "Asks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "yes", nil }, cairn.RequireApproval(), cairn.WaitAtMost(72*time.Hour))
			agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{ask}, Model: scripted.New(scripted.Call("ask", struct{}{}), scripted.Text("ok"))}
			eng, x, to := inMemory(t, agent, &traces.Options{NewTraceAfter: limit, Since: 100 * time.Hour})
			waits := say(t, eng, "s", "bot", "hi")
			testclock.Advance(48 * time.Hour)
			must(eng.Submit(t.Context(), "s", cairn.Approve(waits.Suspended.Calls[0])))(t)
			run := must(eng.Resume(t.Context(), "s"))(t)
			must(run.Wait(t.Context()))(t)
			flushed(t, x)
			runs := to.named("invoke_agent")
			if len(runs) != 2 || len(runs[1].Links) != 1 || !runs[1].Links[0].SpanContext.Equal(runs[0].SpanContext) {
				t.Fatalf("%+v", runs)
			}
			same := runs[0].SpanContext.TraceID() == runs[1].SpanContext.TraceID()
			if same != (limit == 0) || same != runs[1].Parent.IsValid() {
				t.Errorf("after %s: %+v", limit, runs)
			}
			pending := runs[0].Events[0]
			deadline := runs[0].EndTime.Add(72 * time.Hour).Format(time.RFC3339Nano)
			if text := fmt.Sprint(pending.Attributes); pending.Name != "cairn.call.pending" || !strings.Contains(text, deadline) {
				t.Errorf("want the deadline %s: %+v", deadline, pending)
			}
			eng.Close(context.WithoutCancel(t.Context()))
		})
	}
}

// Spans that were refused are sent again, equal. One of two exporters exports.
func TestRefused(t *testing.T) {
	t.Parallel()
	eng, x, to := inMemory(t, greeter("hi"), nil)
	other := &sink{}
	second := must(traces.New(eng, other, nil))(t)
	say(t, eng, "s", "bot", "hi")
	to.refuse = true
	if err := x.Flush(t.Context()); err == nil || len(to.GetSpans()) > 0 {
		t.Fatalf("%v, %v", err, to.GetSpans())
	}
	to.refuse = false
	flushed(t, x)
	if len(to.GetSpans()) != 2 {
		t.Errorf("%v", to.GetSpans())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Flush(ctx); err == nil || len(other.GetSpans()) > 0 {
		t.Errorf("both export: %v, %v", err, other.GetSpans())
	}
	if err := x.Run(ctx); err != nil { // gives up its right
		t.Error(err)
	}
	say(t, eng, "s", "bot", "hi again")
	flushed(t, second)
	if len(other.GetSpans()) != 2 {
		t.Errorf("%v", other.GetSpans())
	}
}

// The first exporter of a store leaves out what is old, also of a session that is continued, and what was trimmed.
func TestOldStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng, x, to := inMemory(t, greeter("hi"), nil)
		say(t, eng, "old", "bot", "hi")
		say(t, eng, "kept", "bot", "hi")
		testclock.Advance(3 * time.Hour)
		must(eng.TrimEvents(t.Context(), "kept", engine.EventRetention{Age: time.Hour}))(t)
		say(t, eng, "old", "bot", "again")
		say(t, eng, "kept", "bot", "again")
		flushed(t, x)
		if runs := to.named("invoke_agent"); len(runs) != 2 || len(to.GetSpans()) != 4 {
			t.Errorf("%+v", runs)
		}
		eng.Close(context.WithoutCancel(t.Context()))
	})
}

// A run that fails before any usage has a span, with the error's code and not its text. A model call that failed first and
// was paid for is a discarded one.
func TestFailures(t *testing.T) {
	t.Parallel()
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrAuth, "key sk-123 is wrong")))}
	eng, x, to := inMemory(t, agent, nil)
	run := must(eng.Execute(t.Context(), "s", "bot", cairn.Text("hi")))(t)
	if _, err := run.Wait(t.Context()); !errors.Is(err, cairn.ErrAuth) {
		t.Fatal(err)
	}
	flushed(t, x)
	runs := to.named("invoke_agent")
	if len(runs) != 1 || runs[0].Status.Description != string(cairn.ErrAuth) || strings.Contains(fmt.Sprint(to.GetSpans()), "sk-123") {
		t.Errorf("%+v", to.GetSpans())
	}
	if chats := to.named("chat"); len(chats) != 1 || attr(&chats[0], "cairn.discarded") != "true" || attr(&chats[0], "error.type") == "" {
		t.Errorf("%+v", chats)
	}
}

// Mistakes in options name the option.
func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{greeter("hi")}, nil))(t)
	defer eng.Close(t.Context())
	for field, opts := range map[string]*traces.Options{"interval": {Interval: -1}, "sample": {Sample: 1.5}, "new_trace_after": {NewTraceAfter: -1},
		"since": {Since: -1}, "lease_ttl": {LeaseTTL: -1}, "content.max": {Content: &traces.Content{Max: -1}}} {
		var e *cairn.Error
		if _, err := traces.New(eng, &sink{}, opts); !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
