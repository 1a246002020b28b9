package sessions

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type runsCmd struct{ one }

// Run lists runs.
func (cmd *runsCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		runs := pages.All(func(cursor string) (store.Page[cairn.Run], error) {
			return eng.Runs(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
		})
		return output.List(a.Stdout, all.JSON, runs,
			[]string{"TURN", "RUN", "KIND", "STATUS", "REASON", "STEPS", "TOKENS", "COST", "STARTED", "TOOK", "SUSPENDED FOR", "ERROR"},
			func(r *cairn.Run) []string {
				took, failure := "", ""
				if !r.EndedAt.IsZero() {
					took = fmt.Sprintf("%.1fs", r.EndedAt.Sub(r.StartedAt).Seconds())
				}
				if r.Error != nil {
					failure = string(r.Error.Code) + ": " + output.OneLine(r.Error.Message, output.Width)
				}
				return []string{fmt.Sprint(r.Turn), r.ID, string(r.Kind), string(r.Status), string(r.Reason), fmt.Sprint(r.Steps),
					output.Tokens(r.Usage), r.Usage.Cost(), output.Stamp(r.StartedAt), took, calls.SuspendedFor(r.Suspended), failure}
			})
	})
}

type checkpointsCmd struct{ one }

// Run lists checkpoints.
func (cmd *checkpointsCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		checkpoints := pages.All(func(cursor string) (store.Page[cairn.Checkpoint], error) {
			return eng.Checkpoints(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
		})
		return output.List(a.Stdout, all.JSON, checkpoints,
			[]string{"NUMBER", "CHECKPOINT", "TURN", "STEP", "MESSAGES", "WRITTEN", "CURRENT"},
			func(c *cairn.Checkpoint) []string {
				current := ""
				if c.ID == s.CheckpointID {
					current = "*"
				}
				return []string{fmt.Sprint(c.Number), c.ID, fmt.Sprint(c.Turn), fmt.Sprint(c.Step), fmt.Sprint(c.MessageCount),
					output.Stamp(c.CreatedAt), current}
			})
	})
}

type stateCmd struct {
	one
	Checkpoint string `placeholder:"ID" help:"As of this checkpoint."`
}

// Run prints the state.
func (cmd *stateCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		state, err := eng.State(ctx, cmd.Session, cmd.Checkpoint)
		if err != nil {
			return err
		}
		return output.JSON(a.Stdout, state)
	})
}
