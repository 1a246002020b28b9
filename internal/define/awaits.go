package define

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/schema"
)

// anything is the schema of arguments and answers that another server checks.
var anything = func() *schema.Schema {
	s, err := schema.Parse(json.RawMessage(`{}`))
	if err != nil {
		panic(err)
	}
	return s
}()

// schemaOf returns a schema that came from another server; nil if there is none, or if it cannot be used here. The
// other server checks the answer in any case.
func schemaOf(raw json.RawMessage) *schema.Schema {
	if len(raw) == 0 {
		return nil
	}
	s, err := schema.Parse(raw)
	if err != nil {
		return nil
	}
	return s
}

// Awaiting returns the tool of a call whose model asks for an answer from outside. Its function runs once an approval
// was given, or asks the question. It does nothing else, because the model passes the answer on.
func Awaiting(use *cairn.ToolUse) *Tool {
	a := use.Awaits
	t := &Tool{Name: use.Tool, Input: anything}
	t.Wait.AtMost = time.Duration(a.WaitAtMost)
	switch {
	case a.Kind.Asked():
		kind := string(a.Kind)
		if a.Kind != cairn.CallConnect { // the ledger and the budget are the other server's
			kind = ""
		}
		q := Question{Kind: kind, Prompt: a.Prompt, Payload: a.Payload, AtMost: time.Duration(a.WaitAtMost)}
		if s := schemaOf(a.Schema); s != nil {
			q.Schema = s.JSON()
		}
		t.Func = func(_ context.Context, call *cairn.Call, _ json.RawMessage) (json.RawMessage, error) {
			return inside.Env(call.Step).Ask(q)
		}
	case a.Kind == cairn.CallApproval:
		t.Wait.Kind, t.Wait.NoEdits = cairn.CallApproval, a.NoEdits
		if s := schemaOf(a.Schema); s != nil {
			t.Input = s
		}
		t.Wait.Asks = func(context.Context, *cairn.Call, json.RawMessage) (*Question, error) {
			return &Question{Prompt: a.Prompt, Payload: a.Payload}, nil
		}
		t.Func = func(_ context.Context, _ *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(cairn.Approved{Approved: true, Input: input})
		}
	default:
		t.Wait.Kind, t.Wait.Result = cairn.CallClientTool, schemaOf(a.Schema)
	}
	return t
}
