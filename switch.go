package cairn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ToolEnv is an Env that knows the tools of its agent, so that [Step.SwitchTools] can refuse the names of others.
type ToolEnv interface {
	Env
	// HasTool reports whether the agent has a tool of that name.
	HasTool(name string) bool
}

// ToolSwitch returns a hidden message that switches tools on (true) and off (false), by name, from there on, and says so
// to the model. Hosts use it; see [Step.SwitchTools] and Engine.SwitchTools. The error is ErrInvalid if no tool is named,
// for what cannot be a tool's name and for [FinishTool], which is always there.
func ToolSwitch(tools map[string]bool) (Message, error) {
	if len(tools) == 0 {
		return Message{}, Invalid("tools", "no tool is named")
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		switch {
		case name == FinishTool:
			return Message{}, Invalid("tools", "%s cannot be switched", FinishTool)
		case !toolName.MatchString(name):
			return Message{}, Invalid("tools", "%q cannot be the name of a tool", name)
		case tools[name]:
			lines = append(lines, fmt.Sprintf("The tool %q is available again.", name))
		default:
			lines = append(lines, fmt.Sprintf("The tool %q is not available from now on.", name))
		}
	}
	m := Context(strings.Join(lines, "\n"))
	m.Tools = maps.Clone(tools)
	return m, nil
}

// SwitchTools switches tools of the agent on (true) and off (false), by name, from the next step on, also in later turns.
// It adds a hidden message with the step's commit, as [Step.AddContext] does, which tells the model. The list of tools
// that the model is sent stays what it is, so that the provider's cached prefix stays good; a call of a tool that is off
// is answered with a CodeToolOff error. Calls that the model has made before still run.
//
// The error is ErrInvalid, and nothing is switched, if no tool is named, for [FinishTool], and for a name that is not that
// of one of the agent's tools.
func (s *Step) SwitchTools(tools map[string]bool) error {
	m, err := ToolSwitch(tools)
	if err != nil {
		return err
	}
	if env, ok := s.env.(ToolEnv); ok {
		for _, name := range slices.Sorted(maps.Keys(tools)) {
			if !env.HasTool(name) {
				return Invalid("tools", "agent %q has no tool %q", s.Agent, name)
			}
		}
	}
	s.env.AddContext(m)
	return nil
}
