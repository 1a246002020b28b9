package sessions

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
)

type branchCmd struct {
	From       string `arg:"" help:"The session to branch from, by its id or the beginning of it."`
	To         string `arg:"" help:"The id of the new session."`
	Checkpoint string `placeholder:"ID" xor:"at" help:"Branch from this checkpoint."`
	Message    *int   `placeholder:"N" xor:"at" help:"Branch after the first N messages."`
}

// Run branches a session.
func (cmd *branchCmd) Run(a *cli.App, all *flags) error {
	var at []engine.BranchOption
	switch {
	case cmd.Message != nil && *cmd.Message < 0:
		return cli.Misuse("--message: %d is negative", *cmd.Message)
	case cmd.Message != nil:
		at = append(at, engine.AtMessage(*cmd.Message))
	case cmd.Checkpoint != "":
		at = append(at, engine.AtCheckpoint(cmd.Checkpoint))
	}
	return all.inspect(a, &cmd.From, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Branch(ctx, cmd.From, cmd.To, at...)
		if err != nil {
			return err
		}
		return all.report(a, s, "Session %s begins with %s of %s.", s.ID, output.Count(s.MessageCount, "message"), cmd.From)
	})
}

type rewindCmd struct {
	one
	Checkpoint string `arg:"" help:"One of the session's checkpoints."`
}

// Run rewinds a session.
func (cmd *rewindCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Rewind(ctx, cmd.Session, cmd.Checkpoint)
		if err != nil {
			return err
		}
		return all.report(a, s, "Session %s is back at checkpoint %s, with %s.", s.ID, cmd.Checkpoint, output.Count(s.MessageCount, "message"))
	})
}

type clearTaintCmd struct {
	one
	Notes string `arg:"" help:"The finding. The model reads it."`
}

// Run ends the taint of a session.
func (cmd *clearTaintCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		if err := eng.ClearTaint(ctx, cmd.Session, cmd.Notes); err != nil {
			return err
		}
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return all.report(a, s, "Session %s is no longer tainted.", s.ID)
	})
}

type deleteCmd struct {
	one
	Yes bool `short:"y" help:"Do not ask for confirmation. Requires the full id."`
}

// Run deletes a session. If it is busy, it is stopped first.
func (cmd *deleteCmd) Run(a *cli.App, all *flags) error {
	inspect := all.At.Inspect // without a question the id must be whole
	if !cmd.Yes {
		inspect = func(a *cli.App, do func(context.Context, *engine.Engine) error) error {
			return all.inspect(a, &cmd.Session, do)
		}
	}
	return inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		id, err := all.At.ID("session", cmd.Session)
		if err != nil {
			return err
		}
		s, err := eng.Session(ctx, id)
		if err != nil {
			return err
		}
		if !cmd.Yes {
			if err := cli.ConfirmSession(ctx, a, "delete", "deleted", s, ""); err != nil {
				return err
			}
		}
		if err := eng.Delete(ctx, s.ID); err != nil {
			return err
		}
		return all.report(a, s, "Deleted session %s.", s.ID)
	})
}

type restoreCmd struct{ one }

// Run restores a session.
func (cmd *restoreCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Restore(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return all.report(a, s, "Restored session %s.", s.ID)
	})
}

type trimCmd struct {
	one
	Kept stores.EventFlags `embed:""`
}

// Run trims events.
func (cmd *trimCmd) Run(a *cli.App, all *flags) error {
	if cmd.Kept == (stores.EventFlags{}) {
		return cli.Misuse("trim: --event-age or --events is required")
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		n, err := eng.TrimEvents(ctx, cmd.Session, cmd.Kept.Retention())
		if err != nil {
			return err
		}
		if all.JSON {
			return output.JSON(a.Stdout, trimmedEvents{cmd.Session, n})
		}
		_, err = fmt.Fprintf(a.Stdout, "Trimmed %s of session %s.\n", output.Count(int(n), "event"), cmd.Session)
		return err
	})
}

// trimmedEvents is the JSON output of trim.
type trimmedEvents struct {
	Session string `json:"session"`
	Events  int64  `json:"events_trimmed"`
}

type stopCmd struct {
	one
	Abort  bool   `help:"End the run as failed instead of interrupted."`
	Reason string `default:"cairn sessions stop" help:"The reason, stored with the run. Default: cairn sessions stop."`
}

// Run stops a run and waits until it has ended.
func (cmd *stopCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		stop := eng.Interrupt
		if cmd.Abort {
			stop = eng.Abort
		}
		if err := stop(ctx, cmd.Session, cmd.Reason); err != nil {
			return err
		}
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return all.report(a, s, "Session %s is %s.", s.ID, s.Status)
	})
}
