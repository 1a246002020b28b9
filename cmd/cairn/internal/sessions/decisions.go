package sessions

import (
	"cmp"
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type decisionsCmd struct{ one }

// Help returns the details for --help.
func (decisionsCmd) Help() string {
	return `Lists the decisions about the calls of the session, for a root of its whole tree, with votes, claims and timeouts.`
}

// Run lists decisions.
func (cmd *decisionsCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		decisions := pages.All(func(cursor string) (store.Page[cairn.CallDecision], error) {
			return eng.Decisions(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
		})
		return output.List(a.Stdout, all.JSON, decisions, []string{"AT", "TOOL", "CALL", "DECISION", "REVIEWER", "NOTES"},
			func(d *cairn.CallDecision) []string {
				notes := cmp.Or(d.Notes, string(d.Value))
				return []string{output.Stamp(d.At), d.Tool, d.CallID, string(d.Kind), d.Reviewer, output.OneLine(notes, output.Width)}
			})
	})
}
