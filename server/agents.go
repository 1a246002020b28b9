package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// agentAliases are other names of the field agent in the body of a request.
type agentAliases struct {
	// Assistant and AssistantID are other names of the field agent.
	Assistant   string `json:"assistant,omitempty"`
	AssistantID string `json:"assistant_id,omitempty"`
}

// name returns the agent that the request names, which gives agent in the field of that name; empty for none.
func (in *agentAliases) name(agent string) (string, error) {
	return agentName(agent, in.Assistant, in.AssistantID)
}

// agentQuery names an agent in the query of a request.
type agentQuery struct {
	// Agent selects what belongs to the agent of that name. Assistant and AssistantID are other names of the parameter.
	Agent       string `query:"agent"`
	Assistant   string `query:"assistant"`
	AssistantID string `query:"assistant_id"`
}

func (in *agentQuery) name() (string, error) {
	return agentName(in.Agent, in.Assistant, in.AssistantID)
}

// agentName returns the agent that a request names in one or more of the three fields for it.
func agentName(agent, assistant, assistantID string) (string, error) {
	name := cmp.Or(agent, assistant, assistantID)
	for field, other := range map[string]string{"assistant": assistant, "assistant_id": assistantID} {
		if other != "" && other != name {
			return "", cairn.Invalid(field, "%q contradicts agent %q", other, name)
		}
	}
	return name, nil
}

// listAgents lists the agents that the principal may create sessions of and, for an operator, all others.
func listAgents(c *request, in *agentsIn) (*pageBody[client.Agent], error) {
	p := paging{limit: in.Limit, offset: in.Offset}
	if err := p.check(); err != nil {
		return nil, err
	}
	var list []client.Agent
	for _, name := range c.h.eng.Agents() {
		planned := &cairn.Session{Tenant: c.tenant(), Agent: name, UserID: c.principal.User}
		ok, err := c.permits(Access{Action: ActionRun, Session: planned})
		if err != nil {
			return nil, err
		}
		if a := c.h.eng.Agent(name); (ok || c.principal.Is(RoleOperator)) && a != nil {
			item := client.Agent{Name: name, Description: a.Description, Version: a.Version,
				Models: slices.Sorted(maps.Keys(a.Models)), Startable: ok}
			if memory, editable := a.Memory.(cairn.EditableMemory); editable {
				item.Memory = memory.ScopeKind()
			}
			list = append(list, item)
		}
	}
	total := len(list)
	begin := min(p.offset, total)
	page := pageAt(p, list[begin:min(begin+p.limit, total)], "")
	page.Total, page.HasMore = &total, begin+p.limit < total
	return page, nil
}

type agentsIn struct {
	Limit  int `query:"limit"`
	Offset int `query:"offset"`
}
