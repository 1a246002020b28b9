// Package effects carries out what the loop of package turn asks for: model calls, tools, the consultation of other agents,
// hooks and commits. It has the I/O, the clock and the user code that the loop does not. What is pure about it is in the
// packages beside it: the transcript's rules, the facts of a step, the events that follow from them.
package effects

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/retry"
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

// persist calls the store, again if storage is unavailable for a moment.
func (fx *Effects) persist(ctx context.Context, call func() error) error {
	return retry.Storage(ctx, fx.Logger, call)
}
