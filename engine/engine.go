package engine

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn/effects"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Engine runs agents on a store. It is safe for concurrent use; any number of engines, in any number of processes, may
// share a store.
type Engine struct {
	opts  Options
	store store.Store
	// records are the store's; nil if it keeps none.
	records store.Records
	log     store.Log
	runs    *lifecycle.Runs
	fx      *effects.Effects
	reader  *reader
	upkeep  *upkeep
	beats   heartbeats
	slow    slowness // of the host
	// advances are the steps that calls of Advance drive.
	advances advances
	agents   atomic.Pointer[registry]

	ctx        context.Context // ends when Close stops waiting; bounds goroutines, not calls
	cancel     context.CancelCauseFunc
	driven     sync.WaitGroup // goroutines that drive runs
	background sync.WaitGroup // goroutines that end with ctx
	crew       crew           // runs the goroutines of runs and of tools
	working    atomic.Int64   // calls of Work that are registered
	draining   atomic.Bool    // runs are released behind their step

	mu        sync.Mutex
	closed    bool
	abandoned bool                     // Close released a run
	beginning map[runKey]chan struct{} // closed when the begin has succeeded or failed
	driving   map[runKey]*Run
}

// New returns an engine for the given agents. The error names the agent and the invalid field. A decorator that hides
// abilities of its store or log is refused, see [driver.Unwrapper]. The caller closes the store, after the engine.
func New(st store.Store, agents []*cairn.Agent, opts *Options) (*Engine, error) {
	if st == nil {
		return nil, cairn.Invalid("store", "is required")
	}
	e := &Engine{store: st, beginning: map[runKey]chan struct{}{}, driving: map[runKey]*Run{}}
	if err := driver.CheckDecorator(st); err != nil {
		return nil, err
	}
	if p, ok := driver.As[store.RecordProvider](st); ok {
		e.records = p.Records()
	}
	if opts != nil {
		e.opts = *opts
	}
	if err := complete(&e.opts); err != nil {
		return nil, err
	}
	if err := checkRules(e.opts.Budgets, e.records != nil); err != nil {
		return nil, err
	}
	ownLog := e.opts.Log == nil || driver.OwnLog(st, e.opts.Log)
	if e.opts.Log == nil {
		own, ok := driver.As[driver.LogProvider](st)
		if !ok {
			return nil, cairn.Invalid("log", "store has no event log; set Options.Log")
		}
		e.opts.Log = own.EventLog()
	}
	e.log = e.opts.Log
	if _, ok := driver.LogAs[driver.LogSweeper](e.log); !ok && e.opts.EventRetention != (EventRetention{}) {
		return nil, cairn.Invalid("event_retention", "requires an event log that implements store.LogSweeper")
	}
	self := owner(e.opts.NewID)
	if k, ok := e.opts.Host.(host.Keeper); ok {
		if err := k.CheckLease(e.opts.LeaseTTL); err != nil {
			return nil, err
		}
		self += "@" + k.Name()
	}
	if n := e.log.MaxEvent(); n < minEvent {
		return nil, cairn.Invalid("log", "event log accepts at most %d bytes per event, need %d", n, minEvent)
	}
	if err := driver.CheckLogDecorator(e.log); err != nil {
		return nil, err
	}
	if err := e.Replace(agents...); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.runs = lifecycle.New(lifecycle.Config{Options: &e.opts, Store: st, Records: e.records, OwnLog: ownLog, Agents: e.version, Budgeted: e.budgeted,
		Owner: self, Go: e.crew.run, Behind: e.behind, Finish: e.finish})
	e.fx = effects.New(e.runs, e.draining.Load)
	e.runs.Learning.Text, e.runs.Learning.Learned = e.fx.Text, e.beside
	e.reader = &reader{store: st, log: e.log, watchers: watchers{ctx: e.ctx, runs: e.runs}}
	e.beats = heartbeats{store: st, runs: e.runs}
	sweeper, _ := driver.As[driver.Sweeper](st)
	e.upkeep = &upkeep{opts: &e.opts, reader: e.reader, store: st, sweeper: sweeper, log: e.log, records: e.records,
		evict: e.runs.Evict, scrubbers: scrubbers(st, e.log)}
	if p, ok := driver.As[store.BlobProvider](st); ok {
		e.upkeep.blobs = p.Blobs()
	}
	if p, ok := driver.As[driver.UsageProvider](st); ok {
		e.upkeep.usages = p.Usages()
	}
	return e, nil
}

