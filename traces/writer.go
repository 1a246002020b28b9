package traces

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-agents/cairn"
)

// writer makes spans of what a fold has found. Equal facts give equal spans.
type writer struct {
	opts     *Options
	resource *resource.Resource
	root     *cairn.Session
	spans    []sdktrace.ReadOnlySpan
	// said returns the messages of a model call, if content is exported.
	said func(session string, unread, count, after int) (in, out string)
}

// span is one that is being made.
type span struct {
	s        *session
	session  string
	id       trace.SpanID
	parent   string
	remote   bool
	kind     trace.SpanKind
	name     string
	from, to time.Time
	attrs    []attribute.KeyValue
	code     cairn.Code // of the error, if there is one
	void     bool
	links    []place
	events   []mark
}

// add adds a span, unless its trace is not sampled.
func (w *writer) add(x *span) {
	top := x.s.Top.context()
	if !w.sampled(top.TraceID()) {
		return
	}
	if x.to.Before(x.from) {
		x.to = x.from
	}
	attrs := append(w.common(x), x.attrs...)
	stub := tracetest.SpanStub{Name: strings.TrimSpace(x.name), SpanKind: x.kind, StartTime: x.from, EndTime: x.to, Resource: w.resource,
		InstrumentationScope: instrumentation.Scope{Name: scope},
		SpanContext:          trace.NewSpanContext(trace.SpanContextConfig{TraceID: top.TraceID(), SpanID: x.id, TraceFlags: trace.FlagsSampled})}
	if x.parent != "" {
		parent := place{x.s.Top.Trace, x.parent}.context()
		if x.remote {
			parent = parent.WithRemote(true)
		}
		stub.Parent = parent
	}
	if x.code != "" {
		stub.Status = sdktrace.Status{Code: codes.Error, Description: string(x.code)}
		attrs = append(attrs, attrError.String(string(x.code)))
	}
	if x.void {
		attrs = append(attrs, attrDiscarded.Bool(true))
	}
	if w.opts.Langfuse {
		attrs = append(attrs, w.langfuse(x)...)
	}
	stub.Attributes = attrs
	for _, l := range x.links {
		stub.Links = append(stub.Links, sdktrace.Link{SpanContext: l.context(), Attributes: []attribute.KeyValue{attrLink.String(linkPrevious)}})
	}
	for i := range x.events {
		stub.Events = append(stub.Events, x.events[i].event())
	}
	w.spans = append(w.spans, stub.Snapshot())
}

// sampled reports whether a trace is exported, by its id: all processes decide alike, and a trace is whole or absent.
func (w *writer) sampled(t trace.TraceID) bool {
	if w.opts.Sample >= 1 {
		return true
	}
	return float64(binary.BigEndian.Uint64(t[8:])>>1)/math.MaxInt64 < w.opts.Sample
}

// common returns the attributes that every span has.
func (w *writer) common(x *span) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 20)
	attrs = append(attrs, attrConversation.String(w.conversation()), attrSession.String(w.conversation()), attrOwnSession.String(x.session),
		attrAgent.String(x.s.Agent), attrRun.String(x.s.Run))
	if w.root.UserID != "" {
		attrs = append(attrs, attrUser.String(w.root.UserID))
	}
	if w.root.Tenant != "" {
		attrs = append(attrs, attrTenant.String(w.root.Tenant))
	}
	return attrs
}

// conversation is the conversation as the user knows it: its thread.
func (w *writer) conversation() string {
	if w.root.ThreadID != "" {
		return w.root.ThreadID
	}
	return w.root.ID
}

func (m *mark) event() sdktrace.Event {
	ev := sdktrace.Event{Name: m.Name, Time: m.At}
	if m.Call != "" {
		ev.Attributes = append(ev.Attributes, attrToolCall.String(m.Call), attrTool.String(m.Tool))
	}
	if m.Text != "" {
		ev.Attributes = append(ev.Attributes, attrReason.String(m.Text))
	}
	if !m.Deadline.IsZero() {
		ev.Attributes = append(ev.Attributes, attrDeadline.String(m.Deadline.UTC().Format(time.RFC3339Nano)))
	}
	return ev
}

// run writes the span of a run that has ended.
func (w *writer) run(s *session, ev *cairn.Event) {
	x := &span{s: s, session: ev.SessionID, id: runSpan(s.Run), parent: s.Parent, remote: s.Remote, kind: trace.SpanKindInternal,
		name: opInvokeAgent + " " + s.Agent, from: s.Began, to: ev.Time, links: s.Links, events: s.Events}
	w.ended(x, ev)
}

// stopped writes the span of the stop of a run that was suspended.
func (w *writer) stopped(s *session, ev *cairn.Event) {
	x := &span{s: s, session: ev.SessionID, id: spanID(s.Run, "stopped"), parent: s.Top.Span, kind: trace.SpanKindInternal,
		name: opInvokeAgent + " " + s.Agent, from: ev.Time, to: ev.Time, links: []place{{s.Top.Trace, runSpan(s.Run).String()}}}
	w.ended(x, ev)
}

func (w *writer) ended(x *span, ev *cairn.Event) {
	x.attrs = []attribute.KeyValue{attrOperation.String(opInvokeAgent), attrStatus.String(string(ev.Status)), attrSteps.Int(ev.Step)}
	if ev.Reason != "" {
		x.attrs = append(x.attrs, attrReason.String(string(ev.Reason)))
	}
	switch {
	case ev.Error != nil:
		x.code = ev.Error.Code
	case ev.Status == cairn.RunFailed:
		x.code = cairn.Code(cmp.Or(ev.Reason, cairn.ReasonError))
	}
	w.add(x)
}

