package support

import (
	"encoding/json"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
)

// turn is a user's message and what came of it.
type turn struct {
	text string
	said string // the agent's text since the last tool result
	// orders, refunds, moved and list hold the results of executed tools.
	orders  map[int]shop.Order
	refunds map[int]shop.Refund
	moved   *shop.Order
	list    []shop.Order
	listed  bool
	// refusals hold the errors of tools, by tool and order.
	refusals map[refusal]string
}

// refusal identifies a refused call.
type refusal struct {
	tool  string
	order int
}

// turns splits a conversation into turns. There is at least one, which is empty if there are no messages.
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

// note records the result of a tool. It ignores a call that was stopped, so that the call is made again: the shop
// performs each change once.
func (t *turn) note(r *cairn.ToolResult, input json.RawMessage) {
	if r.Code == cairn.ErrNotExecuted || r.Code == cairn.ErrStopped {
		return
	}
	t.said = ""
	var err error
	var in lookupInput // every tool names the order this way
	_ = json.Unmarshal(input, &in)
	if r.IsError {
		why := string(r.Output)
		_ = json.Unmarshal(r.Output, &why) // otherwise the raw output stays
		if r.Code == cairn.ErrDenied {
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
			t.refunds[in.Order] = f // f.Order differs if the reviewer changed the arguments
		}
	}
	if err != nil {
		t.refusals[refusal{tool: r.Tool}] = err.Error()
	}
}

// saidBefore begins a summary.
const saidBefore = "The customer said: "

// summary collects what the customer said in a conversation that is given as text.
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
