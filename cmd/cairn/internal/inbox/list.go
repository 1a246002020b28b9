package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type inboxListCmd struct {
	User     string `help:"Only calls of this user's sessions."`
	Agent    string `help:"Only calls of this agent."`
	Tool     string `help:"Only calls of this tool."`
	Reviewer string `help:"Only calls that this reviewer may answer."`
	Kind     string `placeholder:"KIND" help:"Only calls of this kind: approval, client_tool, question, connect, effect or budget."`
	All      bool   `help:"Also calls that are no longer pending."`
	Limit    int    `default:"50" help:"The maximum number, 1 to 1000. Default: 50."`
	Cursor   string `help:"Continue an earlier list from its cursor."`
}

// Run lists calls.
func (cmd *inboxListCmd) Run(a *cli.App, all *flags) error {
	q := store.CallQuery{Tenant: all.At.Selected(), UserID: cmd.User, Agent: cmd.Agent, Tool: cmd.Tool, Reviewer: cmd.Reviewer, Kind: cairn.CallKind(cmd.Kind),
		Cursor: cmd.Cursor, Limit: cmd.Limit}
	switch {
	case cmd.Limit < 1 || cmd.Limit > 1000:
		return cli.Misuse("--limit: %d is not between 1 and 1000", cmd.Limit)
	case cmd.Kind != "" && q.Kind != cairn.CallApproval && q.Kind != cairn.CallClientTool && !q.Kind.Asked():
		return cli.Misuse("--kind: unknown kind %q: must be one of %s, %s, %s, %s, %s, %s", cmd.Kind, cairn.CallApproval, cairn.CallClientTool,
			cairn.CallQuestion, cairn.CallConnect, cairn.CallEffect, cairn.CallBudget)
	}
	var err error
	if q.UserID, err = all.At.ID("--user", q.UserID); err != nil {
		return err
	}
	if q.Reviewer, err = all.At.ID("--reviewer", q.Reviewer); err != nil {
		return err
	}
	if cmd.All {
		q.Statuses = calls.EveryStatus
	}
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		page, err := eng.Inbox(ctx, q)
		if err != nil {
			return err
		}
		if all.JSON {
			page.Items = append([]cairn.PendingCall{}, page.Items...) // an empty list encodes as []
			return output.JSON(a.Stdout, page)
		}
		header := []string{"CALL", "SESSION", "TOOL", "INPUT", "WAITING SINCE", "DEADLINE", "ASSIGNED", "CLAIMED"}
		if cmd.All {
			header = append(header, "STATUS")
		}
		now := a.Now()
		err = output.List(a.Stdout, false, pages.Of(page.Items...), header, func(c *cairn.PendingCall) []string { return callRow(c, now)[:len(header)] })
		if err == nil && page.Next != "" {
			_, err = fmt.Fprintf(a.Stderr, "There are more: --cursor %s\n", cli.Quoted(page.Next))
		}
		return err
	})
}

// shortInput is the number of characters of a call's arguments in a table.
const shortInput = 40

func callRow(c *cairn.PendingCall, now time.Time) []string {
	return []string{c.ID, c.RootID, c.Tool, output.OneLine(string(c.Input), shortInput), output.Age(now, c.CreatedAt), calls.Deadline(c, now), calls.Assigned(c),
		claimed(c, now), callStatus(c)}
}

// claimed returns who has claimed a call and until when; empty if the call is not claimed.
func claimed(c *cairn.PendingCall, now time.Time) string {
	if !c.Claimed(now) {
		return ""
	}
	return c.ClaimedBy + " until " + output.Stamp(c.ClaimedUntil)
}

// callStatus returns the status of a call and its decision, if there is one.
func callStatus(c *cairn.PendingCall) string {
	if c.Answer == nil {
		return string(c.Status)
	}
	return string(c.Status) + ", " + string(c.Answer.Kind)
}
