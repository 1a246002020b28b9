// Package lifecycle has what happens to a run from outside its loop: it begins runs, takes over those of dead
// processes, ends those that nothing drives, and closes calls whose deadline has passed. Every commit of it has its
// events, see [Runs.Write]. The steps of a run are not made here: that is for package effects, which this one does not
// know.
package lifecycle

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/learning"
	"github.com/cairn-agents/cairn/internal/turn/periods"
	"github.com/cairn-agents/cairn/internal/turn/remotestop"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// Config is what runs need of their engine. Every field but Records is set.
type Config struct {
	// Options are the engine's, completed; their Log is set.
	*settings.Options
	Store driver.Store
	// Records are the store's, if it keeps any; else nil.
	Records driver.Records
	// OwnLog says that Log is the store's own, to which its commits append their events.
	OwnLog bool
	Agents func(name, version string) (*cairn.Agent, bool)
	// Budgeted reports whether an agent that may make others run has a budget.
	Budgeted func() bool
	// Owner names this process in leases.
	Owner string
	// Go calls a function in a goroutine of its own, as the go statement does.
	Go func(func())
	// Behind calls a function in a goroutine that ends with the engine, as does the context that it is given. It may
	// leave that out.
	Behind func(func(context.Context))
	// Finish is like Behind, but the end of the engine waits for the function, which is always called.
	Finish func(func(context.Context))
}

// Runs are the runs of a process's sessions, from their begin to their end. It is safe for concurrent use.
type Runs struct {
	Config
	Cache   *session.Cache
	Journal *journal.Log
	User    user.Caller
	// RemoteStops are the stops that ended runs owe to work elsewhere.
	RemoteStops remotestop.Stops
	// Periods are the budgets of periods.
	Periods *periods.Periods
	// Learning are the ended turns that memories are to learn from.
	Learning *learning.Turns
	// StoreBehind counts how often the store lacked writes of a session that this process knew of.
	StoreBehind atomic.Int64
	keeper      host.Keeper // the host, if it finds out by itself that a process has died; else nil
	silence     silence     // of the keeper
	// companions are the companion tools by agent, since making them costs.
	companions sync.Map // of *cairn.Agent to []cairn.Tool
}

// New returns the runs of a process.
func New(c Config) *Runs {
	r := &Runs{Config: c, Cache: session.NewCache(c.CacheSessions, c.CacheBytes), Journal: journal.NewLog(c.Log, c.OwnLog, c.Options),
		User:        user.Caller{Options: c.Options, Go: c.Go, Executes: func(dialect string) error { return driver.Executes(c.Store, dialect) }, StoreBlob: c.storeBlob},
		RemoteStops: remotestop.Stops{Options: c.Options, Store: c.Store, Records: c.Records, Agents: c.Agents, Behind: c.Behind}}
	r.Learning = learning.New(learning.Turns{Options: c.Options, Store: c.Store, Records: c.Records, Agents: c.Agents, User: &r.User, Finish: c.Finish})
	r.Periods = periods.New(c.Options, c.Store, c.Records)
	r.keeper, _ = c.Host.(host.Keeper)
	return r
}

// storeBlob stores a part of an artifact.
func (c *Config) storeBlob(ctx context.Context, owner driver.BlobOwner, part []byte) (string, error) {
	blobs, err := driver.BlobsOf(c.Store)
	if err != nil {
		return "", err
	}
	keys, err := blobs.Put(ctx, owner, part)
	if err != nil {
		return "", err
	}
	return keys[0], nil
}

// RecordEnd records what a run that is about to be committed as ended leaves to be done: the stop that it owes to work
// elsewhere, and that its agent's memory is to learn from the turn. row is its session. The caller calls after once the end
// is committed, and after everything else, since it may take long.
func (r *Runs) RecordEnd(ctx context.Context, run *cairn.Run, row *cairn.Session) (after func(context.Context), err error) {
	deliver, err := r.RemoteStops.Record(ctx, run, row.ID)
	if err != nil {
		return nil, err
	}
	learn, err := r.Learning.Record(ctx, run, row.ID)
	switch {
	case err != nil:
		return nil, err
	case learn == nil && !r.Periods.Applies():
		return deliver, nil
	}
	return func(ctx context.Context) {
		if r.Periods.Applies() {
			r.Periods.End(ctx, run, row)
		}
		if learn != nil {
			learn()
		}
		deliver(ctx)
	}, nil
}

// Remote reports whether effects are remote: each may run in another process than the one before, so what one leaves for
// the next goes through the store.
func (r *Runs) Remote() bool { return r.Host != nil }

// Agent returns a registered agent: of a version, or the latest if that is empty or not registered.
func (r *Runs) Agent(name, version string) (*cairn.Agent, error) {
	a, ok := r.Agents(name, version)
	if !ok {
		return nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "agent", Message: fmt.Sprintf("agent %q is not registered", name)}
	}
	return a, nil
}

// CompanionTools returns the tools through which an agent talks to its companions.
func (r *Runs) CompanionTools(a *cairn.Agent) []cairn.Tool {
	if len(a.Companions) == 0 {
		return nil
	}
	list, ok := r.companions.Load(a)
	if !ok {
		list, _ = r.companions.LoadOrStore(a, define.CompanionTools(a))
	}
	return list.([]cairn.Tool)
}

// AgentsReplaced forgets what was made for agents that may not be registered any more.
func (r *Runs) AgentsReplaced() { r.companions.Clear() }

// SetAgent says which agent drives a session in memory from now on, with the hooks of the call that began the run.
func (r *Runs) SetAgent(l *session.Live, a *cairn.Agent, call *cairn.Hooks) {
	l.SetAgent(a, r.CompanionTools(a), r.Hooks, call)
}

// Scope returns a scope for user code that is called in a step of a session.
func (r *Runs) Scope(l *session.Live, number int, below ...*step.Writes) *user.Scope {
	s := new(user.Scope)
	s.Init(&r.User, l, l.Emit, number, below)
	return s
}

// RequestStop makes a run stop at once if this process drives it.
func (r *Runs) RequestStop(id string, stop cairn.Stop) { r.Cache.RequestStop(id, stop) }

// Abandoned returns how many calls of user code were abandoned and have not returned yet.
func (r *Runs) Abandoned() int { return r.User.Abandoned() }

// HasTool reports whether an agent has or is given a tool of some name. What toolsets offer is a session's matter, so
// an agent with toolsets may have any.
func (r *Runs) HasTool(a *cairn.Agent, name string) bool {
	return define.HasToolsets(a) || session.Named(name, a.Tools, r.CompanionTools(a))
}

// Evict drops what is kept in memory of the sessions of a tree that no run of this process drives.
func (r *Runs) Evict(root string) { r.Cache.Evict(root) }

// Forget drops a session that this process stops driving before the run has ended.
func (r *Runs) Forget(at turn.Position) { r.Cache.Forget(at) }

// stamp sets the run of messages that it adds, and an id where there is none. The store sets their times.
func stamp(list []cairn.Message, runID string) []cairn.Message {
	for i := range list {
		m := &list[i]
		m.RunID, m.CreatedAt = runID, time.Time{}
		if m.ID == "" {
			m.ID = runID + "/in" + strconv.Itoa(i)
		}
	}
	return list
}

// TooDeep returns the error for a session that would be more than limit levels deep.
func TooDeep(limit int) error {
	return &cairn.Error{Code: cairn.ErrTooLarge, Field: "depth", Message: fmt.Sprintf("delegation depth limit of %d reached", limit)}
}
