package server

import (
	"github.com/cairn-agents/cairn"
)

type budgetsIn struct {
	// UserID is the user whose budgets are read. Without it they are the principal's own; operators and administrators
	// then read no user's.
	UserID string `query:"user_id"`
	agentQuery
	// Tag is the tag whose budgets are read.
	Tag string `query:"tag"`
}

// budgets returns the state of the budgets of periods that belong to a user, and for operators and administrators of those
// of an agent, a tag and the own tenant. Budgets of agents and tags count all tenants: a tenant does not see them.
func budgets(c *request, in *budgetsIn) (*pageBody[cairn.BudgetReport], error) {
	agent, err := in.agentQuery.name()
	if err != nil {
		return nil, err
	}
	of := map[cairn.BudgetOwner]string{cairn.BudgetOfUser: in.UserID}
	switch {
	case !c.principal.seesAll():
		if in.UserID != "" && in.UserID != c.principal.User {
			return nil, cairn.Invalid("user_id", "may only be set by administrators and operators")
		}
		if agent != "" || in.Tag != "" {
			return nil, cairn.Invalid("agent", "agent and tag may only be set by administrators and operators")
		}
		of[cairn.BudgetOfUser] = c.principal.User
	case c.tenant() != "":
		of[cairn.BudgetOfTenant] = c.tenant()
	default:
		of[cairn.BudgetOfAgent], of[cairn.BudgetOfTag] = agent, in.Tag
	}
	var items []cairn.BudgetReport
	for _, rule := range c.h.eng.Budgets() {
		owner := of[rule.Scope]
		if owner == "" || rule.Of != "" && rule.Of != owner {
			continue
		}
		reports, err := c.h.eng.BudgetSpent(c.ctx, rule.Name, owner)
		if err != nil {
			return nil, err
		}
		items = append(items, reports...)
	}
	return withoutOffset(pageAt(paging{limit: len(items)}, items, "")), nil
}
