package sessions

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/engine"
)

type compactCmd struct {
	one
	Model string `placeholder:"MODEL" help:"The model for the summary: scripted, or PROVIDER:NAME, with the provider's variables for key and address. A small model is enough. Default: the demo's model."`
	Keep  int    `default:"20" placeholder:"PERCENT" help:"The share of the latest messages, which stay unchanged, in percent of the history's tokens. Default: 20."`
}

// Help returns the details for --help.
func (compactCmd) Help() string {
	return `From the next turn on, the model receives a summary in place of the older messages. They stay in the transcript, and a
branch from before the summary has them. --model makes the summary, whatever the session's agent is; its cost is added to
the session's usage. The session must not be running or waiting for calls.`
}

// Run summarizes the older messages of a session.
func (cmd *compactCmd) Run(a *cli.App, all *flags) error {
	if cmd.Keep < 1 || cmd.Keep > 99 {
		return cli.Misuse("--keep: %d is not between 1 and 99", cmd.Keep)
	}
	model, err := setup.Model(a, cmd.Model, 0)
	if err != nil {
		return err
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		stand := &cairn.Agent{Name: s.Agent, Model: model, Compaction: &cairn.Compaction{Keep: cmd.Keep, Trigger: 100}}
		if err := eng.Replace(stand); err != nil {
			return fmt.Errorf("--model: %w", err)
		}
		if s, err = eng.Compact(ctx, s.ID); err != nil {
			return err
		}
		return all.report(a, s, "Summarised %s of session %s. Its model reads the summary and %s after them.",
			output.Count(s.Summary.From, "message"), s.ID, output.Count(s.Summary.At-s.Summary.From, "message"))
	})
}
