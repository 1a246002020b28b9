package engine

import (
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// registry has the agents of an engine by name, with those that they delegate to. It does not change.
type registry map[string]*cairn.Agent

// Replace gives the engine other agents than [New] gave it, from the next run on: all that it shall have from then on. Runs that this process drives keep
// theirs to their end, with the agents that they delegate to; a run that is taken over or resumed has the agent that is
// registered then, and so has each effect of a run that a [Host] drives. Sessions of an agent that is not registered any more
// stay as they are; a worker leaves them to others. An agent must not change once it was given to an engine: register a new
// one in its place.
//
// The error names the agent and the field that is wrong; the agents stay what they were. It is safe for concurrent use.
func (e *Engine) Replace(agents ...*cairn.Agent) error {
	next := registry{}
	for _, a := range agents {
		if a == nil {
			return cairn.Invalid("agents", "an agent is nil")
		}
		if err := a.Validate(); err != nil {
			return err
		}
		if next[a.Name] != nil {
			return cairn.Invalid("agents", "agent %q is given twice", a.Name)
		}
		next[a.Name] = a
	}
	for _, a := range agents {
		if err := next.addSubAgents(a); err != nil {
			return err
		}
	}
	e.agents.Store(&next)
	if e.runs != nil { // else the engine is being made
		e.runs.AgentsReplaced()
	}
	return nil
}

// addSubAgents adds the agents that an agent delegates to or keeps as companions, and theirs.
func (all registry) addSubAgents(a *cairn.Agent) error {
	var list []*cairn.Agent
	for i := range a.Tools {
		list = append(list, define.Of(&a.Tools[i]).Agent)
	}
	for _, c := range a.Companions {
		list = append(list, c.Agent)
	}
	for _, sub := range list {
		if sub == nil || all[sub.Name] == sub {
			continue
		}
		if all[sub.Name] != nil {
			return cairn.Invalid("agents", "agent %q: sub-agent %q has the name of another agent", a.Name, sub.Name)
		}
		if err := sub.Validate(); err != nil {
			return err
		}
		all[sub.Name] = sub
		if err := all.addSubAgents(sub); err != nil {
			return err
		}
	}
	return nil
}

// agent returns the agent that is registered under a name, or nil.
func (e *Engine) agent(name string) *cairn.Agent { return (*e.agents.Load())[name] }

// Agents returns the names of the agents that the engine has, in order.
func (e *Engine) Agents() []string { return slices.Sorted(maps.Keys(*e.agents.Load())) }
