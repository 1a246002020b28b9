package cairn

import (
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn/internal/schema"
)

// taskSchema is what a sub-agent's tool takes.
const taskSchema = `{"type":"object","properties":{"input":{"type":"string","minLength":1,` +
	`"description":"What the agent is to do, with everything it needs to know."}},"required":["input"],"additionalProperties":false}`

// SubAgent makes a tool of an agent. A call of it runs a session of the agent's own from beginning to end and returns its
// output, or its last reply's text. The tool's name and description are the agent's. What the agent waits for suspends
// the session that called it, and so on up to the root; answers go to the root.
func SubAgent(a *Agent) Tool {
	if a == nil {
		return Tool{name: "SubAgent", err: errors.New("the agent is nil")} // named, so that this is what is reported
	}
	t := Tool{name: a.Name, description: a.Description, agent: a}
	t.input, t.err = schema.Parse(json.RawMessage(taskSchema))
	return t
}

// Task returns the input that a call of a sub-agent's tool gives its session. The arguments have passed Check.
func (t Tool) Task(arguments json.RawMessage) (Input, error) {
	var task struct{ Input string }
	if err := json.Unmarshal(arguments, &task); err != nil {
		return Input{}, Errorf(CodeArguments, "arguments do not decode: %w", err)
	}
	return Text(task.Input), nil
}
