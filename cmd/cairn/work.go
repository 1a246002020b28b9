package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
)

type workCmd struct {
	deskFlags
	eventFlags
	JSON bool `name:"json" help:"Log lines of JSON."`
}

// drain is how long runs may go on when the worker is asked to end.
const drain = 10 * time.Second

// Run drives runs until it is interrupted. Runs that do not end in time stay for the next worker.
func (cmd *workCmd) Run(a *app) (err error) {
	ctx, stop := untilStopped()
	defer stop()
	log := cmd.logger(a, slog.LevelInfo)
	var level slog.LevelVar
	level.Set(slog.LevelError + 1) // the error says why a host cannot be had
	own := *a
	own.engine.EventRetention = cmd.retention()
	d, err := openDesk(ctx, &own, cmd.deskFlags, deskOptions{
		serve: true, drain: drain, logger: log, warnings: cmd.logger(a, &level), hooks: []*cairn.Hooks{tell(log)},
	})
	if err != nil {
		return err
	}
	level.Set(slog.LevelWarn)
	defer func() { err = errors.Join(err, d.close(ctx, drain)) }()
	switch {
	case cmd.JSON:
		log.Info("worker begins", "store", d.at.String(), "host", d.host.String())
	case d.host != nil:
		fmt.Fprintf(a.stderr, "Serving %s.\n", d.host)
		fallthrough
	default:
		fmt.Fprintf(a.stderr, "Going on with what is ready in %s: approved, denied, out of time, or left by a dead process. Ctrl-C ends.\n", d.at)
	}
	return d.eng.Work(ctx)
}

// logger returns a logger of what is as grave as level or graver.
func (cmd *workCmd) logger(a *app, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if cmd.JSON {
		return slog.New(slog.NewJSONHandler(a.stderr, opts))
	}
	return slog.New(slog.NewTextHandler(a.stderr, opts))
}

// tell returns hooks that log how runs come out.
func tell(log *slog.Logger) *cairn.Hooks {
	ended := func(_ context.Context, step *cairn.Step, r *cairn.Result) {
		log.Info("run ended", "session", step.SessionID, "run", r.RunID, "status", r.Status, "steps", r.Steps)
	}
	suspended := func(_ context.Context, step *cairn.Step, r *cairn.Result) {
		log.Info("run waits", "session", step.SessionID, "run", r.RunID, "for", suspendedFor(r.Suspended))
	}
	return &cairn.Hooks{RunComplete: ended, RunFail: ended, RunSuspended: suspended}
}
