package define

import (
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// Toolsets returns the toolsets of an agent. Its workspace and its memory are the last ones.
func Toolsets(a *cairn.Agent) []cairn.Toolset { return inside.Toolsets(a) }

// HasToolsets reports whether an agent has any.
func HasToolsets(a *cairn.Agent) bool {
	return len(a.Toolsets) > 0 || a.Workspace != nil || a.Memory != nil
}

// Offered returns the tools of an agent's toolsets, by what is pinned of each, and why some are left out. given are the
// agent's other tools in addition to its own.
func Offered(a *cairn.Agent, given []cairn.Tool, pinned map[string]json.RawMessage) (tools []cairn.Tool, problems []error) {
	taken := map[string]bool{}
	for _, list := range [][]cairn.Tool{a.Tools, given} {
		for i := range list {
			taken[list[i].Name()] = true
		}
	}
	for _, ts := range Toolsets(a) {
		raw, ok := pinned[ts.Name()]
		if !ok {
			continue
		}
		list, err := toolsOf(ts, raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("toolset %q: %w", ts.Name(), err))
		}
		for i := range list {
			t := &list[i]
			err := inside.Check(t)
			switch {
			case err != nil:
			case taken[t.Name()]:
				err = fmt.Errorf("duplicate tool name")
			case Of(t).Delegates():
				err = fmt.Errorf("toolsets cannot offer sub-agents")
			default:
				taken[t.Name()] = true
				tools = append(tools, *t)
				continue
			}
			problems = append(problems, fmt.Errorf("toolset %q: tool %q: %w", ts.Name(), t.Name(), err))
		}
	}
	return tools, problems
}

// toolsOf returns the tools of a toolset. A panic of the toolset becomes an error.
func toolsOf(ts cairn.Toolset, pinned json.RawMessage) (list []cairn.Tool, err error) {
	defer func() {
		if v := recover(); v != nil {
			list, err = nil, fmt.Errorf("panic: %v", v)
		}
	}()
	return ts.Tools(pinned)
}

// Restated returns what the model has to know of the pinned offers of an agent's toolsets once their notes are behind a
// summary, and why some of it is missing.
func Restated(a *cairn.Agent, pinned map[string]json.RawMessage) (texts []string, problems []error) {
	for _, ts := range Toolsets(a) {
		raw, ok := pinned[ts.Name()]
		r, restates := ts.(cairn.RestatedToolset)
		if !ok || !restates {
			continue
		}
		text, err := restated(r, raw)
		if err == nil {
			err = cairn.CheckText("text", text)
		}
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("toolset %q: %w", ts.Name(), err))
		case text != "":
			texts = append(texts, text)
		}
	}
	return texts, problems
}

// restated returns a toolset's text. A panic of the toolset becomes an error.
func restated(ts cairn.RestatedToolset, pinned json.RawMessage) (text string, err error) {
	defer func() {
		if v := recover(); v != nil {
			text, err = "", fmt.Errorf("panic: %v", v)
		}
	}()
	return ts.Restate(pinned)
}

// Publish publishes an event of a capability for a call, with a name.
func Publish(call *cairn.Call, typ cairn.EventType, name, text string) error {
	return inside.Env(call.Step).Publish(string(typ), name, text, call.ID)
}

// Sent returns the messages of the session that the step's request to the model contains. They must not be modified.
func Sent(step *cairn.Step) []cairn.Message { return inside.Env(step).Sent() }

// SwitchedOff returns the names of the tools that are off.
func SwitchedOff(call *cairn.Call) []string { return inside.Env(call.Step).SwitchedOff() }

// Ask asks a person q and returns the answer. Unlike [cairn.Call.Ask], it takes schemas that are not known at compile
// time. It returns ErrSuspended while there is no answer.
func Ask(call *cairn.Call, q Question) (json.RawMessage, error) {
	env := inside.Env(call.Step)
	if env == nil {
		return nil, cairn.Invalid("call", "must be the call of a running tool")
	}
	return env.Ask(q)
}
