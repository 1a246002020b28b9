// Package effects carries out what the loop of package turn asks for: model calls, tools, the consultation of other agents,
// hooks and commits. It has the I/O, the clock and the user code that the loop does not. What is pure about it is in the
// packages beside it: the transcript's rules, the facts of a step, the events that follow from them.
package effects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/retry"
)

// Config is what effects need beside what runs need.
type Config struct {
	NewID func(prefix string) string
	// ModelIdle bounds the silence of a model; 0 is no bound.
	ModelIdle time.Duration
	// MaxDepth and MaxTreeSessions bound the trees of sub-agents' sessions; a negative value means any number.
	MaxDepth, MaxTreeSessions int
	// Ended is told of each run that came to its end here, and of its session as that left it.
	Ended func(context.Context, *cairn.Run, *cairn.Session)
	// Drive takes a sub-agent's run that was begun to its end, under its lease.
	Drive func(context.Context, turn.Begun) error
	// Launch takes a companion's run to its end beside whatever else goes on, and returns at once.
	Launch func(context.Context, turn.Begun)
}

// Effects carries out what the loop asks for. It is safe for concurrent use.
type Effects struct {
	*lifecycle.Runs
	Config
	growing growing
}

// New returns the effects of runs, by a configuration whose every field is set.
func New(runs *lifecycle.Runs, c Config) *Effects { return &Effects{Runs: runs, Config: c} }

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

// persist calls the store, again if storage is unavailable for a moment.
func (fx *Effects) persist(ctx context.Context, call func() error) error {
	return retry.Storage(ctx, fx.Logger, call)
}
