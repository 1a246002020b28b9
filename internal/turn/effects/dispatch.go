package effects

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn/internal/turn"
)

// Run executes one effect.
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