// chatEnd is how an attempt at a step ended.
type chatEnd struct {
	// count is the number of messages after a step that was committed.
	count int
	// void is set for a discarded attempt, which ended at a time because of an error.
	void   bool
	at     time.Time
	failed *cairn.Error
}

// chats writes the spans of the model calls of an attempt at a step.
func (w *writer) chats(s *session, id string, n int, st *step, end chatEnd) {
	models := st.Models
	if len(models) == 0 {
		if !end.void || s.Carried && n == 1 {
			return // the step continues one with a reply
		}
		models = []cairn.UsageEntry{{Duration: cairn.Duration(max(0, end.at.Sub(st.Began)))}} // which model is not known
	}
	at := st.Began
	for i := range models {
		e := &models[i]
		x := &span{s: s, session: id, id: chatSpan(s.Run, n, st.Try, i), parent: runSpan(s.Run).String(), kind: trace.SpanKindClient,
			name: opChat + " " + modelName(e.Name), from: at, to: at.Add(time.Duration(e.Duration)), void: end.void || e.Discarded()}
		at = x.to
		last := i == len(models)-1
		x.attrs = chatAttrs(e, n)
		switch {
		case end.void && last && end.failed != nil:
			x.code = end.failed.Code
		case x.void && e.Name != "" && !end.void:
			x.code = cairn.ErrModel
		}
		if st.Requested != "" && last {
			x.attrs = append(x.attrs, attrRequestModel.String(modelName(st.Requested)))
		}
		if st.Compacted {
			x.attrs = append(x.attrs, attrCompacted.Bool(true))
		}
		if last && !end.void && w.said != nil {
			in, out := w.said(id, s.Unread, s.Count, end.count)
			x.attrs = append(x.attrs, attrMessagesIn.String(in), attrMessagesOut.String(out))
		}
		w.add(x)
	}
}

// modelName returns the name of a model without its provider.
func modelName(id string) string {
	if _, name, ok := strings.Cut(id, ":"); ok {
		return name
	}
	return id
}

// providers are the conventions' names of providers that Cairn names otherwise.
var providers = map[string]string{"gemini": "gcp.gemini", "openai-chat": "openai"}

func chatAttrs(e *cairn.UsageEntry, step int) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attrOperation.String(opChat)}
	if step > 0 {
		attrs = append(attrs, attrStep.Int(step))
	}
	if provider, name, ok := strings.Cut(e.Name, ":"); ok {
		if known := providers[provider]; known != "" {
			provider = known
		}
		attrs = append(attrs, attrProvider.String(provider), attrModel.String(name))
	} else if e.Name != "" {
		attrs = append(attrs, attrModel.String(e.Name))
	}
	u := &e.Usage
	if u.InputTokens+u.OutputTokens > 0 {
		attrs = append(attrs, attrInput.Int64(u.InputTokens), attrOutput.Int64(u.OutputTokens))
	}
	for _, n := range []struct {
		key attribute.Key
		n   int64
	}{{attrCacheRead, u.CachedTokens}, {attrCacheWrite, u.CacheWriteTokens}, {attrReasoning, u.ReasoningTokens}} {
		if n.n > 0 {
			attrs = append(attrs, n.key.Int64(n.n))
		}
	}
	if u.PricedCalls > 0 || u.CostNanos > 0 {
		attrs = append(attrs, attrCost.Float64(float64(u.CostNanos)/1e9))
	}
	return attrs
}

// toolEnd is how a call ended: at a time, in a discarded attempt, or without a result.
type toolEnd struct {
	at      time.Time
	void    bool
	pending bool
}

// tool writes the span of a call.
func (w *writer) tool(s *session, id string, c *call, end toolEnd) {
	w.call(s, id, c, s.toolSpan(c), runSpan(s.Run).String(), end)
}

// close writes the span of a call that was closed after its run.
func (w *writer) close(s *session, id string, c *call) {
	w.call(s, id, c, spanID(s.Run, "closed", c.ID), s.Top.Span, toolEnd{at: c.Began})
}

func (w *writer) call(s *session, id string, c *call, own trace.SpanID, parent string, end toolEnd) {
	x := &span{s: s, session: id, id: own, parent: parent, kind: trace.SpanKindInternal, name: opExecuteTool + " " + c.Tool,
		from: c.Began, to: end.at, void: end.void, events: c.Events}
	x.attrs = []attribute.KeyValue{attrOperation.String(opExecuteTool), attrTool.String(c.Tool), attrToolCall.String(c.ID), attrToolType.String("function")}
	if c.Step > 0 {
		x.attrs = append(x.attrs, attrStep.Int(c.Step))
	}
	if c.Attempts > 1 {
		x.attrs = append(x.attrs, attrAttempts.Int(c.Attempts))
	}
	if c.Cached {
		x.attrs = append(x.attrs, attrCached.Bool(true))
	}
	if end.pending {
		x.attrs = append(x.attrs, attrPending.Bool(true))
	}
	if c.Failed {
		x.code = c.Code
		if x.code == "" {
			x.code = cairn.ErrTool
		}
	}
	if c.Input != "" {
		x.attrs = append(x.attrs, attrArguments.String(c.Input))
	}
	if c.Output != "" {
		x.attrs = append(x.attrs, attrResult.String(c.Output))
	}
	w.add(x)
}

// content returns a value of a call as it is exported; empty unless content is exported.
func (w *writer) content(raw json.RawMessage) string {
	if w.opts.Content == nil || len(raw) == 0 {
		return ""
	}
	return w.opts.Content.of(raw)
}
