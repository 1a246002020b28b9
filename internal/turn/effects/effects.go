// Package effects carries out what the loop of package turn asks for: model calls, tools, the consultation of other agents,
// hooks and commits. It has the I/O, the clock and the user code that the loop does not. What is pure about it is in the
// packages beside it: the transcript's rules, the facts of a step, the events that follow from them.
package effects

import (
	"context"
	"time"

	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// Config is what effects need in addition to what runs need.
type Config struct {
	NewID func(prefix string) string
	// ModelIdle bounds the silence of a model; 0 is no bound.
	ModelIdle time.Duration
	// Models says how large the windows of models are, and what they cost.
	Models cairn.ModelTable
	// Draining reports whether the process is about to end: then every step is committed and published as soon as it is done, so
	// that the run can be released behind it.
	Draining func() bool
	// MaxDepth and MaxTreeSessions bound the trees of sub-agents' sessions; a negative value means any number.
	MaxDepth, MaxTreeSessions int
}

// Effects carries out what the loop asks for. It is safe for concurrent use.
type Effects struct {
	*lifecycle.Runs
	Config
	growing growing
}

// New returns the effects of runs, by a configuration whose every field is set.
func New(runs *lifecycle.Runs, c Config) *Effects { return &Effects{Runs: runs, Config: c} }

// window returns how many tokens the window of a model has; 0 if that is not known.
func (fx *Effects) window(m cairn.ModelInfo) int {
	e, _ := fx.Models.Find(m)
	return e.Window
}

// priced returns what one call of a model has used, with what it cost, if that is known.
func (fx *Effects) priced(m cairn.ModelInfo, used cairn.Usage) cairn.Usage {
	used.ModelCalls++
	if e, ok := fx.Models.Find(m); ok && used.InputTokens+used.OutputTokens > 0 {
		used.CostNanos, used.PricedCalls = e.Cost(used), 1
	}
	return used
}

// persist calls the store, again if storage is unavailable for a moment.
func (fx *Effects) persist(ctx context.Context, call func() error) error {
	return retry.Storage(ctx, fx.Logger, call)
}

// hold returns the session an effect works on, which this process must be driving under the position's lease.
func (fx *Effects) hold(at turn.Position) (*session.Live, *cairn.Agent, error) {
	l := fx.Cache.Get(at.SessionID)
	if l == nil || l.Row.Lease.Token != at.Token || l.Run.ID != at.RunID {
		return nil, nil, cairn.Errorf(cairn.CodeFenced, "session %q is not driven by this process", at.SessionID)
	}
	return l, l.Agent, nil // whatever is registered by now
}

// growing lets one call at a time count and extend a tree in this process.
type growing struct {
	mu sync.Mutex
	by map[string]*growth // by root
}

// growth is a tree that calls want to extend.
type growth struct {
	calls int
	turn  chan struct{} // holds a value while a call has its turn
}

// lock waits for a call's turn to extend a tree.
func (g *growing) lock(ctx context.Context, root string) (unlock func(), err error) {
	g.mu.Lock()
	t := g.by[root]
	if t == nil {
		t = &growth{turn: make(chan struct{}, 1)}
		if g.by == nil {
			g.by = map[string]*growth{}
		}
		g.by[root] = t
	}
	t.calls++
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.calls--; t.calls == 0 {
			delete(g.by, root)
		}
	}
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
