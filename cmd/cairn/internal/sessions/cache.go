package sessions

import (
	"context"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type checkpointCmd struct{ one }

// Run makes a checkpoint.
func (cmd *checkpointCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		cp, err := eng.Checkpoint(ctx, cmd.Session)
		if err != nil {
			return err
		}
		if all.JSON {
			return output.JSON(a.Stdout, cp)
		}
		_, err = fmt.Fprintf(a.Stdout, "Session %s has checkpoint %s, with %s.\n", cmd.Session, cp.ID, output.Count(cp.MessageCount, "message"))
		return err
	})
}

type cacheCmd struct {
	one
	Drop []string `placeholder:"KEY" xor:"drop" help:"Remove these results."`
	All  bool     `xor:"drop" help:"Remove all results."`
}

// droppedResults is the JSON output for removed results.
type droppedResults struct {
	Session string `json:"session"`
	Dropped int    `json:"dropped"`
}

// Run lists cached results, or removes them.
func (cmd *cacheCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		if cmd.All || len(cmd.Drop) > 0 {
			n, err := eng.DropToolCache(ctx, cmd.Session, cmd.Drop...)
			if err != nil {
				return err
			}
			if all.JSON {
				return output.JSON(a.Stdout, droppedResults{cmd.Session, n})
			}
			_, err = fmt.Fprintf(a.Stdout, "Removed %s from the cache of session %s.\n", output.Count(n, "result"), cmd.Session)
			return err
		}
		list, err := eng.ToolCache(ctx, cmd.Session)
		if err != nil {
			return err
		}
		seq := func(yield func(store.CacheEntry, error) bool) {
			slices.Values(list)(func(c store.CacheEntry) bool { return yield(c, nil) })
		}
		return output.List(a.Stdout, all.JSON, seq, []string{"KEY", "TOOL", "USED", "GOOD UNTIL", "RESULT"}, func(c *store.CacheEntry) []string {
			return []string{c.Key, c.Tool, output.Stamp(c.UsedAt), output.Stamp(c.ExpiresAt), output.OneLine(string(c.Output), output.Width)}
		})
	})
}
