//go:build !demo

package serve

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/traces"
)

// tracing returns hooks that give tools their span, if spans are exported. The error is ErrInvalid, and names the variable.
func (o *observed) tracing(cfg *config.Config) ([]*cairn.Hooks, error) {
	place, opts, err := o.traces(&cfg.Traces)
	if err != nil || place == "" {
		return nil, err
	}
	return []*cairn.Hooks{traces.Hooks(func() *engine.Engine { return o.eng }, opts)}, nil
}

// traces returns the address of the collector and the options of spans, by the file and the standard variables of
// OpenTelemetry. The address is empty if spans are not exported.
func (o *observed) traces(cfg *config.Traces) (place string, opts *traces.Options, err error) {
	if place, err = collector(o.env, "TRACES"); err != nil || place == "" {
		return "", nil, err
	}
	opts = &traces.Options{Langfuse: cfg.Langfuse, NewTraceAfter: time.Duration(cfg.NewTraceAfter), Logger: o.log}
	if opts.Sample, err = sampler(o.env); err != nil || opts.Sample == 0 {
		return "", nil, err
	}
	if cfg.Content {
		opts.Content = &traces.Content{}
	}
	return place, opts, nil
}

// export exports spans until ctx is done, if a collector is named. wait waits for the end of that.
func (o *observed) export(ctx context.Context, cfg *config.Traces) (wait func(), err error) {
	wait = func() {}
	place, opts, err := o.traces(cfg)
	if err != nil || place == "" {
		return wait, err
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(place)) // which reads the other variables itself
	if err != nil {
		return wait, cairn.Invalid("OTEL_EXPORTER_OTLP_ENDPOINT", "%v", err)
	}
	x, err := traces.New(o.eng, to, opts)
	if err != nil {
		return wait, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = x.Run(ctx) // always nil
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
		defer cancel()
		_ = to.Shutdown(closing)
	}()
	return func() { <-ended }, nil
}

// collector returns the address of the collector of a signal, TRACES or METRICS; empty if the signal is not exported. The
// address for all signals is enough for traces: many back ends of traces take no metrics.
func collector(env map[string]string, signal string) (string, error) {
	if strings.EqualFold(env["OTEL_SDK_DISABLED"], "true") {
		return "", nil
	}
	base, place := env["OTEL_EXPORTER_OTLP_ENDPOINT"], env["OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"]
	on := place != "" || base != "" && signal == "TRACES"
	switch kind := env["OTEL_"+signal+"_EXPORTER"]; kind {
	case "":
	case "none":
		on = false
	case "otlp":
		on = true
	default:
		return "", cairn.Invalid("OTEL_"+signal+"_EXPORTER", "must be otlp or none, not %q", kind)
	}
	if !on {
		return "", nil
	}
	if place == "" {
		place = strings.TrimSuffix(cmp.Or(base, "http://localhost:4318"), "/") + "/v1/" + strings.ToLower(signal)
	}
	if protocol := cmp.Or(env["OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"], env["OTEL_EXPORTER_OTLP_PROTOCOL"]); protocol != "" && protocol != "http/protobuf" {
		return "", cairn.Invalid("OTEL_EXPORTER_OTLP_PROTOCOL", "must be http/protobuf, not %q", protocol)
	}
	if u, err := url.Parse(place); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", cairn.Invalid("OTEL_EXPORTER_OTLP_ENDPOINT", "must be an address such as http://localhost:4318")
	}
	return place, nil
}

// sampler returns the share of traces that is exported. Turns have no sampled parent to follow but the caller's.
func sampler(env map[string]string) (float64, error) {
	switch kind := strings.TrimPrefix(env["OTEL_TRACES_SAMPLER"], "parentbased_"); kind {
	case "", "always_on":
		return 1, nil
	case "always_off":
		return 0, nil
	case "traceidratio":
		share, err := strconv.ParseFloat(cmp.Or(env["OTEL_TRACES_SAMPLER_ARG"], "1"), 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return 0, cairn.Invalid("OTEL_TRACES_SAMPLER_ARG", "must be a number between 0 and 1, not %q", env["OTEL_TRACES_SAMPLER_ARG"])
		}
		return share, nil
	default:
		return 0, cairn.Invalid("OTEL_TRACES_SAMPLER", "must be always_on, always_off or traceidratio, or one of them after parentbased_, not %q", kind)
	}
}
