package engine

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/effects"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
)

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

// Engine runs agents on a store. It is safe for concurrent use; any number of engines, in any number of processes, may
// share a store.
type Engine struct {
	opts  Options
	store store.Store
	// sweeper is the store, if that can hide what it removes; else nil.
	sweeper store.Sweeper
	// records are the store's, if it keeps any; else nil.
	records store.Records
	log     store.Log
	runs    *lifecycle.Runs
	fx      *effects.Effects
	agents  atomic.Pointer[registry]

	ctx        context.Context // ends when Close gives up waiting; it bounds goroutines, not calls
	cancel     context.CancelCauseFunc
	driven     sync.WaitGroup // goroutines that drive runs
	background sync.WaitGroup // goroutines that end with ctx
	watch      sync.Once
	beats      heartbeats
	readers    watchers     // of event logs
	crew       crew         // runs the goroutines of runs and of tools
	working    atomic.Int64 // calls of Work that are registered
	draining   atomic.Bool  // runs are released behind their step

	mu        sync.Mutex
	closed    bool
	abandoned bool                // Close released a run
	beginning map[string]struct{} // run ids
	driving   map[string]*Run     // by run id
}

// New returns an engine for some agents. The error names the agent and the field that is wrong. The store stays the
// caller's to close, after the engine.
func New(st store.Store, agents []*cairn.Agent, opts *Options) (*Engine, error) {
	if st == nil {
		return nil, cairn.Invalid("store", "is required")
	}
	e := &Engine{store: st, beginning: map[string]struct{}{}, driving: map[string]*Run{}}
	e.sweeper, _ = st.(store.Sweeper)
	if p, ok := st.(store.RecordProvider); ok {
		e.records = p.Records()
	}
	if opts != nil {
		e.opts = *opts
	}
	if err := e.opts.complete(); err != nil {
		return nil, err
	}
	e.log = e.opts.Log
	if e.log == nil {
		own, ok := st.(store.LogProvider)
		if !ok {
			return nil, cairn.Invalid("log", "the store brings no event log; set Options.Log")
		}
		e.log = own.EventLog()
	}
	if _, ok := e.log.(store.LogSweeper); !ok && e.opts.EventRetention != (EventRetention{}) {
		return nil, cairn.Invalid("event_retention", "the event log does not know which logs are to be swept (store.LogSweeper)")
	}
	self := owner(e.opts.NewID)
	var keeper lifecycle.Keeper
	if k, ok := e.opts.Host.(Keeper); ok {
		if err := k.CheckLease(e.opts.LeaseTTL); err != nil {
			return nil, err
		}
		self += "@" + k.Name()
		keeper = k
	}
	if n := e.log.MaxEvent(); n < minEvent {
		return nil, cairn.Invalid("log", "it takes events of at most %d bytes, at least %d are needed", n, minEvent)
	}
	if err := e.Replace(agents...); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.runs = lifecycle.New(lifecycle.Config{
		Store: st, Log: e.log, Hooks: e.opts.Hooks, Logger: e.opts.Logger, Now: e.opts.Now,
		Agents:   e.version,
		Owner:    self,
		LeaseTTL: e.opts.LeaseTTL, Coalesce: e.opts.Coalesce, StopGrace: e.opts.StopGrace, HookTimeout: e.opts.HookTimeout,
		MaxRecoveries: e.opts.MaxRecoveries, CacheSessions: e.opts.CacheSessions, CacheBytes: e.opts.CacheBytes,
		Go: e.crew.run, Remote: e.opts.Host != nil, Keeper: keeper,
	})
	e.fx = effects.New(e.runs, effects.Config{
		NewID: e.opts.NewID, Draining: e.draining.Load, ModelIdle: e.opts.ModelIdle, Models: e.opts.Models, MaxDepth: e.opts.MaxDepth, MaxTreeSessions: e.opts.MaxTreeSessions,
	})
	return e, nil
}

// minEvent is the least maximum size of an event that leaves room for something after the longest ids.
const minEvent = 8 << 10

func owner(newID func(string) string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(os.Getpid()) + ":" + newID("engine")
}

// Close stops the engine: new runs are refused, and those under way may come to their end until ctx is done. Then they
// are released where they stand: what they committed stays, and another process, or this one after a restart, can
// take them over at once. It returns ctx's error if runs had to be released.
//
// User code that does not heed its context does not hold it up for longer than two seconds after ctx is done, and a store that
// does not answer for no more than five: what is left then ends by itself, and its leases run out.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	done, left := make(chan struct{}), make(chan struct{})
	go func() {
		e.driven.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	e.cancel(errClosed())
	go func() {
		<-done
		e.readers.close()
		e.background.Wait()
		e.crew.close()
		close(left)
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
		e.opts.Logger.Error("the engine was closed with runs that could not be released")
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.abandoned {
		return ctx.Err()
	}
	return nil
}

// Drain closes the engine as Close does, for a process that others take over from: a run under way need not come to its end. It
// finishes its step, is committed whatever the agent's durability says, and is then released, so that another worker continues
// it within a poll, and repeats nothing. What is not done when ctx is done is released where it stands, and its step is repeated.
// It returns ctx's error if there was such a run.
//
// The step of a call that consults a sub-agent lasts as long as the sub-agent's run; if the agent is [cairn.PerTool], that run
// is released behind its own step as well. With a [Host] the effects under way come to their end, and the next ones are for the
// host to have carried out elsewhere. [Run.Wait] and [Run.Events] of a run that is released end with ErrClosed.
func (e *Engine) Drain(ctx context.Context) error {
	e.draining.Store(true)
	return e.Close(ctx)
}

// closeWait bounds how long Close takes after its context is done, or after the last run has ended.
const closeWait = 5 * time.Second

// Abandoned returns how many calls of user code were given up, because they took too long or did not heed their context, and
// have not returned since. Each of them holds a goroutine.
func (e *Engine) Abandoned() int { return e.runs.Abandoned() }
