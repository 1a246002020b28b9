package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// registry holds an engine's agents and the agents they delegate to. It is immutable.
type registry struct {
	latest   map[string]*cairn.Agent     // by name
	versions map[definition]*cairn.Agent // all of them
	budgeted bool                        // an agent that delegates has a budget
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
	next := &registry{latest: map[string]*cairn.Agent{}, versions: map[definition]*cairn.Agent{}}
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
	for _, a := range next.versions {
		next.budgeted = next.budgeted || !a.Budget.Zero() && define.Delegates(a)
		if err := e.checkPrices(a); err != nil {
			return err
		}
	}
	e.agents.Store(next)
	if e.runs != nil { // nil while New makes the engine
		e.runs.AgentsReplaced()
	}
	return nil
}

// checkPrices returns an error if a budget of an agent, or one of a period, counts dollars and a model that it counts has no
// price.
func (e *Engine) checkPrices(a *cairn.Agent) error {
	if err := e.checkPricesOf(&a.Budget, "agent "+strconv.Quote(a.Name), a, nil); err != nil {
		return err
	}
	for i := range e.opts.Budgets {
		r := &e.opts.Budgets[i]
		if err := e.checkPricesOf(&r.Budget, "budget rule "+strconv.Quote(r.Name), a, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkPricesOf checks the models of an agent and of those that it consults for a budget. whose names the owner of the
// budget, seen lists the agents that were checked.
func (e *Engine) checkPricesOf(b *cairn.Budget, whose string, a *cairn.Agent, seen []*cairn.Agent) error {
	if b.USD == 0 || b.Unpriced || slices.Contains(seen, a) {
		return nil
	}
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(a.Models))...) {
		model, _ := define.Model(a, name)
		if entry, ok := e.opts.Models.Find(model.Info()); !ok || entry.NoPrice {
			return &cairn.Error{Code: cairn.ErrInvalid, Field: "budget.usd", Message: fmt.Sprintf(
				"%s: budget.usd: the model %s of agent %q has no price in Options.Models: add it there, or set Budget.Unpriced", whose, model.Info().ID(), a.Name)}
		}
	}
	seen = append(seen, a)
	for _, sub := range consulted(a) {
		if err := e.checkPricesOf(b, whose, sub, seen); err != nil {
			return err
		}
	}
	return nil
}

// budgeted reports whether an agent that may make others run has a budget.
func (e *Engine) budgeted() bool { return e.agents.Load().budgeted }

// consulted returns the agents that an agent delegates to or keeps as companions.
func consulted(a *cairn.Agent) (list []*cairn.Agent) {
	for i := range a.Tools {
		if sub := define.Of(&a.Tools[i]).Agent; sub != nil {
			list = append(list, sub)
		}
	}
	for _, c := range a.Companions {
		if c.Agent != nil {
			list = append(list, c.Agent)
		}
	}
	return list
}

// addSubAgents adds the agents that an agent delegates to or keeps as companions, and recursively theirs.
func (all *registry) addSubAgents(a *cairn.Agent) error {
	for _, sub := range consulted(a) {
		if all.versions[of(sub)] == sub {
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

// unknownModel returns the error for a model that an agent does not have.
func unknownModel(a *cairn.Agent, name string) error {
	return cairn.Invalid("model", "agent %q has no model %q; its models are: %s", a.Name, name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(a.Models)), ", "), "none"))
}
