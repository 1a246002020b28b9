package cairn

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/cairn-agents/cairn/internal/schema"
)

// taskSchema is the input schema of a sub-agent's tool.
const taskSchema = `{"type":"object","properties":{"input":{"type":"string","minLength":1,` +
	`"description":"The task for the agent, with everything it needs to know."}},"required":["input"],"additionalProperties":false}`

// SubAgent makes a tool of an agent. A call of it runs a session of that agent from beginning to end and returns
// its output, or the text of its last reply. The tool has the agent's name and description, so the description
// should explain when to call it. Its only argument is a text, {"input": "…"}, which becomes the first message of
// the new session; the agent sees nothing else of the calling session. [SubAgentOf] takes typed arguments.
//
// If the agent waits for something, the calling session is suspended, and so on up to the root; answers are
// submitted to the root. If the agent fails, the call's result is an error that the calling model reads.
//
// [Timeout] limits the whole consultation, from the beginning of the new session and with the time that it waits for
// people. When it has passed, the session and those below it are stopped, and the call fails with ErrTimeout. It
// counts by the store's clock, through takeovers and suspensions. If the tree is suspended then, a worker enforces it.
func SubAgent(a *Agent, opts ...ToolOption) Tool {
	if a == nil {
		// A name lets validation report this mistake rather than the missing name.
		return Tool{def: definition{Name: "SubAgent", Err: errors.New("agent is nil")}}
	}
	t := Tool{def: definition{Name: a.Name, Description: a.Description, Agent: a}}
	t.def.Input, t.def.Err = schema.Parse(json.RawMessage(taskSchema))
	return t.with(opts)
}

// SubAgentOf is [SubAgent] with typed arguments: the calling model fills in In, whose JSON Schema is derived like a
// tool's input schema, and arguments that violate it are returned to that model as an error. The sub-agent's first
// message is the arguments as JSON.
func SubAgentOf[In any](a *Agent, opts ...ToolOption) Tool {
	t := SubAgent(a)
	if t.def.Err == nil {
		t.def.Input, t.def.Err = schema.For(reflect.TypeFor[In]())
		t.def.TaskJSON = true
	}
	return t.with(opts)
}
