package engine

import (
	"fmt"
	"log/slog"
	"time"

	"cmp"
	"runtime/debug"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
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

// Options tune an Engine. The zero value and nil mean the defaults.
type Options struct {
	// Log is where events go; nil means the store's own log.
	Log store.Log
	// Hooks are called for every agent, before the agent's own.
	Hooks []*cairn.Hooks
	// Logger gets retries, panics and troubles with storage; nil is silent.
	Logger *slog.Logger
	// LeaseTTL is how long a session stays with a process that has stopped giving signs of life; 0 means 30 seconds. A
	// heartbeat renews the lease three times in that time.
	LeaseTTL time.Duration
	// Coalesce is how long events may be held back to be written together; 0 means 20 ms, a negative value none. The
	// first text of a step is never held back.
	Coalesce time.Duration
	// StopGrace is how long tools, models, hooks and the like may run on after their context has ended, because the run
	// was stopped or lost; 0 means 5 seconds. What is still at work then is abandoned: the run continues without it, its
	// handle is dead, and its result, should there ever be one, counts for nothing. While an engine is being closed it
	// is two seconds at most. See [Engine.Abandoned].
	StopGrace time.Duration
	// HookTimeout is how long a hook, a guard, a stop condition, instructions, the condition of an approval and the methods
	// with which a user's type decodes itself may take; 0 means 5 minutes, a negative value without bound. What takes longer
	// is given up. That fails a run with CodeTimeout if it was a guard, with CodeHook if it was the instructions or a hook
	// with a veto on the model call; else it counts as an error of the hook.
	HookTimeout time.Duration
	// ModelIdle is how long a model may send nothing before its call is given up, and tried again as one that failed with
	// CodeTimeout; 0 means 10 minutes, a negative value without bound.
	ModelIdle time.Duration
	// MaxRecoveries is how often a run is taken over from a dead process without getting a step further before it is
	// failed; 0 means 10.
	MaxRecoveries int
	// CacheSessions is how many sessions are kept in memory after their turn, so that the next one costs no read; 0 means
	// 256, a negative value none.
	CacheSessions int
	// CacheBytes is about how many bytes of messages, state and cached results those sessions may hold together; 0 means
	// 64 MiB, a negative value any number. A session that holds more by itself is not kept.
	CacheBytes int64
	// AutoResume makes Submit resume a session in this process when the last answer it waited for is in.
	AutoResume bool
	// WorkInterval is how often Work looks for sessions that need it; 0 means one second.
	WorkInterval time.Duration
	// WorkConcurrency is how many runs Work drives at once; 0 means 16.
	WorkConcurrency int
	// CloseGrace is how long Serve lets the runs under way finish their step once its context is done; 0 means 20 seconds,
	// a negative value no time. What ends a process must give it some seconds more.
	CloseGrace time.Duration
	// TTL is how long a session may be idle before it expires, if its agent does not say; 0 means 7 days, a negative value
	// for ever. See [cairn.Session.Expiry].
	TTL time.Duration
	// Retention is how long what deleted and expired sessions own is kept before Sweep removes it for good; 0 means 30 days,
	// a negative value for ever.
	Retention time.Duration
	// EventRetention is how much of each event log is kept; the zero value keeps everything. Sweep trims the rest. The log must
	// be a [store.LogSweeper].
	EventRetention EventRetention
	// SweepInterval is how often Work calls Sweep; 0 means 10 minutes, a negative value never.
	SweepInterval time.Duration
	// MaxDepth is how many levels of sub-agents and companions there may be below a root session; 0 means 8, a negative
	// value any number. A call that would begin a session further down is a tool error that the model gets.
	MaxDepth int
	// MaxTreeSessions is how many sessions a tree may hold, the root and those that have ended included; 0 means 1,000, a
	// negative value any number. A call that would begin one more is a tool error that the model gets. Processes that
	// begin sessions in one tree at the same moment may each exceed it by one.
	MaxTreeSessions int
	// Host drives the runs; nil means goroutines of this process.
	Host Host
	// HostGrace is how long Work leaves a run alone whose lease ran out if it was given to a [Keeper] of another name than
	// Host has, which cannot be asked here; 0 means 2 minutes, a negative value none. Verbs do not wait for that.
	HostGrace time.Duration
	// Version is what Work registers as the program's version, see [Worker]; empty means that of the program's main module,
	// or the revision that it was built from.
	Version string
	// Now is the process's clock; nil means time.Now. It only measures how long something takes within the process: every time
	// that decides something is the store's, so a clock that is wrong changes nothing.
	Now func() time.Time
	// Models says how large the windows of models are, when the history is to be summarised for them, and what their tokens
	// cost, which is kept with the usage of each call. nil means [cairn.DefaultModels].
	Models cairn.ModelTable
	// NewID makes identifiers; nil means random ones.
	NewID func(prefix string) string
}

// buildVersion returns what this program was built from: the version of its main module, or else the revision.
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
