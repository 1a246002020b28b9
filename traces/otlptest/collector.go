// Package otlptest is an OTLP collector for tests: it receives spans and metrics as protobuf over HTTP. Only tests import
// it.
package otlptest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricscollectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans and metrics that it receives at /v1/traces and /v1/metrics. It is safe for concurrent use.
type Collector struct {
	*httptest.Server

	headers  http.Header
	mu       sync.Mutex
	services map[string]bool
	spans    map[string]*tracepb.Span // by trace and span
	bytes    map[string][]byte
	received int
	changed  []string
	metrics  map[string]*metricspb.Metric
}

// New starts a collector that ends with the test. It refuses requests without the headers, which may be nil.
func New(tb testing.TB, headers http.Header) *Collector {
	tb.Helper()
	c := &Collector{headers: headers, services: map[string]bool{}, spans: map[string]*tracepb.Span{}, bytes: map[string][]byte{},
		metrics: map[string]*metricspb.Metric{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		var req collectorpb.ExportTraceServiceRequest
		c.receive(w, r, &req, &collectorpb.ExportTraceServiceResponse{}, func() { c.addSpans(&req) })
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		var req metricscollectorpb.ExportMetricsServiceRequest
		c.receive(w, r, &req, &metricscollectorpb.ExportMetricsServiceResponse{}, func() { c.addMetrics(&req) })
	})
	c.Server = httptest.NewServer(mux)
	tb.Cleanup(c.Close)
	return c
}

// Exporter returns an OpenTelemetry exporter of spans to the collector, which repeats nothing.
func (c *Collector) Exporter(tb testing.TB) *otlptrace.Exporter {
	tb.Helper()
	e, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(c.URL+"/v1/traces"), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// receive decodes a request, keeps it and answers it.
func (c *Collector) receive(w http.ResponseWriter, r *http.Request, req, answer proto.Message, keep func()) {
	for name, values := range c.headers {
		if !slices.Equal(r.Header.Values(name), values) {
			http.Error(w, "wrong header "+name, http.StatusUnauthorized)
			return
		}
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err == nil {
		err = proto.Unmarshal(raw, req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	keep()
	c.mu.Unlock()
	raw, _ = proto.Marshal(answer) // which is empty
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(raw)
}

func (c *Collector) addSpans(req *collectorpb.ExportTraceServiceRequest) {
	for _, of := range req.ResourceSpans {
		c.addService(of.Resource)
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.addSpan(s)
			}
		}
	}
}

func (c *Collector) addSpan(s *tracepb.Span) {
	key := hex.EncodeToString(s.TraceId) + " " + hex.EncodeToString(s.SpanId)
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(s) // it was decoded
	if before, ok := c.bytes[key]; ok && !bytes.Equal(before, raw) {
		c.changed = append(c.changed, fmt.Sprintf("%v\nnow %v", c.spans[key], s))
	}
	c.received++
	c.spans[key], c.bytes[key] = s, raw
}

func (c *Collector) addMetrics(req *metricscollectorpb.ExportMetricsServiceRequest) {
	for _, of := range req.ResourceMetrics {
		c.addService(of.Resource)
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				c.metrics[m.Name] = m
			}
		}
	}
}

func (c *Collector) addService(r *resourcepb.Resource) {
	for _, a := range r.GetAttributes() {
		if a.Key == "service.name" {
			c.services[value(a)] = true
		}
	}
}

// Services returns the names of the services that have sent spans or metrics, sorted.
func (c *Collector) Services() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.services {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Metric returns the last state of a metric; nil if none came.
func (c *Collector) Metric(name string) *metricspb.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Spans returns the spans in the order of their start. A span that came again is one.
func (c *Collector) Spans() (list []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *tracepb.Span) int {
		return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), strings.Compare(a.Name, b.Name))
	})
	return list
}

// Received returns how many spans were received, repeated ones included.
func (c *Collector) Received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}

// Changed describes the spans that came again with other content.
func (c *Collector) Changed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.changed)
}

// Attribute returns an attribute of a span; empty if it has none.
func Attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return value(a)
		}
	}
	return ""
}
