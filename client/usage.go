package client

import (
	"context"

	"github.com/cairn-agents/cairn"
)

// UsageQuery selects and groups usage across sessions. The zero value is the sum of all that the client may see.
type UsageQuery struct {
	// By are the dimensions of the groups: "day", "user", "agent", "model", "tool" and "tag"; nil means one group. A
	// session with several tags counts once for each.
	By []string
	// From and To are the first and the last day, in UTC, as in 2026-11-27; empty for no bound.
	From, To string
	// UserID, Agent, Model, Tool and Tag select usage; empty means all. Only administrators and operators may name
	// another user.
	UserID, Agent, Model, Tool, Tag string
	Limit                           int // page size, at most 100; 0 means 20
	Cursor                          string
}

// UsageGroup is the usage that has the same values of a query's dimensions.
type UsageGroup struct {
	// Day, UserID, Agent, Model, Tool and Tag are the group's values of the query's dimensions. One that is empty
	// although the query has the dimension means usage without it.
	Day    string `json:"day,omitempty"`
	UserID string `json:"user_id,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Model  string `json:"model,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Tag    string `json:"tag,omitempty"`
	// Duration is how long the model calls and the tools of the group took together.
	Duration cairn.Duration `json:"duration"`
	// Usage is the sum of the group's usage, with discarded model calls.
	Usage cairn.Usage `json:"usage"`
	// Cost is the cost of the model calls, see [cairn.Usage.Cost].
	Cost string `json:"cost"`
}

// BudgetQuery selects the owners of budgets of periods.
type BudgetQuery struct {
	// UserID is a user, empty for the client's own. Only administrators and operators may name another user, an Agent or a
	// Tag.
	UserID, Agent, Tag string
}

// Budgets returns how much of the budgets of periods is used in the current period, with one report for each limit.
func (c *Client) Budgets(ctx context.Context, q BudgetQuery) (*cairn.Page[cairn.BudgetReport], error) {
	query := page(0, "")
	set(query, "user_id", q.UserID)
	set(query, "agent", q.Agent)
	set(query, "tag", q.Tag)
	return out[cairn.Page[cairn.BudgetReport]](c, ctx, "GET", "/budgets", query, nil)
}

// Usage lists groups of usage, in the order of their values, day first.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (*cairn.Page[UsageGroup], error) {
	query := page(q.Limit, q.Cursor)
	for _, by := range q.By {
		query.Add("by", by)
	}
	set(query, "from", q.From)
	set(query, "to", q.To)
	set(query, "user_id", q.UserID)
	set(query, "agent", q.Agent)
	set(query, "model", q.Model)
	set(query, "tool", q.Tool)
	set(query, "tag", q.Tag)
	return out[cairn.Page[UsageGroup]](c, ctx, "GET", "/usage", query, nil)
}
