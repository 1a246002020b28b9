package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/traces/otlptest"
)

// With the standard variables a server exports spans and metrics to a collector, with its headers. It also does so for
// the last second before its end. At an address of their own it serves metrics.
func TestServeIsObserved(t *testing.T) {
	t.Parallel()
	collector := otlptest.New(t, http.Header{"Api-Key": {"word"}})
	at := testenv.FreeAddress(t)
	b := newBench(t)
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=word", "OTEL_SERVICE_NAME": "shop",
		"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100"} {
		b.env[name] = value
	}
	s := b.serve(t, b.file(t, "cairn.yaml", guide("a")+"\nmetrics: "+at+"\ntraces: {langfuse: true}\n"))
	s.say("s1", "hello")
	res, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	res.Body.Close()
	for _, want := range []string{`cairn_runs_ended_total{agent="guide",status="completed"} 1`, `cairn_inbox_open 0`, `cairn_effects_unknown 0`,
		`cairn_server_requests_total{route="POST /start",status="202"} 1`, `cairn_commit_seconds_count{result="ok"} `} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
	testclock.Await(t, "the metrics", func() bool { return collector.Metric("cairn_inbox_open") != nil })
	s.say("s2", "hello")
	s.signal(syscall.SIGTERM)
	s.end()

	ended, commits := collector.Metric("cairn_runs_ended_total"), collector.Metric("cairn_commit_seconds")
	if points := ended.GetSum().GetDataPoints(); len(points) != 1 || points[0].GetAsDouble() != 2 || !ended.GetSum().IsMonotonic {
		t.Errorf("cairn_runs_ended_total: %v", ended)
	}
	if points := commits.GetHistogram().GetDataPoints(); len(points) != 1 || points[0].Count < 4 {
		t.Errorf("cairn_commit_seconds: %v", commits)
	}
	sent := map[string]bool{}
	for _, span := range collector.Spans() {
		if otlptest.Attribute(span, "langfuse.observation.type") == "" {
			t.Errorf("without a type: %v", span)
		}
		sent[span.Name+" "+otlptest.Attribute(span, "session.id")] = true
	}
	if !sent["invoke_agent guide s1"] || !sent["invoke_agent guide s2"] || !slices.Equal(collector.Services(), []string{"shop"}) {
		t.Errorf("%v of %v", sent, collector.Services())
	}
}

// A collector of metrics alone gets no spans, and needs no address to serve metrics at. The address for all signals does
// not export metrics.
func TestServeExportsMetricsAlone(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ spans, metrics bool }{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": {metrics: true}, "OTEL_EXPORTER_OTLP_ENDPOINT": {spans: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector := otlptest.New(t, nil)
			b := newBench(t)
			b.env[name] = collector.URL
			if want.metrics {
				b.env[name] += "/v1/metrics"
			}
			s := b.serve(t, b.file(t, "cairn.yaml", guide("a")))
			s.say("s1", "hello")
			s.signal(syscall.SIGTERM)
			s.end()
			if spans, metrics := len(collector.Spans()) > 0, collector.Metric("cairn_runs_ended_total") != nil; spans != want.spans || metrics != want.metrics {
				t.Errorf("spans %t, metrics %t", spans, metrics)
			}
		})
	}
}

// A mistake in a variable ends the server at its start, and names the variable.
func TestServeRefusesVariables(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "prometheus", "OTEL_METRIC_EXPORT_INTERVAL": "soon", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "jaeger_remote", "OTEL_TRACES_SAMPLER_ARG": "2"} {
		b := newBench(t)
		b.env["OTEL_EXPORTER_OTLP_ENDPOINT"], b.env["OTEL_TRACES_SAMPLER"], b.env["OTEL_METRICS_EXPORTER"] = "http://127.0.0.1:1", "traceidratio", "otlp"
		b.env[name] = value
		p := b.start(t, "serve", "--config", b.file(t, "cairn.yaml", guide("a")))
		text, _ := io.ReadAll(p.stderr)
		if p.cmd.Wait() == nil || !strings.Contains(string(text), name) {
			t.Errorf("%s=%s: %s", name, value, text)
		}
	}
}
