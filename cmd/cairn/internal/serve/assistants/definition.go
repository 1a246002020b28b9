// Package assistants builds agents from the assistants that the file of cairn serve declares. Each definition of an
// assistant is a record of the store, and each change to it is a new version. Runs name their version, so any
// process can continue a run that another process began with an earlier definition, and all processes see the
// latest.
package assistants

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
)

// Definition is a stored version of an assistant.
type Definition struct {
	config.Assistant
	// Agents are the versions of the assistants that are its sub-agents, by name.
	Agents map[string]int `json:"agents,omitempty"`
}

func (d *Definition) same(other *Definition) bool {
	a, errA := json.Marshal(d)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// version names one version of an assistant.
type version struct {
	name   string
	number int
}

func (v version) String() string { return fmt.Sprintf("assistant %q, version %d", v.name, v.number) }

// Parts builds the models and toolsets that definitions name.
type Parts struct {
	// Model returns the model named PROVIDER:NAME.
	Model func(name string) (cairn.Model, error)
	// Toolset returns the tools of an MCP server. cache says which of their results are kept. taken are the names
	// of the assistant's toolsets so far.
	Toolset func(t *config.Tool, cache config.ToolCache, taken []string) (cairn.Toolset, error)
	// Skills returns the skills of an assistant: those in folders, and those that MCP servers among its toolsets publish.
	// taken are the names of its toolsets so far.
	Skills func(s *config.Skills, servers []cairn.Toolset, taken []string) (cairn.Toolset, error)
	// Memory returns the memory of an assistant.
	Memory func(m *config.Memory) (cairn.Memory, error)
	// Workspace returns the workspaces of an assistant.
	Workspace func(w *config.Workspace) (cairn.Workspace, error)
}

// builder builds the agents of definitions, each once.
type builder struct {
	Parts
	known map[version]*Definition
	made  map[version]*cairn.Agent
}

// agent builds the agent of a version, with its sub-agents. Definitions have no cycles.
func (b *builder) agent(v version) (*cairn.Agent, error) {
	if a := b.made[v]; a != nil {
		return a, nil
	}
	d := b.known[v]
	if d == nil {
		return nil, cairn.Errorf(cairn.ErrNotFound, "%s not found", v)
	}
	model, err := b.Model(d.Model)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v, err)
	}
	others, err := b.others(d.Models)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v, err)
	}
	settings, err := d.Settings.ForModel()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v, err)
	}
	durability, err := d.CommitsWhen()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v, err)
	}
	a := &cairn.Agent{
		Name: d.Name, Version: fmt.Sprint(v.number), KeepVersion: d.Versions == "pin",
		Description: d.Description, Instructions: d.Instructions, Model: model, Models: others, Settings: settings, Output: d.Output.Type(), MaxSteps: d.MaxSteps, DeferAbove: d.DeferAbove,
		Durability: durability, TTL: time.Duration(d.TTL), Budget: d.Budget.Limits(),
	}
	var servers []cairn.Toolset
	for i := range d.Tools {
		t := &d.Tools[i]
		if err := b.add(a, d, t); err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		if t.MCP != nil && t.MCP.Skills {
			servers = append(servers, a.Toolsets[len(a.Toolsets)-1])
		}
	}
	if d.Skills.Some() || len(servers) > 0 {
		skills, err := b.Skills(&d.Skills, servers, toolsetNames(a))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		a.Toolsets = append(a.Toolsets, skills)
	}
	if d.Memory.Some() {
		if a.Memory, err = b.Memory(&d.Memory); err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
	}
	if d.Workspace.Some() {
		if a.Workspace, err = b.Workspace(&d.Workspace); err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	b.made[v] = a
	return a, nil
}

// others builds the models that a turn may select by name; nil if there are none.
func (b *builder) others(models map[string]string) (map[string]cairn.Model, error) {
	if len(models) == 0 {
		return nil, nil
	}
	made := make(map[string]cairn.Model, len(models))
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m, err := b.Model(models[name])
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", name, err)
		}
		made[name] = m
	}
	return made, nil
}

// add adds a tool of the definition to an agent.
func (b *builder) add(a *cairn.Agent, d *Definition, t *config.Tool) error {
	switch {
	case t.Client != "":
		a.Tools = append(a.Tools, t.ClientTool())
	case t.Agent != "":
		sub, err := b.agent(version{t.Agent, d.Agents[t.Agent]})
		if err != nil {
			return err
		}
		a.Tools = append(a.Tools, cairn.SubAgent(sub, append(t.Options(), cairn.Timeout(time.Duration(t.Timeout)))...))
	default:
		ts, err := b.Toolset(t, cmp.Or(t.ToolCache, d.ToolCache), toolsetNames(a))
		if err != nil {
			return err
		}
		a.Toolsets = append(a.Toolsets, ts)
	}
	return nil
}

func toolsetNames(a *cairn.Agent) (names []string) {
	for _, ts := range a.Toolsets {
		names = append(names, ts.Name())
	}
	return names
}

// inOrder sorts assistants so that each follows its sub-agents. There are no cycles.
func inOrder(list []config.Assistant) []config.Assistant {
	byName := map[string]config.Assistant{}
	for _, a := range list {
		byName[a.Name] = a
	}
	var sorted []config.Assistant
	done := map[string]bool{}
	var add func(a config.Assistant)
	add = func(a config.Assistant) {
		if done[a.Name] {
			return
		}
		done[a.Name] = true
		for i := range a.Tools {
			if sub, ok := byName[a.Tools[i].Agent]; ok {
				add(sub)
			}
		}
		sorted = append(sorted, a)
	}
	for _, a := range list {
		add(a)
	}
	return sorted
}

// Check reports what keeps assistants from being served. It changes nothing.
func Check(list []config.Assistant, parts Parts) error {
	b := &builder{Parts: parts, known: map[version]*Definition{}, made: map[version]*cairn.Agent{}}
	for _, a := range list {
		d := &Definition{Assistant: a, Agents: map[string]int{}}
		for i := range a.Tools {
			d.Agents[a.Tools[i].Agent] = 1
		}
		b.known[version{a.Name, 1}] = d
	}
	for _, a := range list {
		if _, err := b.agent(version{a.Name, 1}); err != nil {
			return err
		}
	}
	return nil
}

// versions returns the known versions of an assistant, in ascending order.
func (b *builder) versions(name string) (list []version) {
	for v := range b.known {
		if v.name == name {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b version) int { return cmp.Compare(a.number, b.number) })
	return list
}
