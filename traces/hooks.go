package traces

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Hooks returns hooks for engine.Options.Hooks that give each tool the context of its span, and each model the context of
// its run's span. So their own spans, such as spans of requests to other services, become part of the trace, below a span
// that is exported. If the trace is not sampled, the context says so. [Transport] passes the context on. opts must be the
// options of the exporters; eng returns the engine, which exists only after its options:
//
//	var eng *engine.Engine
//	hooks := traces.Hooks(func() *engine.Engine { return eng }, opts)
//	eng, err = engine.New(st, agents, &engine.Options{Hooks: []*cairn.Hooks{hooks}})
//
// The first call of a run in a process reads the records of the turn's runs. If that fails, there is no context.
func Hooks(eng func() *engine.Engine, opts *Options) *cairn.Hooks {
	h := &hooks{eng: eng, tops: map[string]trace.TraceID{}}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Sample == 0 {
		h.opts.Sample = 1
	}
	return &cairn.Hooks{AroundTool: h.aroundTool, AroundModel: h.aroundModel}
}

// hooks knows the traces of runs.
type hooks struct {
	eng  func() *engine.Engine
	opts Options

	mu   sync.Mutex
	tops map[string]trace.TraceID // by run
}

// maxTops is the number of runs whose traces are remembered.
const maxTops = 10_000

func (h *hooks) aroundTool(ctx context.Context, call *cairn.Call, next func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return next(h.within(ctx, call.Step, toolSpan(call.RunID, call.ID, 0)))
}

func (h *hooks) aroundModel(ctx context.Context, step *cairn.Step, _ *cairn.Request, next func(context.Context) iter.Seq2[cairn.Chunk, error]) iter.Seq2[cairn.Chunk, error] {
	return next(h.within(ctx, step, runSpan(step.RunID)))
}

// within returns a context within a span of a step's run.
func (h *hooks) within(ctx context.Context, step *cairn.Step, span trace.SpanID) context.Context {
	t, err := h.traceOf(ctx, step.SessionID, step.RunID)
	if err != nil {
		return ctx
	}
	w := writer{opts: &h.opts}
	flags := trace.TraceFlags(0).WithSampled(w.sampled(t))
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: span, TraceFlags: flags}))
}

// traceOf returns the trace of a run, by the rules of a fold.
func (h *hooks) traceOf(ctx context.Context, session, run string) (trace.TraceID, error) {
	h.mu.Lock()
	t, ok := h.tops[run]
	h.mu.Unlock()
	if ok {
		return t, nil
	}
	t, err := h.read(ctx, session, run)
	if err != nil {
		return t, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tops) >= maxTops {
		clear(h.tops)
	}
	h.tops[run] = t
	return t, nil
}

// read reads the trace of a run: that of the parent's run for a child, else that of the turn's first run.
func (h *hooks) read(ctx context.Context, session, run string) (t trace.TraceID, err error) {
	row, err := h.eng().Session(ctx, session)
	if err != nil {
		return t, err
	}
	if row.ParentID != "" {
		parent, err := h.eng().Session(ctx, row.ParentID)
		if err != nil {
			return t, err
		}
		return h.traceOf(ctx, parent.ID, parent.RunID)
	}
	first, err := h.record(ctx, session, run)
	for err == nil && first.PreviousRunID != "" {
		var previous *cairn.Run
		if previous, err = h.record(ctx, session, first.PreviousRunID); err != nil {
			break
		}
		if after := h.opts.NewTraceAfter; after > 0 && first.StartedAt.Sub(previous.EndedAt) > time.Duration(after) {
			break
		}
		first = previous
	}
	if err != nil {
		return t, err
	}
	if parent, ok := parseParent(first.TraceParent); ok && first.PreviousRunID == "" {
		return parent.TraceID(), nil
	}
	return traceID(session, first.ID), nil
}

func (h *hooks) record(ctx context.Context, session, run string) (*cairn.Run, error) {
	r, err := h.eng().Run(ctx, session, run)
	if err != nil {
		return nil, err
	}
	return r.Record(ctx)
}
