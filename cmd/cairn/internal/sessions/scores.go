package sessions

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
)

type scoreCmd struct {
	one
	Value   float64 `arg:"" help:"The judgement, a number."`
	Name    string  `help:"What is judged, such as helpful. Default: score."`
	Message string  `placeholder:"MESSAGE" help:"Judge this message, by its id, instead of the whole session."`
	OfRun   string  `name:"run" placeholder:"RUN" help:"Judge this run, by its id, instead of the whole session."`
	Comment string  `help:"Why."`
	By      string  `required:"" help:"Who judges."`
}

// Help returns the details for --help.
func (scoreCmd) Help() string {
	return `A later score by the same judge, of the same thing and name, replaces the earlier one.`
}

// Run keeps a score.
func (cmd *scoreCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Score(ctx, cairn.Score{SessionID: cmd.Session, MessageID: cmd.Message, RunID: cmd.OfRun, Name: cmd.Name, Value: cmd.Value,
			Comment: cmd.Comment, By: cmd.By})
		if err != nil {
			return err
		}
		if all.JSON {
			return output.JSON(a.Stdout, s)
		}
		_, err = fmt.Fprintf(a.Stdout, "Scored session %s: %s %g.\n", s.SessionID, s.Name, s.Value)
		return err
	})
}

type scoresCmd struct{ one }

// Run lists scores.
func (cmd *scoresCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		list, err := eng.Scores(ctx, cmd.Session)
		if err != nil {
			return err
		}
		return output.List(a.Stdout, all.JSON, pages.Of(list...), []string{"AT", "OF", "NAME", "VALUE", "BY", "COMMENT"}, func(s *cairn.Score) []string {
			return []string{output.Stamp(s.At), cmp.Or(s.MessageID, s.RunID, "session"), s.Name, fmt.Sprint(s.Value), s.By, output.OneLine(s.Comment, output.Width)}
		})
	})
}
