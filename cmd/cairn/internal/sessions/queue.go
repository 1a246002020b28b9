package sessions

import (
	"context"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type queueCmd struct{ one }

// Run lists queued turns.
func (cmd *queueCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		turns, err := eng.Queue(ctx, cmd.Session)
		if err != nil {
			return err
		}
		list := func(yield func(store.QueuedTurn, error) bool) {
			for i := range turns {
				if !yield(turns[i], nil) {
					return
				}
			}
		}
		return output.List(a.Stdout, all.JSON, list, []string{"RUN", "QUEUED", "STEERS", "INPUT"}, func(t *store.QueuedTurn) []string {
			steers, text := "", ""
			if t.Steer {
				steers = "*"
			}
			for i := range t.Messages {
				text += t.Messages[i].Text() + " "
			}
			return []string{t.ID, output.Stamp(t.At), steers, output.OneLine(text, output.Width)}
		})
	})
}

type dequeueCmd struct {
	one
	RunID string `arg:"" name:"run" help:"The queued turn's id, as cairn sessions queue shows it."`
}

// Run removes a turn from the queue.
func (cmd *dequeueCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		if err := eng.Dequeue(ctx, cmd.Session, cmd.RunID); err != nil {
			return err
		}
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return all.report(a, s, "Removed turn %s from the queue of session %s.", cmd.RunID, s.ID)
	})
}
