package traces

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"go.opentelemetry.io/otel/trace"
)

// digest is a hash of parts. Run ids are random, so ids that are made of them cannot be guessed and do not repeat.
func digest(parts ...any) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		text := fmt.Sprint(p)
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// traceID is the trace of a turn, which a session's run began.
func traceID(session, run string) trace.TraceID {
	sum := digest("trace", session, run)
	return trace.TraceID(sum[:16])
}

// spanID is the id of a span of a run: of the run itself without further parts, else of a call or an attempt.
func spanID(run string, parts ...any) trace.SpanID {
	sum := digest(append([]any{"span", run}, parts...)...)
	return trace.SpanID(sum[:8])
}

// runSpan is the span of a run.
func runSpan(run string) trace.SpanID { return spanID(run) }

// toolSpan is the span of a call in a run. void is how many spans of the call were discarded before, which is 0 for
// nearly all. So the context that a running tool gets, which knows of no attempts, is that of an exported span.
func toolSpan(run, call string, void int) trace.SpanID {
	if void == 0 {
		return spanID(run, opExecuteTool, call)
	}
	return spanID(run, opExecuteTool, call, void)
}

// chatSpan is the span of a model call: its number in an attempt at a step.
func chatSpan(run string, step, try, number int) trace.SpanID {
	return spanID(run, opChat, step, try, number)
}

// place is a span's context as it is kept in records.
type place struct {
	Trace string `json:"trace"`
	Span  string `json:"span,omitempty"`
}

func placeOf(t trace.TraceID, s trace.SpanID) place { return place{t.String(), s.String()} }

// context returns the span's context. Everything that is exported was sampled.
func (p place) context() trace.SpanContext {
	var t trace.TraceID
	var s trace.SpanID
	_, _ = hex.Decode(t[:], []byte(p.Trace)) // an id that is not hexadecimal is none
	_, _ = hex.Decode(s[:], []byte(p.Span))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled})
}
