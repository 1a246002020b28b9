package cairn

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/cairn-agents/cairn/internal/schema"
)

// taskSchema is what a sub-agent's tool takes.
const taskSchema = `{"type":"object","properties":{"input":{"type":"string","minLength":1,` +
	`"description":"What the agent is to do, with everything it needs to know."}},"required":["input"],"additionalProperties":false}`

// SubAgent makes a tool of an agent. A call of it runs a session of the agent's own from beginning to end and returns
// its output, or its last reply's text. The tool's name and description are the agent's, so the description should say
// what to call it for. Its arguments are one text, {"input": "…"}, which is the first message of the new session; the
// agent sees nothing else of the session that called it. [SubAgentOf] takes arguments of a type.
//
// What the agent waits for suspends the session that called it, and so on up to the root; answers go to the root. If
// the agent fails, the call's result is an error that the calling model reads.
func SubAgent(a *Agent) Tool {
	if a == nil {
		// It has a name, so that this mistake is the one that is reported.
		return Tool{def: definition{Name: "SubAgent", Err: errors.New("the agent is nil")}}
	}
	t := Tool{def: definition{Name: a.Name, Description: a.Description, Agent: a}}
	t.def.Input, t.def.Err = schema.Parse(json.RawMessage(taskSchema))
	return t
}

// SubAgentOf is [SubAgent] with arguments of a type: the calling model fills in In, whose JSON Schema is derived as
// that of a tool's input, and arguments that violate it go back to that model. The sub-agent's first message is the
// arguments as JSON.
func SubAgentOf[In any](a *Agent) Tool {
	t := SubAgent(a)
	if t.def.Err == nil {
		t.def.Input, t.def.Err = schema.For(reflect.TypeFor[In]())
		t.def.TaskJSON = true
	}
	return t
}
