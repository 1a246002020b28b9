package openai

import (
	"bytes"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// Tools of types of the API's own, which the client runs. A tool of the agent has such a type by a provider field.

const (
	functionTool = "function"
	customTool   = "custom"
	shellType    = "shell_call"
	patchType    = "apply_patch_call"
)

// typed are the types of items that call a tool of a type, the member of an item that holds the call's arguments, and
// the type of the item that answers it.
var typed = map[string]struct{ tool, arguments, output string }{
	shellType: {"shell", "action", "shell_call_output"},
	patchType: {"apply_patch", "operation", "apply_patch_call_output"},
}

// typeOf returns the type of a tool: that of its fields for this provider, if they name one.
func typeOf(t *cairn.ToolSpec) string {
	var fields struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(t.Fields[providerName], &fields) != nil || fields.Type == "" {
		return functionTool
	}
	return fields.Type
}

// choice returns the tool choice that forces the call of a tool.
func choice(tools []cairn.ToolSpec, name string) map[string]string {
	for i := range tools {
		if kind := typeOf(&tools[i]); tools[i].Name == name && kind != functionTool {
			if kind != customTool { // the API has one tool of the type
				return map[string]string{"type": kind}
			}
			return map[string]string{"type": kind, "name": name}
		}
	}
	return map[string]string{"type": functionTool, "name": name}
}

// local reports whether the client runs a tool: not a shell in a container of the provider's.
func local(t *cairn.ToolSpec) bool {
	var fields struct {
		Environment struct {
			Type string `json:"type"`
		} `json:"environment"`
	}
	_ = json.Unmarshal(t.Fields[providerName], &fields) // without an environment it is local
	return fields.Environment.Type == "" || fields.Environment.Type == "local"
}

// clients returns the names of the tools that answer items of the API's own types, by the types of the items.
func clients(tools []cairn.ToolSpec) map[string]string {
	var names map[string]string
	for i := range tools {
		kind := typeOf(&tools[i])
		for item, t := range typed {
			if t.tool == kind && local(&tools[i]) {
				if names == nil {
					names = map[string]string{}
				}
				names[item] = tools[i].Name
			}
		}
	}
	return names
}

// typedCall processes a call of a tool of one of the API's types. Its arguments are the member of the item that says
// what is to be done.
func (r *reply) typedCall(o *output, ev *event, it *item) error {
	fields := without(ev.Item, "status")
	args := fields[typed[it.Type].arguments]
	it.Name = r.clients[it.Type]
	if err := r.start(o, it, &call{given: it.CallID}, fields); err != nil {
		return err
	}
	if !bytes.HasPrefix(args, []byte("{")) {
		return r.failures.Errorf(cairn.ErrModel, "the item %q of the reply has no %q", it.Type, typed[it.Type].arguments)
	}
	return r.arguments(o, string(args))
}

// shellOutput is what a command came to.
type shellOutput struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Outcome struct {
		Type string `json:"type"`
		Code int    `json:"exit_code"`
	} `json:"outcome"`
}

// typedOutput returns the answer to a call of a tool of one of the API's types, which is the given item.
func typedOutput(call json.RawMessage, id string, r *cairn.ToolResult) any {
	var made struct {
		Type   string `json:"type"`
		Action struct {
			Most json.RawMessage `json:"max_output_length"`
		} `json:"action"`
	}
	_ = json.Unmarshal(call, &made) // kept by typedCall
	out := map[string]any{"type": typed[made.Type].output, "call_id": id}
	text := provider.Text(r.Output)
	if made.Type == patchType {
		out["status"], out["output"] = "completed", text
		if r.IsError {
			out["status"] = "failed"
		}
		return out
	}
	if len(made.Action.Most) > 0 && !bytes.Equal(made.Action.Most, []byte("null")) {
		out["max_output_length"] = made.Action.Most
	}
	out["output"] = shellOutputs(r, text)
	return out
}

// shellOutputs returns the result of a shell's tool in the API's form. A tool may return that form itself: a list of
// what each command came to. Any other result is what one command wrote.
func shellOutputs(r *cairn.ToolResult, text string) any {
	var list []map[string]json.RawMessage
	if !r.IsError && json.Unmarshal(r.Output, &list) == nil && len(list) > 0 && list[0]["outcome"] != nil {
		return r.Output
	}
	var one shellOutput
	if one.Outcome.Type = "exit"; r.IsError {
		one.Stderr, one.Outcome.Code = text, 1
	} else {
		one.Stdout = text
	}
	return []shellOutput{one}
}
