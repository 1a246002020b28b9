package traces

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// parseParent returns the span that a W3C traceparent names. It reports false for one that is malformed, or was not
// sampled.
func parseParent(text string) (trace.SpanContext, bool) {
	carrier := propagation.MapCarrier{"traceparent": text}
	parent := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	return parent, parent.IsValid() && parent.IsSampled()
}

// encode returns the stored form of what a record keeps.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // texts, numbers and times of the store
	return raw
}
