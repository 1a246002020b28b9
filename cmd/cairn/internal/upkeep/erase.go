package upkeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/named"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
)

type eraseCmd struct {
	At      stores.Tenanted `embed:""`
	Session string          `arg:"" optional:"" help:"The session's id, or its beginning without --yes."`
	User    string          `help:"Erase all sessions of this user instead, also removed ones; runs are aborted."`
	JSON    bool            `name:"json" help:"Print the erased session as JSON; with --user the number of erased sessions."`
	Yes     bool            `short:"y" help:"Do not ask for confirmation."`
}

// Run erases a session, or all sessions of a user.
func (cmd *eraseCmd) Run(a *cli.App) error {
	if (cmd.Session == "") == (cmd.User == "") {
		return cli.Misuse("erase: set either a session or --user")
	}
	var err error
	if cmd.User, err = cmd.At.ID("--user", cmd.User); err != nil {
		return err
	}
	if cmd.Session, err = cmd.At.ID("session", cmd.Session); err != nil {
		return err
	}
	if cmd.User != "" {
		return cmd.eraseUser(a)
	}
	return cmd.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		if !cmd.Yes { // without a question the id must be whole
			id, err := named.Session(ctx, eng, cmd.Session)
			if err != nil {
				return err
			}
			cmd.Session = id
		}
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		if !cmd.Yes {
			if err := cli.ConfirmSession(ctx, a, "erase", "erased", s, " This cannot be undone."); err != nil {
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

// eraseUser erases all sessions of a user.
func (cmd *eraseCmd) eraseUser(a *cli.App) error {
	return cmd.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		if !cmd.Yes {
			yes, err := cli.Confirm(ctx, a, "erase", fmt.Sprintf("Erase all sessions of user %s? This cannot be undone.", cmd.User))
			if err != nil {
				return err
			}
			if !yes {
				return cairn.Errorf(cairn.ErrNotExecuted, "user %q was not erased", cmd.User)
			}
		}
		line := a.Progress()
		r, unfinished := eng.EraseUser(ctx, cmd.User, func(r engine.EraseReport) {
			line.Show("%s erased, %d failed", output.Count(r.Erased, "session"), r.Failed)
		})
		line.End()
		if unfinished != nil && ctx.Err() == nil {
			return unfinished
		}
		var err error
		if cmd.JSON {
			err = output.JSON(a.Stdout, r)
		} else {
			_, err = fmt.Fprintf(a.Stdout, "Erased %s of user %s.\n", output.Count(r.Erased, "session"), cmd.User)
		}
		if unfinished != nil {
			return errors.Join(err, cli.Unfinished(ctx, unfinished))
		}
		if err == nil && r.Remains != "" {
			_, err = fmt.Fprintf(a.Stderr, "Not overwritten yet: %s\n", r.Remains)
		}
		if err == nil && r.Failed > 0 {
			err = cairn.Errorf(cairn.ErrUnavailable, "%s of user %q could not be erased; repeat the command: %w",
				output.Count(r.Failed, "session"), cmd.User, r.Errors[0].Error)
		}
		return err
	})
}
