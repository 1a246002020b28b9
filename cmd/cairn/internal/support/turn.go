package support

import (
	"encoding/json"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
)

// turn is one thing a user said and what came of it.
type turn struct {
	text string
	said string // the agent's words since the last result of a tool
	// results are those of the tools that were executed.
	orders  map[int]shop.Order
	refunds map[int]shop.Refund
	moved   *shop.Order
	list    []shop.Order
	listed  bool
	// refusals are what tools said instead of a result, by tool and order.
	refusals map[refusal]string
}

// refusal names what was refused.
type refusal struct {
	tool  string
	order int
}

// turns reads a conversation. It has at least one turn, which is empty if there are no messages.
func turns(messages []cairn.Message) []turn {
	list := []turn{newTurn("")}
	inputs := map[string]json.RawMessage{}
	for i := range messages {
		m := &messages[i]
		t := &list[len(list)-1]
		switch {
		case m.Hidden:
		case m.Role == cairn.RoleUser:
			list = append(list, newTurn(m.Text()))
		case m.Role == cairn.RoleAssistant:
			t.said += m.Text()
			for _, use := range m.ToolUses() {
				inputs[use.CallID] = use.Input
			}
		case m.Role == cairn.RoleTool:
			for _, r := range m.ToolResults() {
				t.note(r, inputs[r.CallID])
			}
		}
	}
	return list
}

func newTurn(text string) turn {
	return turn{text: text, orders: map[int]shop.Order{}, refunds: map[int]shop.Refund{}, refusals: map[refusal]string{}}
}

// note takes in the result of a tool. A call that was stopped counts for nothing, so that it is made again: the shop does
// each thing once.
func (t *turn) note(r *cairn.ToolResult, input json.RawMessage) {
	if r.Code == cairn.CodeNotExecuted || r.Code == cairn.CodeStopped {
		return
	}
	t.said = ""
	var err error
	var in lookupInput // every tool names the order in this way
	_ = json.Unmarshal(input, &in)
	if r.IsError {
		why := string(r.Output)
		_ = json.Unmarshal(r.Output, &why) // else it stays as it is
		if r.Code == cairn.CodeDenied {
			why = "it was not approved" + strings.TrimPrefix(why, "not approved by the user")
		}
		t.refusals[refusal{r.Tool, in.Order}] = why
		return
	}
	switch r.Tool {
	case "lookup_order":
		var o shop.Order
		if err = json.Unmarshal(r.Output, &o); err == nil {
			t.orders[o.Number] = o
		}
	case "change_address":
		var o shop.Order
		if err = json.Unmarshal(r.Output, &o); err == nil {
			t.moved = &o
		}
	case "list_orders":
		err = json.Unmarshal(r.Output, &t.list)
		t.listed = err == nil
	case "refund":
		var f shop.Refund
		if err = json.Unmarshal(r.Output, &f); err == nil {
			t.refunds[in.Order] = f // f.Order is another one if who approved it changed that
		}
	}
	if err != nil {
		t.refusals[refusal{tool: r.Tool}] = err.Error()
	}
}

// saidBefore begins a summary.
const saidBefore = "The customer said: "

// summary puts together what the customer has said in a conversation that is given as a text.
func summary(req *cairn.Request) string {
	var list []string
	for i := range req.Messages {
		for line := range strings.Lines(req.Messages[i].Text()) {
			if text, ok := strings.CutPrefix(line, string(cairn.RoleUser)+": "); ok {
				list = append(list, strings.TrimSpace(text))
			} else if _, earlier, ok := strings.Cut(line, saidBefore); ok {
				list = append(list, strings.TrimSpace(earlier))
			}
		}
	}
	return saidBefore + strings.Join(list, " / ")
}
