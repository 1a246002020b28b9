package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// setting is an option that is a number, or more than one: what 0 means, and whether a negative value means something.
type setting interface {
	complete() error
}

type number[T int | int64 | time.Duration] struct {
	field    string // as errors name it
	value    *T
	unset    T
	negative bool
}

func (n number[T]) complete() error {
	if *n.value < 0 && !n.negative {
		return cairn.Invalid(n.field, "%s is negative", fmt.Sprint(*n.value))
	}
	if *n.value == 0 {
		*n.value = n.unset
	}
	return nil
}

// settings lists every option that is a number.
func (o *Options) settings() []setting {
	const mayBeNegative = true
	return []setting{
		number[time.Duration]{field: "lease_ttl", value: &o.LeaseTTL, unset: 30 * time.Second},
		number[time.Duration]{field: "stop_grace", value: &o.StopGrace, unset: 5 * time.Second},
		number[time.Duration]{field: "work_interval", value: &o.WorkInterval, unset: time.Second},
		number[time.Duration]{"coalesce", &o.Coalesce, 20 * time.Millisecond, mayBeNegative},
		number[time.Duration]{"close_grace", &o.CloseGrace, 20 * time.Second, mayBeNegative},
		number[time.Duration]{"ttl", &o.TTL, 7 * 24 * time.Hour, mayBeNegative},
		number[time.Duration]{"retention", &o.Retention, 30 * 24 * time.Hour, mayBeNegative},
		number[time.Duration]{"sweep_interval", &o.SweepInterval, 10 * time.Minute, mayBeNegative},
		number[time.Duration]{"hook_timeout", &o.HookTimeout, 5 * time.Minute, mayBeNegative},
		number[time.Duration]{"model_idle", &o.ModelIdle, 10 * time.Minute, mayBeNegative},
		number[time.Duration]{"host_grace", &o.HostGrace, 2 * time.Minute, mayBeNegative},
		number[int]{field: "max_recoveries", value: &o.MaxRecoveries, unset: 10},
		number[int]{field: "work_concurrency", value: &o.WorkConcurrency, unset: 16},
		number[int]{"cache_sessions", &o.CacheSessions, 256, mayBeNegative},
		number[int64]{"cache_bytes", &o.CacheBytes, 64 << 20, mayBeNegative},
		number[int]{"max_depth", &o.MaxDepth, 8, mayBeNegative},
		number[int]{"max_tree_sessions", &o.MaxTreeSessions, 1000, mayBeNegative},
		&o.EventRetention,
	}
}

// complete fills in what is not set, or reports what is wrong.
func (o *Options) complete() error {
	for _, h := range o.Hooks {
		if h == nil {
			return cairn.Invalid("hooks", "an entry is nil")
		}
	}
	for _, s := range o.settings() {
		if err := s.complete(); err != nil {
			return err
		}
	}
	if err := cairn.CheckText("version", o.Version); err != nil {
		return err
	}
	o.Coalesce = max(o.Coalesce, 0)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = buildVersion()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Models == nil {
		o.Models = cairn.DefaultModels()
	}
	if o.NewID == nil {
		o.NewID = ids.New
	}
	return nil
}
