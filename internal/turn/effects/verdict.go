package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// checkOutput returns an error if a text is not of the agent's output type, whose own decoder may run.
func (fx *Effects) checkOutput(ctx context.Context, a *cairn.Agent, raw json.RawMessage) error {
	u := user.Code{What: "the output type", Err: cairn.ErrOutput, Limit: fx.HookTimeout, Agent: a.Name}
	_, err := user.Call(ctx, &fx.User, u, func(context.Context) (struct{}, error) { return struct{}{}, a.Output.Check(raw) })
	return err
}

type verdict struct{ cairn.Verdict }

func (v verdict) apply(c *cairn.Completion) {
	if v.Output != nil {
		c.Output = v.Output
	}
	if v.Text != "" {
		c.Text = v.Text
	}
}

// verdict asks the agent's guard about a completion. An error fails the run.
func (fx *Effects) verdict(ctx context.Context, a *cairn.Agent, l *session.Live, number int, done cairn.Completion, below ...*step.Writes) (verdict, *cairn.Error) {
	if a.Guard == nil {
		return verdict{}, nil
	}
	u := user.Code{What: "the completion guard", Err: cairn.ErrRejected, Limit: fx.HookTimeout}
	v, err := user.Lent(ctx, fx.Scope(l, number, below...).Freeze("by a guard"), u, func(ctx context.Context, step *cairn.Step) (verdict, error) {
		decision, err := a.Guard(ctx, step, done)
		if err == nil {
			err = decision.Err
		}
		if err == nil {
			err = cmp.Or(cairn.CheckText("the feedback", decision.Feedback), cairn.CheckText("the replacement text", decision.Text))
		}
		if err == nil && decision.Output != nil {
			if problem := limits.JSON(decision.Output); problem != "" {
				err = errors.New("the replacement output " + problem)
			} else if a.Output != nil {
				err = a.Output.Check(decision.Output)
			}
		}
		if err != nil {
			err = cairn.Errorf(cairn.ErrRejected, "the completion was rejected: %w", user.Tamed(err))
		}
		return verdict{decision}, err
	})
	if err != nil {
		return verdict{}, cairn.AsError(err)
	}
	return v, nil
}
