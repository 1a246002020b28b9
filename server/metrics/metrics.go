// Package metrics counts the requests, streams and events of a server, for Prometheus.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is a server.Observer that counts, and an http.Handler that returns the counts in Prometheus' text format. It
// has its own registry. Labels are routes and statuses: they contain no session, run or user. Mount it where only the
// scraper reaches it:
//
//	m := metrics.New()
//	handler, err := server.New(eng, &server.Options{Observer: m, …})
//	mux.Handle("GET /metrics", m)
//
// It is safe for concurrent use. One Metrics may observe several handlers.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	open     *prometheus.GaugeVec
	events   *prometheus.CounterVec
	cuts     *prometheus.CounterVec
	drains   prometheus.Counter
	handler  http.Handler
	registry *prometheus.Registry
}

// New returns metrics whose counts are zero.
func New() *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_server_requests_total",
			Help: "Requests, by route and status. A stream is counted when it ends."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_server_request_seconds",
			Help: "Time until the response began, in seconds.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"route"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "cairn_server_streams_open",
			Help: "Open streams."}, []string{"route"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_server_stream_events_total",
			Help: "Events sent to streams."}, []string{"route"}),
		cuts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cairn_server_streams_cut_total",
			Help: "Streams that ended early because the client disconnected or stalled, or the server was drained."}, []string{"route"}),
		drains: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_server_drains_total",
			Help: "Number of times a handler was drained."}),
		registry: prometheus.NewRegistry(),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.open, m.events, m.cuts, m.drains)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// Registry returns the registry, to which a program may add its own collectors.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// ServeHTTP implements http.Handler.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Request implements server.Observer.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// StreamOpened implements server.Observer.
func (m *Metrics) StreamOpened(route string) { m.open.WithLabelValues(route).Inc() }

// StreamClosed implements server.Observer.
func (m *Metrics) StreamClosed(route string, cut bool) {
	m.open.WithLabelValues(route).Dec()
	if cut {
		m.cuts.WithLabelValues(route).Inc()
	}
}

// StreamEvent implements server.Observer.
func (m *Metrics) StreamEvent(route string) { m.events.WithLabelValues(route).Inc() }

// Drained implements server.Observer.
func (m *Metrics) Drained() { m.drains.Inc() }
