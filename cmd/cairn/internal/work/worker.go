package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
)

type workCmd struct {
	Setup setup.Flags       `embed:""`
	Kept  stores.EventFlags `embed:""`
	JSON  bool              `name:"json" help:"Log in JSON."`
}

// drain is how long runs may take to finish their step when the worker is stopped.
const drain = 10 * time.Second

// Run drives runs until it is interrupted. It leaves unfinished runs to the next worker, after the step that they
// finish within drain.
func (cmd *workCmd) Run(a *cli.App) (err error) {
	ctx, stop := cli.UntilStopped()
	defer stop()
	log := cmd.logger(a, slog.LevelInfo)
	var level slog.LevelVar
	level.Set(slog.LevelError + 1) // until Open returns, whose error says why a host is not available
	own := *a
	own.Engine.EventRetention = cmd.Kept.Retention()
	d, err := setup.Open(ctx, &own, cmd.Setup, setup.Options{
		Serve: true, Drain: drain, Logger: log, Warnings: cmd.logger(a, &level), Hooks: []*cairn.Hooks{outcomes(log)},
	})
	if err != nil {
		return err
	}
	level.Set(slog.LevelWarn)
	defer func() { err = errors.Join(err, d.Close(ctx, drain)) }()
	switch {
	case cmd.JSON:
		log.Info("worker started", "store", d.At.String(), "host", d.Host.String())
	case d.Host != nil:
		fmt.Fprintf(a.Stderr, "Serving %s.\n", d.Host)
		fallthrough
	default:
		fmt.Fprintf(a.Stderr, "Working on due sessions in %s: approved, denied, timed out, or left by a dead process. Ctrl-C ends.\n", d.At)
	}
	return d.Eng.Work(ctx)
}

// logger returns a logger for level and above.
func (cmd *workCmd) logger(a *cli.App, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if cmd.JSON {
		return slog.New(slog.NewJSONHandler(a.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, opts))
}

// outcomes returns hooks that log the outcome of runs.
func outcomes(log *slog.Logger) *cairn.Hooks {
	ended := func(_ context.Context, step *cairn.Step, r *cairn.Result) {
		log.Info("run ended", "session", step.SessionID, "run", r.RunID, "status", r.Status, "steps", r.Steps)
	}
	suspended := func(_ context.Context, step *cairn.Step, r *cairn.Result) {
		log.Info("run suspended", "session", step.SessionID, "run", r.RunID, "for", calls.SuspendedFor(r.Suspended))
	}
	return &cairn.Hooks{RunComplete: ended, RunFail: ended, RunSuspended: suspended}
}
