// Package effects executes what the loop of package turn asks for: model calls, tools, consultations of other agents,
// hooks and commits. It has the I/O, the clock and the user code that the loop does without. The pure parts are in the
// packages next to it: the rules of transcripts, the facts of a step, and the events that follow from facts.
package effects

import (
	"context"

	"sync"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// Effects executes effects. It is safe for concurrent use.
type Effects struct {
	*lifecycle.Runs
	draining func() bool
	growing  growing
	// figures has the figures of the models that were called, by [cairn.ModelInfo].
	figures sync.Map
}

// New returns the effects of runs. draining reports whether the process is draining. If so, every step is committed and
// published as soon as it is done, so that the run can be released after it.
func New(runs *lifecycle.Runs, draining func() bool) *Effects {
	return &Effects{Runs: runs, draining: draining}
}

// figures are what the table of models has of one.
type figures struct {
	cairn.ModelEntry
	found  bool
	logged atomic.Bool // what the table lacks
}

// figuresOf returns the figures of a model. A search for its name compares it with many.
func (fx *Effects) figuresOf(m cairn.ModelInfo) *figures {
	if f, ok := fx.figures.Load(m); ok {
		return f.(*figures)
	}
	f := &figures{}
	f.ModelEntry, f.found = fx.Models.Find(m)
	kept, _ := fx.figures.LoadOrStore(m, f)
	return kept.(*figures)
}

// window returns the size of a model's window in tokens; 0 if unknown.
func (fx *Effects) window(m cairn.ModelInfo) int {
	return fx.figuresOf(m).Window
}

// persist calls the store, and retries while storage is unavailable.
func (fx *Effects) persist(ctx context.Context, call func() error) error {
	return retry.Storage(ctx, fx.Logger, call)
}

// hold returns the session that an effect works on. This process must be driving it under the position's lease.
func (fx *Effects) hold(at turn.Position) (*session.Live, *cairn.Agent, error) {
	l := fx.Cache.Get(at.SessionID)
	if l == nil || l.Row.Lease.Token != at.Token || l.Run.ID != at.RunID {
		return nil, nil, cairn.Errorf(cairn.ErrFenced, "session %q is not driven by this process", at.SessionID)
	}
	return l, l.Agent(), nil
}

// growing serializes, per tree and within this process, the calls that count and extend a tree.
type growing struct {
	mu sync.Mutex
	by map[string]*growth // by root
}

// growth is a tree that calls want to extend.
type growth struct {
	calls int
	turn  chan struct{} // holds a value while a call has its turn
}

// lock waits for the call's turn to extend a tree.
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
