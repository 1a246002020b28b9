package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
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

// agentBody is an agent as the users of its sessions may know it.
type agentBody struct {
	// Name is the agent's name, by which requests for a new session select it.
	Name string `json:"name"`
	// Description is its purpose.
	Description string `json:"description,omitempty"`
	// Version is the version that new sessions get; empty if the agent has none.
	Version string `json:"version,omitempty"`
	// Models are the names of the models that a turn may select, in addition to the agent's own.
	Models []string `json:"models,omitempty"`
}

// listAgents lists the agents that the principal may create sessions of.
func listAgents(c *request, in *agentsIn) (*pageBody[agentBody], error) {
	p := paging{limit: in.Limit, offset: in.Offset}
	if err := p.check(); err != nil {
		return nil, err
	}
	var list []agentBody
	for _, name := range c.h.eng.Agents() {
		planned := &cairn.Session{Agent: name, UserID: c.principal.User}
		ok, err := c.h.opts.Policy(c.ctx, Access{Principal: c.principal, Action: ActionRun, Session: planned})
		if err != nil {
			return nil, err
		}
		if a := c.h.eng.Agent(name); ok && a != nil {
			list = append(list, agentBody{Name: name, Description: a.Description, Version: a.Version, Models: slices.Sorted(maps.Keys(a.Models))})
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
