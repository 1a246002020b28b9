package server

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
)

type usageIn struct {
	// By are the dimensions of the groups: day, user, agent, model, tool or tag. Without it there is one group.
	By []string `query:"by"`
	// From and To are the first and the last day, in UTC, as in 2026-11-27.
	From string `query:"from"`
	To   string `query:"to"`

	UserID string `query:"user_id"`
	agentQuery
	Tool string `query:"tool"`
	// Model counts only the usage of this model, as its ID.
	Model string `query:"model"`
	// Tag counts only the usage of sessions that had this tag at that time.
	Tag    string `query:"tag"`
	Limit  int    `query:"limit"`
	Cursor string `query:"cursor"`
}

// usage lists groups of usage across sessions: of the principal's own sessions, or of all for operators and
// administrators.
func usage(c *request, in *usageIn) (*pageBody[client.UsageGroup], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	q := engine.UsageQuery{From: in.From, To: in.To, Tenant: c.selected(), UserID: in.UserID, Model: in.Model, Tool: in.Tool, Tag: in.Tag, Cursor: in.Cursor, Limit: p.limit}
	var err error
	if q.Agent, err = in.agentQuery.name(); err != nil {
		return nil, err
	}
	for _, word := range split(in.By) {
		if word == string(engine.UsageByTenant) {
			return nil, cairn.Invalid("by", "unknown dimension %q", word)
		}
		q.By = append(q.By, engine.UsageDimension(word))
	}
	if !c.principal.seesAll() {
		if in.UserID != "" && in.UserID != c.principal.User {
			return nil, cairn.Invalid("user_id", "may only be set by administrators and operators")
		}
		if q.UserID = c.principal.User; q.UserID == "" {
			return pageAt[client.UsageGroup](p, nil, ""), nil
		}
	}
	page, err := c.h.eng.Usage(c.ctx, q)
	if err != nil {
		return nil, err
	}
	var items []client.UsageGroup
	for _, g := range page.Items {
		items = append(items, client.UsageGroup{Day: g.Day, UserID: g.UserID, Agent: g.Agent, Model: g.Model, Tool: g.Tool, Tag: g.Tag,
			Duration: g.Duration, Usage: g.Usage, Cost: g.Cost})
	}
	out := pageAt(p, items, page.Next)
	out.Offset = nil
	return out, nil
}