// behind calls fn in a goroutine of the engine, with a context that ends with the engine. Once Close was called, it
// does nothing.
func (e *Engine) behind(fn func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.background.Go(func() { fn(e.ctx) })
	}
}

// enter counts a run in before it begins, so that Close waits for it. drive, or a caller that does not get that far,
// calls driven.Done.
func (e *Engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed()
	}
	e.driven.Add(1)
	return nil
}

// finish calls fn in a goroutine, with a context that ends with the engine. Close waits for it as for a run. Once Close was
// called, it calls fn itself: the run that is ending is waited for.
func (e *Engine) finish(fn func(context.Context)) {
	if e.enter() != nil {
		fn(e.ctx)
		return
	}
	e.crew.run(func() {
		defer e.driven.Done()
		fn(e.ctx)
	})
}

// minEvent is the smallest maximum size of an event that leaves room for content after the longest ids.
const minEvent = 8 << 10

func owner(newID func(string) string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(os.Getpid()) + ":" + newID("engine")
}

// Close stops the engine. It refuses new runs and lets those under way end until ctx is done. Then it releases the
// remaining ones at once: their commits stay, and another process, or this one after a restart, can take them over
// immediately. It returns ctx's error if it had to release runs.
//
// User code that ignores its context delays Close by at most two seconds after ctx is done, and a store that does not
// answer by at most five. Work that remains then ends by itself, and its leases lapse.
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
		e.reader.watchers.close()
		e.background.Wait()
		e.crew.close()
		close(left)
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
		e.opts.Logger.Error("engine closed with unreleased runs")
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.abandoned {
		return ctx.Err()
	}
	return nil
}

// Drain closes the engine as Close does, for a process whose work others continue. A run under way does not have to
// end. It finishes its step, commits it regardless of the agent's durability, and is then released. Another worker
// continues it within a poll and repeats nothing. A run whose step is not finished when ctx is done is released in the
// middle of it, and the step is repeated. Drain returns ctx's error if there was such a run.
//
// The step of a call that consults a sub-agent lasts as long as the sub-agent's run. If the agent is [cairn.PerTool],
// that run is released behind its own step as well. With a [Host], the effects under way end, and the host has the next
// ones carried out by another process. [Run.Wait] and [Run.Events] of a released run end with ErrClosed.
func (e *Engine) Drain(ctx context.Context) error {
	e.draining.Store(true)
	return e.Close(ctx)
}

// closeWait bounds how long Close takes after its context is done, or after the last run has ended.
const closeWait = 5 * time.Second

// StoreBehind returns how often the store lacked writes of a session that this process had made or read, as after a
// failover to a replica that had not received them. The store's version applies: the next turn begins with it. A run
// whose steps are lost ends here with ErrStoreBehind and is taken over from the last step that the store has.
func (e *Engine) StoreBehind() int64 { return e.runs.StoreBehind.Load() }

// Abandoned returns how many calls of user code were abandoned, because they took too long or ignored their context,
// and have not returned since. Each of them holds a goroutine.
func (e *Engine) Abandoned() int { return e.runs.Abandoned() }

// Driving returns how many runs this engine drives at the moment: those whose leases it renews. A run on a [Host] counts
// in the process that carries out an effect of it.
func (e *Engine) Driving() int { return e.beats.count() }
