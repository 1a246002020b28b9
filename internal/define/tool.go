package define

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define/bridge"
	"github.com/cairn-agents/cairn/internal/limits"
)

type definition = bridge.Tool[cairn.Call, cairn.CachePolicy, cairn.RetryPolicy, cairn.Agent, cairn.CallKind, cairn.Quorum]

// Tool is what a [cairn.Tool] consists of. It must not be changed.
type Tool definition

// Of returns what a tool consists of.
func Of(t *cairn.Tool) *Tool { return (*Tool)(inside.Tool(t)) }

// ToolOf returns the tool of the given name of a list; nil if there is none.
func ToolOf(list []cairn.Tool, name string) *Tool {
	for i := range list {
		if t := Of(&list[i]); t.Name == name {
			return t
		}
	}
	return nil
}

// Spec returns what a model knows about the tool.
func (t *Tool) Spec() cairn.ToolSpec {
	return cairn.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Input.JSON()}
}

// Specs adds what a model knows about tools to a list.
func Specs(list []cairn.ToolSpec, tools []cairn.Tool) []cairn.ToolSpec {
	for i := range tools {
		list = append(list, Of(&tools[i]).Spec())
	}
	return list
}

// Check returns a CodeArguments error with every violation if input does not satisfy the tool's schema.
func (t *Tool) Check(input json.RawMessage) error {
	list := t.Input.Validate(input)
	if len(list) == 0 {
		return nil
	}
	return &cairn.Error{Code: cairn.CodeArguments, Message: "arguments violate the schema: " + strings.Join(list, "; "), Details: list}
}

// Run executes the tool. The input must have passed Check; a panic of the function is not recovered. A result that cannot
// be kept is a CodeTool error, see [cairn.CheckJSON].
func (t *Tool) Run(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
	out, err := t.Func(ctx, call, input)
	if err != nil {
		return nil, err
	}
	if err := CheckResult(out); err != nil {
		return nil, err
	}
	return out, nil
}

// CheckResult returns a CodeTool error if a tool's result cannot be kept.
func CheckResult(out json.RawMessage) error {
	if problem := limits.JSON(out); problem != "" {
		return cairn.Errorf(cairn.CodeTool, "the result %s", problem)
	}
	return nil
}

// Delegates reports whether a call of the tool has another agent run.
func (t *Tool) Delegates() bool { return t.Agent != nil || t.Companion }

// Delegates reports whether an agent may have other agents run.
func Delegates(a *cairn.Agent) bool {
	for i := range a.Tools {
		if Of(&a.Tools[i]).Agent != nil {
			return true
		}
	}
	return len(a.Companions) > 0
}

// AsksApproval returns what a reviewer is asked before the tool may run; nil if the call needs no approval. With an
// error it does. A panic of the tool's function is not recovered.
func (t *Tool) AsksApproval(ctx context.Context, call *cairn.Call, input json.RawMessage) (*Question, error) {
	if t.Wait.Asks == nil {
		return nil, nil
	}
	asks, err := t.Wait.Asks(ctx, call, input)
	if asks == nil && err != nil {
		asks = &Question{}
	}
	return asks, err
}

// Pending returns the row of a pending call of the tool, but for its place and its input. q is what is asked; nil for the
// call of a client tool.
func (t *Tool) Pending(kind cairn.CallKind, q *Question) cairn.PendingCall {
	w := &t.Wait
	c := cairn.PendingCall{Status: cairn.CallOpen, CallRef: cairn.CallRef{Kind: kind, Tool: t.Name,
		Reviewers: slices.Clone(w.Reviewers), Quorum: w.Quorum, WaitAtMost: w.AtMost}}
	if q != nil {
		c.Prompt, c.Payload = q.Prompt, q.Payload
	}
	switch {
	case kind == cairn.CallApproval:
		c.Schema, c.NoEdits = t.Input.JSON(), w.NoEdits
	case kind.Asked():
		c.Schema, c.Kept = q.Schema, q.Kept
		if q.Assigned {
			c.Reviewers, c.Quorum = slices.Clone(q.Reviewers), cairn.Quorum(q.Quorum)
		}
		if q.AtMost > 0 {
			c.WaitAtMost = q.AtMost
		}
	case w.Result != nil:
		c.Schema = w.Result.JSON()
	}
	return c
}

// Task returns the input that a call of a sub-agent's tool gives its session. The arguments have passed Check.
func (t *Tool) Task(arguments json.RawMessage) (cairn.Input, error) {
	if t.TaskJSON {
		return cairn.Text(string(arguments)), nil
	}
	var task struct{ Input string }
	if err := json.Unmarshal(arguments, &task); err != nil {
		return cairn.Input{}, cairn.Errorf(cairn.CodeArguments, "arguments do not decode: %w", err)
	}
	return cairn.Text(task.Input), nil
}
