package define

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/schema"
)

// Defers reports whether an agent has deferred tools of its own.
func Defers(a *cairn.Agent) bool { return slices.ContainsFunc(a.Tools, IsDeferred) }

// IsDeferred reports whether a tool is searched for, instead of listed, if the list of tools would be too large.
func IsDeferred(t cairn.Tool) bool { return Of(&t).Deferred }

// DeferAbove returns how many tokens the definitions of an agent's tools may have before deferred tools are not listed.
// ok is false if they are always listed.
func DeferAbove(a *cairn.Agent) (tokens int64, ok bool) {
	if a.DeferAbove == 0 {
		return cairn.DefaultDeferAbove, true
	}
	return int64(a.DeferAbove), a.DeferAbove > 0
}

// The arguments of the tools that find and call deferred ones.
var (
	findSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"The task for the tools in a few words, or the name of a tool."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":20,"description":"Maximum number of tools in the result; default 5."}},` +
		`"required":["query"],"additionalProperties":false}`)
	callSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"name":{"type":"string","description":"The name of the tool."},` +
		`"input":{"type":"object","description":"Its input, which must match its input_schema."}},` +
		`"required":["name"],"additionalProperties":false}`)
)

// Finder returns the tool that finds the deferred tools of a list. off reports which tools are switched off.
func Finder(list []cairn.Tool, off func(name string) bool) cairn.Tool {
	description := fmt.Sprintf("Finds tools that are not listed here; there are %s. Search before you say that something cannot be done. "+
		"The answer has names, descriptions and schemas. Call the tools with %s.", about(len(list)), cairn.CallTool)
	return builtIn(cairn.FindTools, description, findSchema, func(_ context.Context, _ *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
		q := query{Limit: 5}
		if err := json.Unmarshal(input, &q); err != nil {
			return nil, cairn.Errorf(cairn.ErrArguments, "decode arguments: %w", err)
		}
		return json.Marshal(q.answer(slices.DeleteFunc(slices.Clone(list), func(t cairn.Tool) bool { return off(t.Name()) })))
	})
}

// about returns a number of tools in rounded words, which seldom change: a changed definition invalidates the
// provider's cache.
func about(n int) string {
	if n < 10 {
		return "some"
	}
	unit := 1
	for n >= 10*unit {
		unit *= 10
	}
	return fmt.Sprintf("at least %d", n/unit*unit)
}

// Caller is the tool that calls deferred tools. Its definition is the same for every agent.
var Caller = builtIn(cairn.CallTool, "Calls a tool that was found with "+cairn.FindTools+", or that this conversation has found before. Call listed tools directly.", callSchema,
	func(_ context.Context, _ *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
		var in deferred
		if json.Unmarshal(input, &in) != nil || !ids.Tool(in.Name) {
			return nil, cairn.Errorf(cairn.ErrArguments, "name: unknown tool; find tools with %s", cairn.FindTools)
		}
		return nil, cairn.Errorf(cairn.ErrArguments, "name: call %s directly", in.Name)
	})

func builtIn(name, description string, input json.RawMessage, fn func(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error)) cairn.Tool {
	def := definition{Name: name, Description: description, Func: fn}
	def.Input, def.Err = schema.Parse(input)
	return inside.New(def)
}

// deferred is the input of a call of [cairn.CallTool].
type deferred struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Unwrap turns a use of [cairn.CallTool] into one of the tool that it names. It does not change a use that names no
// tool, or a tool that is never deferred.
func Unwrap(use *cairn.ToolUse) {
	var in deferred
	if Of(&Caller).Check(use.Input) != nil || json.Unmarshal(use.Input, &in) != nil {
		return
	}
	switch {
	case !ids.Tool(in.Name), in.Name == cairn.FindTools, in.Name == cairn.CallTool, in.Name == cairn.FinishTool, strings.HasPrefix(in.Name, "companion__"):
		return
	case in.Input == nil:
		in.Input = json.RawMessage("{}")
	}
	use.Tool, use.Input, use.Deferred = in.Name, in.Input, true
}

// Wrap undoes [Unwrap], for sending the call to a model again. It returns the same bytes each time.
func Wrap(use *cairn.ToolUse) *cairn.ToolUse {
	out := *use
	out.Tool, out.Deferred = cairn.CallTool, false
	name, _ := json.Marshal(use.Tool) // a string always encodes
	out.Input = slices.Concat(json.RawMessage(`{"name":`), name, json.RawMessage(`,"input":`), use.Input, json.RawMessage("}"))
	return &out
}

// Found returns the names of the tools in a result of [cairn.FindTools].
func Found(output json.RawMessage) []string {
	var a answer
	if json.Unmarshal(output, &a) != nil {
		return nil
	}
	names := make([]string, len(a.Tools))
	for i := range a.Tools {
		names[i] = a.Tools[i].Name
	}
	return names
}
