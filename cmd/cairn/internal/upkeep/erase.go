package upkeep

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
)

type eraseCmd struct {
	At      stores.Flags `embed:""`
	Session string       `arg:"" help:"The session's id."`
	JSON    bool         `name:"json" help:"Print the session that was erased, as JSON."`
	Yes     bool         `short:"y" help:"Do not ask."`
}

// Run erases.
func (cmd *eraseCmd) Run(a *cli.App) error {
	return cmd.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		if !cmd.Yes {
			if err := cli.ConfirmSession(ctx, a, "erase", "erased", s, " Nothing of it is kept."); err != nil {
				return err
			}
		}
		if err := eng.Erase(ctx, cmd.Session); err != nil {
			return err
		}
		if cmd.JSON {
			return output.JSON(a.Stdout, s)
		}
		_, err = fmt.Fprintf(a.Stdout, "Erased session %s.\n", s.ID)
		return err
	})
}
