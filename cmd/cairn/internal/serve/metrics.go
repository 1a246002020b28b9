//go:build !demo

package serve

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/metrics"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/traces"
)

// metered counts what the server and the engine do.
type metered = metrics.Metrics

// meter returns metrics, and a store that counts its commits there.
func meter(st store.Store) (*metered, store.Store, error) {
	m := metrics.New()
	return m, m.Store(st), nil
}

// watchEngine adds the gauges of an engine.
func watchEngine(m *metered, eng *engine.Engine) {
	m.Watch(eng)
	m.WatchEffects(eng)
}

// scraped returns the handler of GET /metrics.
func scraped(m *metered) http.Handler { return m }

// metricsPlace returns the address of the collector of metrics; empty if metrics are not exported.
func metricsPlace(env map[string]string) (string, error) {
	place, err := collector(env, "METRICS")
	if err != nil || place == "" {
		return "", err
	}
	for _, name := range []string{"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"} {
		if text := env[name]; text != "" {
			if n, err := strconv.Atoi(text); err != nil || n < 1 {
				return "", cairn.Invalid(name, "must be a number of milliseconds above 0, not %q", text)
			}
		}
	}
	return place, nil
}

// exportMetrics exports metrics until end is called, if a collector of metrics is named. end exports them once more.
func (o *observed) exportMetrics(ctx context.Context) (end func(), err error) {
	place, err := metricsPlace(o.env)
	if err != nil || place == "" {
		return func() {}, err
	}
	to, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(place)) // which reads the other variables itself
	if err != nil {
		return nil, cairn.Invalid("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "%v", err)
	}
	from, err := traces.Resource()
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.log.LogAttrs(ctx, slog.LevelWarn, "metrics not exported; trying again", slog.Any("error", err))
	}))
	reader := metric.NewPeriodicReader(to, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(o.metrics.Registry()))))
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(from))
	return func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
		defer cancel()
		_ = provider.Shutdown(closing) // a failure was logged
	}, nil
}
