package sessions

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
)

type streamCmd struct{ one }

// Help returns the details for --help.
func (streamCmd) Help() string {
	return `Prints the sequences of the first and the last event on the stream, and whether the stream has ended, so that no run is
under way or about to begin.`
}

// Run prints the extent of the event log.
func (cmd *streamCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Stream(ctx, cmd.Session)
		if err != nil {
			return err
		}
		if all.JSON {
			return output.JSON(a.Stdout, s)
		}
		return output.List(a.Stdout, false, pages.Of(s), []string{"FIRST", "LAST", "ENDED"}, func(s *engine.Stream) []string {
			return []string{fmt.Sprint(s.First), fmt.Sprint(s.Last), fmt.Sprint(s.Ended)}
		})
	})
}

type emitCmd struct {
	one
	Name string `arg:"" help:"The name of the event."`
	Data string `arg:"" optional:"" help:"Its data, as JSON, such as '{\"percent\":40}'. Default: null."`
}

// Help returns the details for --help.
func (emitCmd) Help() string {
	return `The event has type custom and belongs to no run. If the command fails because the store is unavailable, it may have been published.`
}

// Run publishes an event.
func (cmd *emitCmd) Run(a *cli.App, all *flags) error {
	data := json.RawMessage("null")
	if cmd.Data != "" {
		data = json.RawMessage(cmd.Data)
		if err := cairn.CheckJSON("data", data); err != nil {
			return cli.Misuse("%v", err)
		}
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		if err := eng.Emit(ctx, cmd.Session, cmd.Name, data); err != nil {
			return err
		}
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return all.report(a, s, "Published event %s of session %s.", cmd.Name, s.ID)
	})
}
