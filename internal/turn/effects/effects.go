// Package effects carries out what the loop of package turn asks for: model calls, tools, the consultation of other agents,
// hooks and commits. It has the I/O, the clock and the user code that the loop does not. What is pure about it is in the
// packages beside it: the transcript's rules, the facts of a step, the events that follow from them.
package effects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// Config is what effects need from their host.
type Config struct {
	Store  store.Store
	Log    store.Log
	Agents func(name string) (*cairn.Agent, bool)
	Hooks  []*cairn.Hooks
	Logger *slog.Logger
	// Now is the process's clock. It measures what passes within the process; no time of it decides anything.
	Now   func() time.Time
	NewID func(prefix string) string
	// Owner names this process in leases.
	Owner    string
	LeaseTTL time.Duration
	// Coalesce is how long events may be held back to be written together.
	Coalesce time.Duration
	// StopGrace is how long user code may go on after its context has ended.
	StopGrace time.Duration
	// HookTimeout bounds hooks, guards and their like, ModelIdle the silence of a model; 0 is no bound.
	HookTimeout, ModelIdle time.Duration
	// MaxRecoveries bounds how often a run is taken over without committing a step.
	MaxRecoveries int
	// CacheSessions bounds how many sessions that nobody drives are kept in memory.
	CacheSessions int
	// CacheBytes bounds about how much they hold together; a negative value does not.
	CacheBytes int64
	// MaxDepth and MaxTreeSessions bound the trees of sub-agents' sessions; a negative value means any number.
	MaxDepth, MaxTreeSessions int
	// Ended is told of each run that came to its end here, and of its session as that left it.
	Ended func(context.Context, *cairn.Run, *cairn.Session)
	// Drive takes a sub-agent's run that was begun to its end, under its lease.
	Drive func(context.Context, turn.Begun) error
	// Launch takes a companion's run to its end beside whatever else goes on, and returns at once.
	Launch func(context.Context, turn.Begun)
	// Go calls a function in a goroutine of its own, as the go statement does.
	Go func(func())
	// Apart says that each effect may run in another process than the one before, and comes by Carry: what one leaves for
	// the next goes through the store.
	Apart bool
	// Kept is asked of an active session whose lease ran out. The error is ErrAlreadyRunning if its host still drives the run,
	// and the lease is good again.
	Kept func(context.Context, *cairn.Session) error
}

// Effects carries out what the loop asks for. It is safe for concurrent use.
type Effects struct {
	Config
	cache   *session.Cache
	log     *journal.Log
	growing growing
	// untoldEnds are sub-agents' sessions whose last run has ended here without the log being told.
	untoldEnds sync.Map
	// companions are the companion tools by agent, since making them costs.
	companions sync.Map // of *cairn.Agent to []cairn.Tool
	user       user.Caller
}

// NewEffects returns effects over a configuration whose every field is set.
func NewEffects(c Config) *Effects {
	fx := &Effects{Config: c, cache: session.NewCache(c.CacheSessions, c.CacheBytes), log: journal.NewLog()}
	fx.user.Go, fx.user.Logger, fx.user.StopGrace, fx.user.HookTimeout = c.Go, c.Logger, c.StopGrace, c.HookTimeout
	fx.log.Log, fx.log.Now, fx.log.Coalesce, fx.log.Logger = c.Log, c.Now, c.Coalesce, c.Logger
	return fx
}

// Run carries out one effect.
func (fx *Effects) Run(ctx context.Context, e turn.Effect) error {
	switch e.Name {
	case turn.EffectPlan:
		out, err := fx.Plan(ctx, e.In.(turn.Position))
		*e.Out.(*turn.Planned) = out
		return err
	case turn.EffectTool:
		out, err := fx.Tool(ctx, e.In.(turn.ToolIn))
		*e.Out.(*turn.ToolOut) = out
		return err
	case turn.EffectChild:
		out, err := fx.Child(ctx, e.In.(turn.ChildIn))
		*e.Out.(*turn.ChildOut) = out
		return err
	case turn.EffectJudge:
		_, err := fx.Judge(ctx, e.In.(turn.Position))
		return err
	case turn.EffectCommit:
		out, err := fx.Commit(ctx, e.In.(turn.Position))
		*e.Out.(*turn.Committed) = out
		return err
	}
	return fmt.Errorf("unknown effect %q", e.Name)
}

// Direct is the scheduler that runs effects at once, in goroutines where they are parallel.
func (fx *Effects) Direct(ctx context.Context) turn.Scheduler { return direct{ctx, fx} }

type direct struct {
	ctx context.Context // that of the one loop the scheduler is for
	fx  *Effects
}

func (d direct) Do(e turn.Effect) error { return d.fx.Run(d.ctx, e) }

func (d direct) All(n int, branch func(turn.Scheduler, int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { errs[i] = branch(d, i) })
	}
	errs[0] = branch(d, 0)
	wg.Wait()
	return errors.Join(errs...)
}

func (d direct) Child(of turn.ToolIn, b turn.Begun) error { return d.fx.driveChild(d.ctx, of, b) }

// agent returns a registered agent.
func (fx *Effects) agent(name string) (*cairn.Agent, error) {
	a, ok := fx.Agents(name)
	if !ok {
		return nil, &cairn.Error{Code: cairn.CodeNotFound, Field: "agent", Message: fmt.Sprintf("agent %q is not registered", name)}
	}
	return a, nil
}

// companionTools returns the tools through which an agent talks to its companions.
func (fx *Effects) companionTools(a *cairn.Agent) []cairn.Tool {
	if len(a.Companions) == 0 {
		return nil
	}
	list, ok := fx.companions.Load(a)
	if !ok {
		list, _ = fx.companions.LoadOrStore(a, a.CompanionTools())
	}
	return list.([]cairn.Tool)
}

// runs says which agent drives a session in memory from now on, with the hooks of the call that began the run.
func (fx *Effects) runs(l *session.Live, a *cairn.Agent, call *cairn.Hooks) {
	l.Runs(a, fx.companionTools(a), fx.Hooks, call)
}

// newScope returns a scope for user code that is called in a step of a session.
func (fx *Effects) newScope(l *session.Live, number int, below ...*step.Writes) *user.Scope {
	s := new(user.Scope)
	s.Init(&fx.user, l, l.Emit, number, below)
	return s
}

// RequestStop makes a run stop at once if this process drives it.
func (fx *Effects) RequestStop(id string, stop cairn.Stop) { fx.cache.RequestStop(id, stop) }

// Abandoned returns how many calls of user code were abandoned and have not returned yet.
func (fx *Effects) Abandoned() int { return fx.user.Abandoned() }

// persist calls the store, again if storage is unavailable for a moment.
func (fx *Effects) persist(ctx context.Context, call func() error) error {
	return retry.Storage(ctx, fx.Logger, call)
}
