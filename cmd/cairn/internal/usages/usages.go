// Package usages holds the command usage: usage across sessions.
package usages

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
)

// Command is the command usage.
type Command struct {
	At     stores.Tenanted `embed:""`
	JSON   bool            `name:"json" help:"Print JSON: a page of groups."`
	By     []string        `placeholder:"DIMENSION" help:"Group by day, tenant, user, agent, model, tool or tag; several are separated by commas."`
	From   string          `placeholder:"DAY" help:"The first day in UTC, as in 2026-11-27."`
	To     string          `placeholder:"DAY" help:"The last day in UTC."`
	User   string          `help:"Only usage of this user's sessions."`
	Agent  string          `help:"Only usage of this agent."`
	Model  string          `help:"Only usage of this model, as in openai:gpt-5."`
	Tool   string          `help:"Only usage of this tool."`
	Tag    string          `help:"Only usage of sessions with this tag."`
	Limit  int             `default:"50" help:"The maximum number of groups, 1 to 1000. Default: 50."`
	Cursor string          `help:"Continue an earlier list from its cursor."`
}

// Help returns the details for --help.
func (Command) Help() string {
	return `Prints the usage of all sessions, those of sub-agents and removed sessions included, a line for each group. Calls that
failed or were retried count too: CALLS shows them after a plus sign. "sessions usage" shows the usage of one session.`
}

// Run prints usage across sessions.
func (cmd *Command) Run(a *cli.App) error {
	if cmd.Limit < 1 || cmd.Limit > 1000 {
		return cli.Misuse("--limit: %d is not between 1 and 1000", cmd.Limit)
	}
	user, err := cmd.At.ID("--user", cmd.User)
	if err != nil {
		return err
	}
	q := engine.UsageQuery{From: cmd.From, To: cmd.To, Tenant: cmd.At.Selected(), UserID: user, Agent: cmd.Agent, Model: cmd.Model,
		Tool: cmd.Tool, Tag: cmd.Tag, Cursor: cmd.Cursor, Limit: cmd.Limit}
	for _, by := range cmd.By {
		q.By = append(q.By, engine.UsageDimension(by))
	}
	return cmd.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		page, err := eng.Usage(ctx, q)
		if err != nil {
			return err
		}
		if cmd.JSON {
			page.Items = append([]engine.UsageGroup{}, page.Items...) // an empty list encodes as []
			return output.JSON(a.Stdout, page)
		}
		header := []string{}
		for _, by := range q.By {
			header = append(header, strings.ToUpper(string(by)))
		}
		header = append(header, "CALLS", "INPUT", "CACHED", "OUTPUT", "TOOL CALLS", "ERRORS", "TIME", "COST")
		err = output.List(a.Stdout, false, pages.Of(page.Items...), header, func(g *engine.UsageGroup) []string { return cells(g, q.By) })
		if err == nil && page.Next != "" {
			_, err = fmt.Fprintf(a.Stderr, "There are more: --cursor %s\n", cli.Quoted(page.Next))
		}
		return err
	})
}

// cells returns the cells of a group.
func cells(g *engine.UsageGroup, by []engine.UsageDimension) (list []string) {
	for _, d := range by {
		value := map[engine.UsageDimension]string{engine.UsageByDay: g.Day, engine.UsageByTenant: g.Tenant, engine.UsageByUser: g.UserID,
			engine.UsageByAgent: g.Agent, engine.UsageByModel: g.Model, engine.UsageByTool: g.Tool, engine.UsageByTag: g.Tag}[d]
		if value == "" {
			value = "-"
		}
		list = append(list, value)
	}
	u := &g.Usage
	calls := fmt.Sprint(u.ModelCalls)
	if u.DiscardedCalls > 0 {
		calls += fmt.Sprintf("+%d", u.DiscardedCalls)
	}
	return append(list, calls, fmt.Sprint(u.InputTokens), fmt.Sprint(u.CachedTokens), fmt.Sprint(u.OutputTokens), fmt.Sprint(u.ToolCalls),
		fmt.Sprint(u.ToolErrors), fmt.Sprintf("%.1f s", time.Duration(g.Duration).Seconds()), g.Cost)
}
