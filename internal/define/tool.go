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

// ErrRan is wrapped by an error about the result of a tool whose function has returned without one.
var ErrRan = bridge.ErrRan

// Tool is the definition inside a [cairn.Tool]. It must not be modified.
type Tool definition

// Of returns a tool's definition.
func Of(t *cairn.Tool) *Tool { return (*Tool)(inside.Tool(t)) }

// ToolOf returns the tool with the given name in a list; nil if there is none.
func ToolOf(list []cairn.Tool, name string) *Tool {
	for i := range list {
		if t := Of(&list[i]); t.Name == name {
			return t
		}
	}
	return nil
}

// Spec returns the tool's description for a model.
func (t *Tool) Spec() cairn.ToolSpec {
	return cairn.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Input.JSON(), Fields: t.Fields}
}

// Specs appends the descriptions of tools to a list.
func Specs(list []cairn.ToolSpec, tools []cairn.Tool) []cairn.ToolSpec {
	for i := range tools {
		list = append(list, Of(&tools[i]).Spec())
	}
	return list
}

// Check returns an ErrArguments error listing every violation if input does not satisfy the tool's schema.
func (t *Tool) Check(input json.RawMessage) error {
	list := t.Input.Validate(input)
	if len(list) == 0 {
		return nil
	}
	return &cairn.Error{Code: cairn.ErrArguments, Message: "arguments violate the schema: " + strings.Join(list, "; "), Details: list}
}

// Run executes the tool. The input must have passed Check. A panic of the function is not recovered. The result
// is in the form that is stored, see [Storable].
func (t *Tool) Run(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
	out, err := t.Func(ctx, call, input)
	if err != nil {
		return nil, err
	}
	clean, problem := limits.CleanJSON(out)
	if problem != "" { // a model that does not know that the tool has run would repeat its effects
		return nil, cairn.Errorf(cairn.ErrTool, "%w, but its result cannot be stored: it %s", ErrRan, problem)
	}
	return clean, nil
}

// Storable returns a tool's result in the form that is stored: with U+FFFD in place of characters that a session
// cannot keep. An ErrTool error, which begins with subject, says why any other result cannot be stored.
func Storable(subject string, out json.RawMessage) (json.RawMessage, error) {
	clean, problem := limits.CleanJSON(out)
	if problem != "" {
		return nil, cairn.Errorf(cairn.ErrTool, "%s %s", subject, problem)
	}
	return clean, nil
}

// Delegates reports whether a call of the tool makes another agent run.
func (t *Tool) Delegates() bool { return t.Agent != nil || t.Companion }

// Delegates reports whether an agent may make other agents run.
func Delegates(a *cairn.Agent) bool {
	for i := range a.Tools {
		if Of(&a.Tools[i]).Agent != nil {
			return true
		}
	}
	return len(a.Companions) > 0
}

// AsksApproval returns what a reviewer is asked before the tool may run; nil if the call needs no approval. On an error
// the call needs approval. A panic of the tool's function is not recovered.
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

// Pending returns the row of a pending call of the tool, without its ids and its input. q is what is asked; nil for a
// call of a client tool.
func (t *Tool) Pending(kind cairn.CallKind, q *Question) cairn.PendingCall {
	w := &t.Wait
	c := cairn.PendingCall{Status: cairn.CallOpen, CallRef: cairn.CallRef{Kind: kind, Tool: t.Name,
		Reviewers: slices.Clone(w.Reviewers), Quorum: w.Quorum, WaitAtMost: cairn.Duration(w.AtMost)}}
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
			c.WaitAtMost = cairn.Duration(q.AtMost)
		}
	case w.Result != nil:
		c.Schema = w.Result.JSON()
	}
	return c
}

// Task returns the input that a sub-agent's session gets from a call. The arguments must have passed Check.
func (t *Tool) Task(arguments json.RawMessage) (cairn.Input, error) {
	if t.TaskJSON {
		return cairn.Text(string(arguments)), nil
	}
	var task struct{ Input string }
	if err := json.Unmarshal(arguments, &task); err != nil {
		return cairn.Input{}, cairn.Errorf(cairn.ErrArguments, "decode arguments: %w", err)
	}
	return cairn.Text(task.Input), nil
}
