package engine

import (
	"fmt"
	"log/slog"
	"time"

	"cmp"
	"runtime/debug"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/ids"
)

// setting is an option that is a number, or several. It knows what 0 means, and whether a negative value is allowed.
type setting interface {
	complete() error
}

type number[T int | int64 | time.Duration] struct {
	field    string // name in errors
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

// numeric lists every numeric option.
func numeric(o *Options) []setting {
	const mayBeNegative = true
	return []setting{
		number[time.Duration]{field: "lease_ttl", value: &o.LeaseTTL, unset: 30 * time.Second},
		number[time.Duration]{field: "stop_grace", value: &o.StopGrace, unset: 5 * time.Second},
		number[time.Duration]{field: "work_interval", value: &o.WorkInterval, unset: time.Second},
		number[time.Duration]{"coalesce", &o.Coalesce, 20 * time.Millisecond, mayBeNegative},
		number[time.Duration]{"close_grace", &o.CloseGrace, 20 * time.Second, mayBeNegative},
		number[time.Duration]{"ttl", &o.TTL, 7 * 24 * time.Hour, mayBeNegative},
		number[time.Duration]{"retention", &o.Retention, 30 * 24 * time.Hour, mayBeNegative},
		number[time.Duration]{"usage_retention", &o.UsageRetention, 30 * 24 * time.Hour, mayBeNegative},
		number[time.Duration]{"sweep_interval", &o.SweepInterval, 10 * time.Minute, mayBeNegative},
		number[time.Duration]{"hook_timeout", &o.HookTimeout, 5 * time.Minute, mayBeNegative},
		number[time.Duration]{"model_idle", &o.ModelIdle, 10 * time.Minute, mayBeNegative},
		number[time.Duration]{"host_grace", &o.HostGrace, 2 * time.Minute, mayBeNegative},
		number[time.Duration]{field: "wait_at_most", value: &o.WaitAtMost},
		number[int]{field: "max_recoveries", value: &o.MaxRecoveries, unset: 10},
		number[int]{field: "work_concurrency", value: &o.WorkConcurrency, unset: 1000},
		number[int]{"cache_sessions", &o.CacheSessions, 256, mayBeNegative},
		number[int64]{"cache_bytes", &o.CacheBytes, 64 << 20, mayBeNegative},
		number[int]{"max_depth", &o.MaxDepth, 8, mayBeNegative},
		number[int]{"max_tree_sessions", &o.MaxTreeSessions, 1000, mayBeNegative},
		number[int]{"max_replaced", &o.MaxReplaced, 50, mayBeNegative},
		number[int]{"max_queue", &o.MaxQueue, 100, mayBeNegative},
		retention{&o.EventRetention},
	}
}

// complete fills in defaults, or returns an error for an invalid option.
func complete(o *Options) error {
	for _, h := range o.Hooks {
		if h == nil {
			return cairn.Invalid("hooks", "an entry is nil")
		}
	}
	for _, s := range numeric(o) {
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

// Options tune an Engine. The zero value and nil mean the defaults. Its fields are declared in package settings.
type Options = settings.Options

// EventRetention limits an event log. The zero value keeps everything.
type EventRetention = settings.EventRetention

// buildVersion returns the version of this program's main module, or else the revision that it was built from.
var buildVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	if info.Main.Version == "(devel)" && revision != "" {
		return revision
	}
	return cmp.Or(info.Main.Version, revision)
})
