package traces

import (
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns a round tripper that adds the W3C traceparent of a request's context to the request: for the clients
// of services that tools call, of MCP servers and of remote agents. A server of Cairn begins its turns in that trace.
// base makes the requests; nil means http.DefaultTransport. A request that has a traceparent keeps it.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(r.Context()).IsValid() && r.Header.Get("Traceparent") == "" {
		r = r.Clone(r.Context()) // a round tripper must not change its request
		propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	}
	return t.base.RoundTrip(r)
}
