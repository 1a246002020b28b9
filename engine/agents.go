package engine

import (
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// registry holds an engine's agents and the agents they delegate to. It is immutable.
type registry struct {
	latest   map[string]*cairn.Agent     // by name
	versions map[definition]*cairn.Agent // all of them
}

// definition names one version of an agent.
type definition struct{ name, version string }

func of(a *cairn.Agent) definition { return definition{a.Name, a.Version} }

// Replace replaces all of the engine's agents, from the next run on. Runs that this process drives keep their agent,
// with the agents it delegates to, until they end. A run that is taken over or resumed uses the agent that is
// registered then, and so does each effect of a run that a [Host] drives.
//
// Several agents may share a name if their versions differ. A new turn then uses the last of them (unless its
// KeepVersion is set). A run that is taken over or resumed uses the agent of its version, or the last one if that is
// missing. Sessions of an agent that is no longer registered stay as they are; a worker leaves them to other processes.
// An agent must not change after it was given to an engine: register a new one in its place.
//
// The error names the agent and the invalid field, and the registered agents do not change. It is safe for concurrent
// use.
func (e *Engine) Replace(agents ...*cairn.Agent) error {
	next := &registry{map[string]*cairn.Agent{}, map[definition]*cairn.Agent{}}
	for _, a := range agents {
		if a == nil {
			return cairn.Invalid("agents", "an agent is nil")
		}
		if err := a.Validate(); err != nil {
			return err
		}
		if next.versions[of(a)] != nil {
			return cairn.Invalid("agents", "duplicate agent %q", a.Name)
		}
		next.latest[a.Name], next.versions[of(a)] = a, a
	}
	for _, a := range agents {
		if err := next.addSubAgents(a); err != nil {
			return err
		}
	}
	e.agents.Store(next)
	if e.runs != nil { // nil while New makes the engine
		e.runs.AgentsReplaced()
	}
	return nil
}

// addSubAgents adds the agents that an agent delegates to or keeps as companions, and recursively theirs.
func (all *registry) addSubAgents(a *cairn.Agent) error {
	var list []*cairn.Agent
	for i := range a.Tools {
		list = append(list, define.Of(&a.Tools[i]).Agent)
	}
	for _, c := range a.Companions {
		list = append(list, c.Agent)
	}
	for _, sub := range list {
		if sub == nil || all.versions[of(sub)] == sub {
			continue
		}
		if all.versions[of(sub)] != nil {
			return cairn.Invalid("agents", "agent %q: sub-agent %q has the same name as another agent", a.Name, sub.Name)
		}
		if err := sub.Validate(); err != nil {
			return err
		}
		all.versions[of(sub)] = sub
		if all.latest[sub.Name] == nil {
			all.latest[sub.Name] = sub
		}
		if err := all.addSubAgents(sub); err != nil {
			return err
		}
	}
	return nil
}

// Agent returns the agent that a new session of a name gets, or nil if no agent of that name is registered. It must not
// be changed.
func (e *Engine) Agent(name string) *cairn.Agent { return e.agent(name) }

// agent returns the latest agent registered under a name, or nil.
func (e *Engine) agent(name string) *cairn.Agent { return e.agents.Load().latest[name] }

// version returns the agent with a name and a version, or the latest one of that name.
func (e *Engine) version(name, version string) (*cairn.Agent, bool) {
	all := e.agents.Load()
	if a := all.versions[definition{name, version}]; a != nil && version != "" {
		return a, true
	}
	a := all.latest[name]
	return a, a != nil
}

// Agents returns the names of the engine's agents, sorted.
func (e *Engine) Agents() []string { return slices.Sorted(maps.Keys(e.agents.Load().latest)) }
