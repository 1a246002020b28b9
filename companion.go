package cairn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/internal/schema"
)

// Companion is an agent that another one keeps beside it: a session of its own that remembers every consultation. The
// model spawns companions by name and talks to them with the companion__ tools, which the agent is given.
//
// A companion that has come to its end is continued when it is consulted again; one that failed or was terminated is
// started fresh.
type Companion struct {
	// Agent answers. Its name is what the model asks for, its description says what for.
	Agent *Agent
	// Mode says whether whoever consults the companion waits for its answer. The default is Blocking.
	Mode CompanionMode
	// Max bounds how many companions of this agent a session may have at once; 0 means 8.
	Max int
}

// CompanionMode says who waits for a companion.
type CompanionMode int

const (
	// Blocking makes the call that consults the companion return its answer. If the companion waits for people, so does
	// the session that consulted it.
	Blocking CompanionMode = iota
	// NonBlocking makes the call return at once. The companion works on by itself, even when its parent's turn has ended
	// or its process is gone, and the parent hears of its answer at the beginning of the next step.
	NonBlocking
)

// Limit returns how many companions of the agent a session may have at once.
func (c *Companion) Limit() int {
	if c.Max == 0 {
		return 8
	}
	return c.Max
}

// The tools that an agent with companions is given.
const (
	CompanionSpawn     = "companion__spawnAgent"
	CompanionSend      = "companion__sendMessage"
	CompanionList      = "companion__listChildren"
	CompanionStatus    = "companion__getChildStatus"
	CompanionTerminate = "companion__terminateChild"
	// CompanionWait is only given to agents with a Blocking companion.
	CompanionWait = "companion__waitForResult"
)

const companionPrefix = "companion__"

// Companion returns the agent's companion whose agent has the given name.
func (a *Agent) Companion(name string) (*Companion, bool) {
	i := slices.IndexFunc(a.Companions, func(c Companion) bool { return c.Agent.Name == name })
	if i < 0 {
		return nil, false
	}
	return &a.Companions[i], true
}

// CompanionTools returns the tools through which the agent talks to its companions; nil if it has none.
func (a *Agent) CompanionTools() []Tool {
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
		if c.Mode == NonBlocking {
			line += " (works in the background; you are told of its answer)"
		} else {
			blocking = true
		}
		lines = append(lines, line)
	}
	name := property{"name", `{"type":"string","minLength":1,"maxLength":64,"description":"The companion's name."}`}
	message := property{"message", `{"type":"string","minLength":1,"description":"What to tell it, with everything it needs to know."}`}
	enum, _ := json.Marshal(names) // strings always encode
	agent := property{"agent", `{"type":"string","enum":` + string(enum) + `}`}
	list := []Tool{
		companionTool(CompanionSpawn, "Start a companion, or go on with the one of that name, and give it a task. Companions remember. The agents are:\n"+
			strings.Join(lines, "\n"), []property{agent, message}, name),
		companionTool(CompanionSend, "Send a message to a companion. What it is doing at the moment is interrupted.", []property{name, message}),
		companionTool(CompanionList, "List your companions and what they are doing.", nil),
		companionTool(CompanionStatus, "Tell what a companion is doing, and its last answer.", []property{name}),
		companionTool(CompanionTerminate, "Stop a companion for good.", []property{name}),
	}
	if blocking {
		list = append(list, companionTool(CompanionWait, "Wait until a companion is done, and return its answer.", []property{name}))
	}
	return list
}

type property struct{ name, schema string }

func companionTool(name, description string, required []property, optional ...property) Tool {
	var members []string
	must := []string{}
	for _, p := range required {
		must = append(must, p.name)
	}
	for _, p := range append(slices.Clone(required), optional...) {
		members = append(members, fmt.Sprintf("%q:%s", p.name, p.schema))
	}
	needs, _ := json.Marshal(must) // strings always encode
	t := Tool{name: name, description: description, companion: true}
	t.input, t.err = schema.Parse(json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`,
		strings.Join(members, ","), needs)))
	return t
}

// TalksToCompanion reports whether the tool is one of those of [Agent.CompanionTools].
func (t Tool) TalksToCompanion() bool { return t.companion }

func (a *Agent) validateCompanions(bad func(field, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, c := range a.Companions {
		field := fmt.Sprintf("companions[%d]", i)
		switch {
		case c.Agent == nil:
			return bad(field, "the agent is nil")
		case c.Mode != Blocking && c.Mode != NonBlocking:
			return bad(field, "the mode %d is neither Blocking nor NonBlocking", c.Mode)
		case c.Max < 0:
			return bad(field, "Max %d is negative", c.Max)
		case seen[c.Agent.Name]:
			return bad(field, "agent %q is a companion twice", c.Agent.Name)
		}
		seen[c.Agent.Name] = true
	}
	return nil
}
