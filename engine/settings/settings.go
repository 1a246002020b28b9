// Package settings declares the options of an engine. Programs use their names in package engine. The declarations are
// here, below the engine, so that all packages of the agent loop can read them without a copy.
package settings

import (
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/store"
)

// Options tune an engine, which completes its copy of them: the zero value and nil mean the defaults. The packages of
// the loop read that copy, and nothing changes it.
type Options struct {
	// Log is where events go; nil means the store's own log.
	Log store.Log
	// Hooks are called for every agent, before the agent's own.
	Hooks []*cairn.Hooks
	// Logger receives retries, panics and storage failures; nil is silent.
	Logger *slog.Logger
	// LeaseTTL is how long a process keeps a session without a sign of life; 0 means 30 seconds. Heartbeats renew the
	// lease three times in that time.
	LeaseTTL time.Duration
	// Coalesce is how long events may be buffered to be written together; 0 means 20 ms. The first text of a step is
	// written at once. While an append is under way, further events are buffered until it is done, so that a slow log
	// does not slow down a model's stream; at 1 MiB the stream waits. A negative value means that nothing is buffered:
	// each event is written before the stream continues.
	Coalesce time.Duration
	// StopGrace is how long tools, models, hooks and other user code may keep running after their context has ended
	// because the run was stopped or lost; 0 means 5 seconds. Code that still runs then is abandoned: the run continues
	// without it, its handle is dead, and its result, if there ever is one, is ignored. While an engine is being
	// closed, the grace is at most two seconds. See Engine.Abandoned.
	StopGrace time.Duration
	// HookTimeout is how long a hook, a guard, a stop condition, instructions, the condition of an approval and the
	// decoding methods of a user's type may take; 0 means 5 minutes, a negative value no limit. Code that takes longer
	// is abandoned. That fails a run with ErrTimeout if it was a guard, and with ErrHook if it was the instructions or
	// a hook with a veto on the model call; otherwise it counts as an error of the hook.
	HookTimeout time.Duration
	// ModelIdle is how long a model may send nothing before its call is abandoned and retried as one that failed with
	// ErrTimeout; 0 means 10 minutes, a negative value no limit.
	ModelIdle time.Duration
	// WaitAtMost is how long a call waits for people if its tool has no [cairn.WaitAtMost] of its own: an approval, the
	// call of a client-executed tool, or a question. 0 means no limit. A tool's own limit applies even if it is longer.
	// Calls that wait already keep the limit with which they were opened.
	WaitAtMost time.Duration
	// MaxRecoveries is how often a run is taken over from a dead process without advancing a step before it is failed;
	// 0 means 10.
	MaxRecoveries int
	// CacheSessions is how many sessions are kept in memory after their turn, so that the next turn needs no read; 0
	// means 256, a negative value none.
	CacheSessions int
	// CacheBytes is the approximate number of bytes of messages, state and cached results that those sessions may hold
	// together; 0 means 64 MiB, a negative value any number. A session that exceeds it on its own is not kept.
	CacheBytes int64
	// AutoResume makes Submit resume a session in this process once the last answer that it waited for is in. When
	// Submit returns the run has begun, except for a run of a dead process, which is taken over in the background.
	AutoResume bool
	// WorkInterval is how often Work looks for due sessions; 0 means one second.
	WorkInterval time.Duration
	// WorkConcurrency is how many runs Work drives at once; 0 means 1000. Runs mostly wait for models, so they mainly
	// need memory: about 100 KB each, and the messages and the state of their sessions.
	WorkConcurrency int
	// CloseGrace is how long Serve lets the runs under way finish their step once its context is done; 0 means 20
	// seconds, a negative value no time. A process manager must allow a few seconds more before it kills the process.
	CloseGrace time.Duration
	// TTL is how long a session may be idle before it expires, if its agent sets no TTL; 0 means 7 days, a negative
	// value forever. See [cairn.Session.Expiry].
	TTL time.Duration
	// Retention is how long the data of deleted and expired sessions is kept before Sweep purges it; 0 means 30 days, a
	// negative value forever.
	Retention time.Duration
	// UsageRetention is how long Sweep keeps the usage rows of commits after their sums are kept by day; 0 means 30 days,
	// a negative value forever.
	UsageRetention time.Duration
	// EventRetention is how much of each event log is kept; the zero value keeps everything. Sweep trims the rest. The
	// log must be a [driver.LogSweeper].
	EventRetention EventRetention
	// SweepInterval is how often Work calls Sweep; 0 means 10 minutes, a negative value never.
	SweepInterval time.Duration
	// MaxDepth is the maximum number of levels of sub-agents and companions below a root session; 0 means 8, a negative
	// value any number. A call that would begin a session below that is a tool error, which the model gets. Levels
	// above a session that an agent of another server began count too, see engine.WithDepth.
	MaxDepth int
	// MaxTreeSessions is the maximum number of sessions in a tree, including the root and those that have ended; 0
	// means 1,000, a negative value any number. A call that would begin one more is a tool error, which the model gets.
	// Processes that begin sessions in one tree concurrently may each exceed the limit by one.
	MaxTreeSessions int
	// MaxReplaced is how many earlier versions of a session engine.KeepReplaced keeps; 0 means 50, a negative value any
	// number. One more removes the oldest.
	MaxReplaced int
	// MaxQueue is the maximum number of entries in a session's queue: all queued turns, and the entries that AddContext
	// and SwitchTools add while a run is under way; 0 means 100, a negative value any number. One more is refused with
	// ErrQueueFull.
	MaxQueue int
	// Host drives the runs; nil means goroutines of this process.
	Host host.Host
	// HostGrace is how long Work leaves a run with a lapsed lease alone if it was given to a [host.Keeper] whose name
	// is not Host's, since this process cannot ask that host; 0 means 2 minutes, a negative value no time. Verbs do not
	// wait for it.
	HostGrace time.Duration
	// Version is the program's version as Work registers it, see engine.Worker; empty means the version of the
	// program's main module, or the revision that it was built from.
	Version string
	// Now is the process's clock; nil means time.Now. It only measures durations within the process. Every time that
	// decides something is the store's, so a wrong clock changes nothing.
	Now func() time.Time
	// Models holds the window sizes of models, which decide when the history is summarized, and the prices of their
	// tokens, which are kept with the usage of each call; nil means [cairn.DefaultModels].
	Models cairn.ModelTable
	// Budgets limit the usage of users, agents, tags and tenants in a period, in addition to the budgets of the agents.
	// They require a store that keeps records.
	Budgets []cairn.BudgetRule
	// NewID makes identifiers; nil means random ones.
	NewID func(prefix string) string
}

// EventRetention limits an event log. The zero value keeps everything.
//
// A log is cut at the beginning of a run of the tree. It keeps at least the events after its root's last commit, the
// events of every run that has not ended or is suspended, and the events of the last hour, see
// [github.com/cairn-agents/cairn/engine.MinEventAge]; ages are by the store's clock. Readers that ask for trimmed
// events get ErrTrimmed, and start again at a snapshot, whose cursor is always in the log. The transcript, the state
// and the checkpoints keep everything.
type EventRetention struct {
	// Age is how long the events of a run are kept after it has ended; 0 means forever. The minimum is an hour.
	Age time.Duration
	// Events is how many of its newest events a log keeps, with the rest of the run that the oldest of them belongs to;
	// 0 means any number.
	Events int
}
