package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
)

type sweepCmd struct {
	At        stores.Flags      `embed:""`
	Kept      stores.EventFlags `embed:""`
	JSON      bool              `name:"json" help:"Print JSON."`
	Retention time.Duration     `default:"720h" help:"How long deleted and expired sessions are kept; 0s keeps none. Default: 720h."`
}

// Run sweeps once.
func (cmd *sweepCmd) Run(a *cli.App) error {
	if cmd.Retention < 0 {
		return cli.Misuse("--retention: %s is negative", cmd.Retention)
	}
	own := *a
	own.Engine.Retention = max(cmd.Retention, 1) // 0 would mean the default
	own.Engine.EventRetention = cmd.Kept.Retention()
	return cmd.At.Inspect(&own, func(ctx context.Context, eng *engine.Engine) error {
		line := a.Progress()
		r, err := eng.Sweep(ctx, func(r engine.SweepReport) {
			line.Show("%d expired, %d purged, %d trimmed, %d failed", r.Expired, r.Purged, r.Trimmed, r.Failed)
		})
		line.End()
		if printed := cmd.print(a, r); printed != nil {
			return printed
		}
		err = cli.Unfinished(ctx, err)
		if err == nil && r.Failed > 0 {
			err = cairn.Errorf(cairn.ErrUnavailable, "%s could not be removed, purged or trimmed", output.Count(r.Failed, "session"))
		}
		return err
	})
}

func (cmd *sweepCmd) print(a *cli.App, r engine.SweepReport) error {
	if cmd.JSON {
		return output.JSON(a.Stdout, r)
	}
	err := output.List(a.Stdout, false, pages.Of(r), []string{"DETECTED", "EXPIRED", "PURGED", "SNAPSHOTS DELETED", "EVENTS TRIMMED", "FAILED"},
		func(r *engine.SweepReport) []string {
			return []string{fmt.Sprint(r.Detected), fmt.Sprint(r.Expired), fmt.Sprint(r.Purged), fmt.Sprint(r.SnapshotsDeleted),
				fmt.Sprint(r.EventsTrimmed), fmt.Sprint(r.Failed)}
		})
	if err != nil || len(r.Errors) == 0 {
		return err
	}
	fmt.Fprintln(a.Stdout)
	return output.List(a.Stdout, false, pages.Of(r.Errors...), []string{"SESSION", "ERROR"}, func(e *engine.SweepError) []string {
		return []string{e.SessionID, string(e.Error.Code) + ": " + output.OneLine(e.Error.Message, output.Width)}
	})
}
