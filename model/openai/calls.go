package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// Types of the items that the API wants an answer to.
const (
	functionType = "function_call"
	customType   = "custom_tool_call"
	approvalType = "mcp_approval_request"
)

// call begins a call of a function, or ends it.
func (r *reply) call(o *output, ev *event, it *item, done bool) error {
	if o.call == nil {
		more := without(ev.Item, "type", "call_id", "name", "arguments", "status")
		if err := r.start(o, it, &call{given: it.CallID}, more); err != nil {
			return err
		}
	}
	if !done || o.call.filled {
		return nil
	}
	return r.arguments(o, cmp.Or(it.Arguments, "{}"))
}

// start begins a call. more is its provider data.
func (r *reply) start(o *output, it *item, c *call, more map[string]json.RawMessage) error {
	if c.given == "" || it.Name == "" {
		return r.failures.Errorf(cairn.ErrModel, "the reply has a tool call without an id or a name")
	}
	c.id = r.ids.Of(c.given)
	o.call, r.calls = c, append(r.calls, c)
	chunk := cairn.Chunk{Type: cairn.ChunkToolStart, CallID: c.id, Tool: it.Name}
	if it.Type == approvalType {
		chunk.Awaits = &cairn.Awaits{Kind: cairn.CallApproval, NoEdits: true,
			Prompt: fmt.Sprintf("Run %q on the MCP server %q?", it.Name, it.Server)}
	}
	if len(more) > 0 {
		raw, _ := json.Marshal(more) // parts of valid JSON
		if chunk.Provider = provider.Keepable(raw); chunk.Provider != nil {
			chunk.Model = r.model
		}
	}
	return r.emit(o, chunk)
}

// custom processes a call of a custom tool, whose input is a text: the member "input" of the arguments.
func (r *reply) custom(o *output, ev *event, it *item) error {
	err := r.start(o, it, &call{given: it.CallID}, without(ev.Item, "call_id", "name", "input", "status"))
	if err != nil {
		return err
	}
	args, err := provider.Encode(map[string]string{"input": it.Input})
	if err != nil {
		return r.failures.Errorf(cairn.ErrModel, "decode input of a call: %w", err)
	}
	return r.arguments(o, strings.TrimSpace(string(args)))
}

// approval processes the request of an MCP server at the provider to run a tool. It becomes a call that waits for an
// approval.
func (r *reply) approval(o *output, ev *event, it *item) error {
	if err := r.start(o, it, &call{given: it.ID}, without(ev.Item)); err != nil {
		return err
	}
	return r.arguments(o, cmp.Or(it.Arguments, "{}"))
}

// owe notes an item that a client must answer, until the provider answers it: a shell at the provider does.
func (r *reply) owe(it *item) {
	switch {
	case it.CallID == "":
	case strings.HasSuffix(it.Type, "_output"):
		delete(r.owed, it.CallID)
	case strings.HasSuffix(it.Type, "_call"):
		if r.owed == nil {
			r.owed = map[string]string{}
		}
		r.owed[it.CallID] = it.Type
	}
}

// unanswered returns an error for an item that a client must answer.
func (r *reply) unanswered() error {
	for _, id := range slices.Sorted(maps.Keys(r.owed)) {
		kind := r.owed[id]
		return r.failures.Errorf(cairn.ErrModelRequest, "the reply has the item %q (%s), which requires an answer from its client: "+
			"do not offer the tool that it belongs to", kind, provider.Clip(id))
	}
	return nil
}

// approvalOutput is the answer to an approval request.
type approvalOutput struct {
	Type    string `json:"type"`
	ID      string `json:"approval_request_id"`
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitempty"`
}

// madeAs is the item with which the model made a call. A function's has no type.
type madeAs struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// itemOf returns the item of a call that this model made.
func itemOf(p *cairn.Part) (it madeAs) {
	_ = json.Unmarshal(p.Provider, &it) // anything else has no type
	return it
}

// called returns a call as an item, and notes which type of item answers it.
func (c *calls) called(p *cairn.Part, own bool) any {
	id := c.ids.Of(p.ToolUse.CallID)
	call := functionCall{Type: functionType, CallID: id, Name: provider.ToolName(p.ToolUse.Tool),
		Arguments: string(provider.Arguments(p.ToolUse.Input))}
	var had madeAs
	if own {
		had = itemOf(p)
	}
	switch had.Type {
	case approvalType:
		c.approvals[p.ToolUse.CallID] = had.ID
		return p.Provider
	case shellType, patchType:
		c.typed[p.ToolUse.CallID] = p.Provider
		return joined(map[string]string{"call_id": id}, p.Provider, own)
	case customType:
		c.custom[p.ToolUse.CallID] = true
		var args struct {
			Input string `json:"input"`
		}
		_ = json.Unmarshal(p.ToolUse.Input, &args) // written by custom
		return joined(map[string]string{"call_id": id, "name": call.Name, "input": args.Input}, p.Provider, own)
	}
	return joined(call, p.Provider, own)
}

// calls are the calls of a history.
type calls struct {
	ids       provider.CallIDs
	approvals map[string]string // ids of approval requests, by the session's ids
	custom    map[string]bool
	typed     map[string]json.RawMessage // items that call tools of the API's own types
}

func newCalls() *calls {
	return &calls{provider.CallIDs{}, map[string]string{}, map[string]bool{}, map[string]json.RawMessage{}}
}

// output returns the result of a call as an item, with the files that are sent in it.
func (c *calls) output(r *cairn.ToolResult, files []*cairn.File) any {
	text := provider.Text(r.Output)
	if id := c.approvals[r.CallID]; id != "" {
		answer := approvalOutput{Type: "mcp_approval_response", ID: id, Approve: !r.IsError}
		if r.IsError {
			answer.Reason = text
		}
		return answer
	}
	if item := c.typed[r.CallID]; item != nil {
		return typedOutput(item, c.ids.Of(r.CallID), r)
	}
	if r.IsError {
		text = "Error: " + text
	}
	out := functionOutput{Type: "function_call_output", CallID: c.ids.Of(r.CallID), Output: text}
	if c.custom[r.CallID] {
		out.Type = "custom_tool_call_output"
	}
	if len(files) > 0 {
		var list []content
		if text != "" {
			list = append(list, content{Type: "input_text", Text: text})
		}
		for _, f := range files {
			list = append(list, file(f))
		}
		out.Output = list
	}
	return out
}
