package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

type workCmd struct {
	deskFlags
}

// drain is how long runs may go on when the worker is asked to end.
const drain = 10 * time.Second

// Run drives runs until it is interrupted. Runs that do not end in time stay for the next worker.
func (cmd *workCmd) Run(a *app) (err error) {
	ctx, stop := untilStopped()
	defer stop()
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	d, err := openDesk(ctx, a, cmd.deskFlags, func(o *engine.Options) {
		o.Logger = log
		ended := func(_ context.Context, step *cairn.Step, r *cairn.Result) {
			log.Info("run ended", "session", step.SessionID, "run", r.RunID, "status", r.Status, "steps", r.Steps)
		}
		suspended := func(_ context.Context, step *cairn.Step, r *cairn.Result) {
			log.Info("run waits", "session", step.SessionID, "run", r.RunID, "for", suspendedFor(r.Suspended))
		}
		o.Hooks = append(o.Hooks, &cairn.Hooks{RunComplete: ended, RunFail: ended, RunSuspended: suspended})
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx, drain)) }()
	fmt.Fprintf(a.stderr, "Going on with what is ready in %s: approved, denied, out of time, or left by a dead process. Ctrl-C ends.\n", d.at)
	return d.eng.Work(ctx)
}
