package sessions

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type usageCmd struct{ one }

// Help returns the details for --help.
func (usageCmd) Help() string {
	return `Prints a line for each run, one for the session, including summaries by hand, and one for its tree: the session with all
sub-agents and companions below it. Each call is priced by the model table of its engine at that time; the cost of models
missing from the table is unknown. "sessions events" shows the cost of each step.`
}

// spent is the usage of a run, a session or its tree.
type spent struct {
	Of    string      `json:"of"` // run, session or tree
	ID    string      `json:"id"`
	Usage cairn.Usage `json:"usage"`
	Cost  string      `json:"cost"`
}

// Run prints the usage of a session.
func (cmd *usageCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		tree, err := eng.TreeUsage(ctx, s.ID)
		if err != nil {
			return err
		}
		runs := pages.All(func(cursor string) (store.Page[cairn.Run], error) {
			return eng.Runs(ctx, s.ID, store.PageQuery{Cursor: cursor})
		})
		list := func(yield func(spent, error) bool) {
			for r, err := range runs {
				if !yield(spent{"run", r.ID, r.Usage, r.Usage.Cost()}, err) || err != nil {
					return
				}
			}
			_ = yield(spent{"session", s.ID, s.Usage, s.Usage.Cost()}, nil) && yield(spent{"tree", s.ID, tree, tree.Cost()}, nil)
		}
		return output.List(a.Stdout, all.JSON, list, []string{"OF", "ID", "MODEL CALLS", "INPUT", "CACHED", "OUTPUT", "TOOL CALLS", "COST"},
			func(u *spent) []string {
				return []string{u.Of, u.ID, fmt.Sprint(u.Usage.ModelCalls), fmt.Sprint(u.Usage.InputTokens), fmt.Sprint(u.Usage.CachedTokens),
					fmt.Sprint(u.Usage.OutputTokens), fmt.Sprint(u.Usage.ToolCalls), u.Cost}
			})
	})
}
