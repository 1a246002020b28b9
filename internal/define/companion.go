package define

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/schema"
)

// Companion returns the agent's companion whose own agent has the given name.
func Companion(a *cairn.Agent, name string) (*cairn.Companion, bool) {
	i := slices.IndexFunc(a.Companions, func(c cairn.Companion) bool { return c.Agent.Name == name })
	if i < 0 {
		return nil, false
	}
	return &a.Companions[i], true
}

// MaxCompanions returns how many companions of one kind a session may have at the same time.
func MaxCompanions(c *cairn.Companion) int {
	if c.Max == 0 {
		return 8
	}
	return c.Max
}

// CompanionTools returns the tools through which an agent talks to its companions; nil if it has none.
func CompanionTools(a *cairn.Agent) []cairn.Tool {
	if len(a.Companions) == 0 {
		return nil
	}
	var names, lines []string
	blocking := false
	for _, c := range a.Companions {
		names = append(names, c.Agent.Name)
		line := "- " + c.Agent.Name
		if c.Agent.Description != "" {
			line += ": " + c.Agent.Description
		}
		if c.Mode == cairn.NonBlocking {
			line += " (works in the background; its answer comes later by itself)"
		} else {
			blocking = true
		}
		lines = append(lines, line)
	}
	name := property{"name", `{"type":"string","minLength":1,"maxLength":64,"description":"The companion's name."}`}
	message := property{"message", `{"type":"string","minLength":1,"description":"The task or message, with everything it needs to know."}`}
	enum, _ := json.Marshal(names) // strings always encode
	agent := property{"agent", `{"type":"string","enum":` + string(enum) + `}`}
	list := []cairn.Tool{
		companionTool(cairn.CompanionSpawn, "Start a companion, or continue the one of that name, and give it a task. Companions remember. The agents are:\n"+
			strings.Join(lines, "\n"), []property{agent, message}, name),
		companionTool(cairn.CompanionSend, "Send a message to a companion. This interrupts its current work.", []property{name, message}),
		companionTool(cairn.CompanionList, "List your companions and what they are doing.", nil),
		companionTool(cairn.CompanionStatus, "Report what a companion is doing, and its last answer.", []property{name}),
		companionTool(cairn.CompanionTerminate, "Stop a companion for good.", []property{name}),
	}
	if blocking {
		list = append(list, companionTool(cairn.CompanionWait, "Wait until a companion is done, and return its answer.", []property{name}))
	}
	return list
}

type property struct{ name, schema string }

func companionTool(name, description string, required []property, optional ...property) cairn.Tool {
	var members []string
	must := []string{}
	for _, p := range required {
		must = append(must, p.name)
	}
	for _, p := range append(slices.Clone(required), optional...) {
		members = append(members, fmt.Sprintf("%q:%s", p.name, p.schema))
	}
	needs, _ := json.Marshal(must) // strings always encode
	def := definition{Name: name, Description: description, Companion: true}
	def.Input, def.Err = schema.Parse(json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`,
		strings.Join(members, ","), needs)))
	return inside.New(def)
}
