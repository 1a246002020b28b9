package traces

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/cairn-agents/cairn"
)

// Options tune an exporter; nil and the zero value mean the defaults.
type Options struct {
	// Interval is how often the exporter looks for new steps; 0 means one second.
	Interval time.Duration
	// Sample is the share of traces that is exported, above 0 and at most 1; 0 means 1. Each trace is exported whole or
	// not at all. Turns that are part of a sampled trace of the caller are not exempt.
	Sample float64
	// NewTraceAfter is how long a turn may wait until the run that resumes it begins a trace of its own, linked to the
	// previous run; 0 means that all runs of a turn are one trace, however long it waits.
	NewTraceAfter time.Duration
	// Content exports messages, arguments and results; nil means that spans have names, figures and times only.
	Content *Content
	// Langfuse adds the attributes by which Langfuse groups and shows spans.
	Langfuse bool
	// Resource describes the program; nil means the variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, and cairn
	// as the name of the service.
	Resource *resource.Resource
	// Since is the maximum age of the steps that the first exporter of a store exports; 0 means an hour. Later ones
	// begin where the last one has stopped.
	Since time.Duration
	// LeaseTTL is how long the process that exports is considered alive without a sign of life; 0 means 15 seconds.
	LeaseTTL time.Duration
	// Logger receives failures to export, which are repeated; nil is silent.
	Logger *slog.Logger
}

// complete returns options with their defaults. The error is ErrInvalid and names the option.
func complete(opts *Options) (Options, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if !(o.Sample >= 0 && o.Sample <= 1) {
		return o, cairn.Invalid("sample", "%v is not between 0 and 1", o.Sample)
	}
	for name, d := range map[string]time.Duration{"interval": o.Interval, "new_trace_after": o.NewTraceAfter, "since": o.Since, "lease_ttl": o.LeaseTTL} {
		if d < 0 {
			return o, cairn.Invalid(name, "%s is negative", d)
		}
	}
	o.Interval, o.Since, o.LeaseTTL = cmp.Or(o.Interval, time.Second), cmp.Or(o.Since, time.Hour), cmp.Or(o.LeaseTTL, 15*time.Second)
	o.Sample = cmp.Or(o.Sample, 1)
	if o.Content != nil {
		own := *o.Content
		if own.Max < 0 {
			return o, cairn.Invalid("content.max", "%d is negative", own.Max)
		}
		own.Max = cmp.Or(own.Max, defaultContent)
		o.Content = &own
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Resource == nil {
		var err error
		if o.Resource, err = Resource(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Resource returns the default of Options.Resource, for exporters of other signals of the program. The error is ErrInvalid
// if a variable is malformed.
func Resource() (*resource.Resource, error) {
	r, err := resource.New(context.Background(), resource.WithAttributes(attrService.String("cairn")), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, cairn.Invalid("resource", "%v", err)
	}
	return r, nil
}
