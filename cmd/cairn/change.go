package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// report prints a session after a change: as JSON, or in words.
func (all *sessionsCmd) report(a *app, s *cairn.Session, format string, args ...any) error {
	if all.JSON {
		return printJSON(a.stdout, s)
	}
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

type branchCmd struct {
	From       string `arg:"" help:"The session to branch from."`
	To         string `arg:"" help:"The id of the new session."`
	Checkpoint string `placeholder:"ID" xor:"at" help:"Branch from this checkpoint."`
	Message    *int   `placeholder:"N" xor:"at" help:"Branch after the first N messages."`
}

// Run branches.
func (cmd *branchCmd) Run(a *app, all *sessionsCmd) error {
	var at []engine.BranchOption
	switch {
	case cmd.Message != nil && *cmd.Message < 0:
		return misuse("--message: %d is negative", *cmd.Message)
	case cmd.Message != nil:
		at = append(at, engine.AtMessage(*cmd.Message))
	case cmd.Checkpoint != "":
		at = append(at, engine.AtCheckpoint(cmd.Checkpoint))
	}
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Branch(ctx, cmd.From, cmd.To, at...)
		if err != nil {
			return err
		}
		return all.report(a, s, "Session %s begins with %s of %s.", s.ID, count(s.MessageCount, "message"), cmd.From)
	})
}

type rewindCmd struct {
	one
	Checkpoint string `arg:"" help:"One of the session's checkpoints."`
}

// Run rewinds.
func (cmd *rewindCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Rewind(ctx, cmd.Session, cmd.Checkpoint)
		if err != nil {
			return err
		}
		return all.report(a, s, "Session %s is back at checkpoint %s, with %s.", s.ID, cmd.Checkpoint, count(s.MessageCount, "message"))
	})
}

type deleteCmd struct {
	one
	Yes bool `short:"y" help:"Do not ask."`
}

// Run deletes.
func (cmd *deleteCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		if !cmd.Yes {
			if !isTerminal(a.stdin) {
				return misuse("delete: nobody can be asked here; --yes deletes without asking")
			}
			fmt.Fprintf(a.stderr, "Delete session %s with its %s? [y/N] ", s.ID, count(s.MessageCount, "message"))
			select {
			case answer := <-readLines(a.stdin).next:
				if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
					return cairn.Errorf(cairn.CodeNotExecuted, "session %q was not deleted", s.ID)
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := eng.Delete(ctx, cmd.Session); err != nil {
			return err
		}
		return all.report(a, s, "Deleted session %s.", s.ID)
	})
}

type restoreCmd struct{ one }

// Run restores.
func (cmd *restoreCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Restore(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return all.report(a, s, "Restored session %s.", s.ID)
	})
}

type trimCmd struct {
	one
	eventFlags
}

// Run trims.
func (cmd *trimCmd) Run(a *app, all *sessionsCmd) error {
	if cmd.eventFlags == (eventFlags{}) {
		return misuse("trim: say what is kept, with --event-age, --events or both")
	}
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		n, err := eng.TrimEvents(ctx, cmd.Session, cmd.retention())
		if err != nil {
			return err
		}
		if all.JSON {
			return printJSON(a.stdout, trimmedEvents{cmd.Session, n})
		}
		_, err = fmt.Fprintf(a.stdout, "Trimmed %s of session %s.\n", count(int(n), "event"), cmd.Session)
		return err
	})
}

// trimmedEvents is what trim prints as JSON.
type trimmedEvents struct {
	Session string `json:"session"`
	Events  int64  `json:"events_trimmed"`
}

type stopCmd struct {
	one
	Abort  bool   `help:"End the run as failed instead of interrupted."`
	Reason string `default:"cairn sessions stop" help:"Why, for the record. Default: cairn sessions stop."`
}

// Run stops a run and waits until it has ended.
func (cmd *stopCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
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
