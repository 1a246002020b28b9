package metrics

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-agents/cairn/store"
)

const (
	// sampleAge is how long gauges of a store are kept, and sampleWait how long reading them may take.
	sampleAge  = 10 * time.Second
	sampleWait = 5 * time.Second
)

// setter sets a gauge.
type setter func(d *prometheus.Desc, value float64, labels ...string)

// sampled collects gauges that are read from a store, at most once in a time, whatever scrapes at once.
type sampled struct {
	descs []*prometheus.Desc
	read  func(context.Context, setter)

	mu   sync.Mutex
	at   time.Time
	last []prometheus.Metric
}

// Describe implements prometheus.Collector.
func (s *sampled) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *sampled) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) >= sampleAge {
		ctx, cancel := context.WithTimeout(context.Background(), sampleWait)
		defer cancel()
		s.last = nil
		s.read(ctx, func(d *prometheus.Desc, value float64, labels ...string) {
			s.last = append(s.last, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
		})
		s.at = time.Now()
	}
	for _, m := range s.last {
		ch <- m
	}
}

// upTo yields the first items of a list, at most n.
func upTo[T any](n int, next func(cursor string) (store.Page[T], error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		left := n
		for item, err := range store.All(next) {
			if left--; !yield(item, err) || err != nil || left == 0 {
				return
			}
		}
	}
}
