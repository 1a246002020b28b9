package aisdk

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// tool encodes an event of a tool call.
func (e *Encoder) tool(ev *cairn.Event) {
	id := ev.CallID
	if ev.ToolCallID != "" {
		id = ev.ToolCallID
	}
	if id == "" {
		return
	}
	c := e.calls[id]
	if c == nil {
		c = &call{tool: ev.Tool, own: ev.SessionID == e.session, hidden: ev.Tool == cairn.FinishTool || ev.Tool == cairn.BudgetTool, begun: e.step}
		e.calls[id] = c
		if !c.hidden {
			e.closePart()
			e.emit(toolStart{"tool-input-start", id, c.tool})
		}
	}
	if ev.Tool == cairn.BudgetTool && c.settled == 0 {
		e.ask(question, c, &asked{CallID: ev.CallID, ToolCallID: id, Tool: c.tool, Prompt: ev.Prompt, Payload: ev.Payload})
		return
	}
	if c.hidden || c.settled != 0 {
		return
	}
	e.tools++
	switch ev.Type {
	case cairn.EventToolArgDelta:
		if e.answered[ev.CallID] == nil {
			e.emit(toolDelta{"tool-input-delta", ev.CallID, ev.Text})
		}
	case cairn.EventToolArgEnd:
		c.input = ev.Data
	case cairn.EventToolStart, cairn.EventToolPending:
		c.input = ev.Data
		e.input(id, c)
		e.begins(ev, c)
		if ev.ToolCallID != "" {
			e.ask(question, c, &asked{CallID: ev.CallID, ToolCallID: id, Tool: c.tool, Prompt: ev.Prompt, Payload: ev.Payload})
		}
	case cairn.EventToolApproval:
		c.input = ev.Data
		e.input(id, c)
		e.approval(ev, c)
	case cairn.EventToolEnd:
		e.result(ev, c)
	}
}

// input gives the client the whole input of a call, once. A client runs its own tool when it gets the input. The
// input of such a call is therefore given when the call can be answered, and only as a delta if it has been
// answered.
func (e *Encoder) input(id string, c *call) {
	if c.available {
		return
	}
	c.available = true
	if by := e.answered[id]; by != nil {
		if len(by.Edited) > 0 {
			c.input, c.edited = by.Edited, true
		}
		e.emit(toolDelta{"tool-input-delta", id, string(orNull(c.input))})
		return
	}
	e.emit(toolInput{"tool-input-available", id, c.tool, orNull(c.input)})
}

// approval asks for a decision. Clients of version 5 do not know approvals and get a data part.
func (e *Encoder) approval(ev *cairn.Event, c *call) {
	c.approval = ev.ApprovalID
	by := e.answered[ev.CallID]
	switch {
	case e.version < V6:
		e.ask(approval, c, &asked{CallID: ev.CallID, ToolCallID: ev.CallID, Tool: c.tool, ApprovalID: ev.ApprovalID, Prompt: ev.Prompt, Payload: ev.Payload})
	case by == nil || by.Code == cairn.ErrDenied || e.version >= V7:
		c.requested = true
		e.emit(approvalRequest{"tool-approval-request", ev.ApprovalID, ev.CallID, ev.Prompt, ev.Payload})
		if by != nil && by.Code == cairn.ErrDenied {
			e.decided(c, false)
		}
	}
}

// decided shows the decision on a request that the stream has shown.
func (e *Encoder) decided(c *call, approved bool) {
	if c.requested && e.version >= V7 {
		e.emit(approvalResponse{"tool-approval-response", c.approval, approved})
	}
	c.requested = false
}

// begins shows that a call which needed an approval has it, and with which input its tool runs. The client that made
// the decision knows it, but not the input if another one has changed that.
func (e *Encoder) begins(ev *cairn.Event, c *call) {
	if c.approval == "" || ev.Type != cairn.EventToolStart {
		return
	}
	shown := c.requested && e.version == V6 && e.answered[ev.CallID] == nil
	e.decided(c, true)
	if edited := len(ev.Edited) > 0 && !c.edited; edited || shown {
		c.edited = edited
		e.emit(toolInput{"tool-input-available", ev.CallID, c.tool, orNull(c.input)})
	}
}

// ask shows a part that asks the user something. It settles what the call asked before.
func (e *Encoder) ask(kind string, c *call, a *asked) {
	e.closePart()
	e.settle(c)
	c.asked, c.askedAs = a, kind
	e.data(kind, a)
}

// settle marks what a call asked its user as settled. A data part replaces an earlier one of the same id.
func (e *Encoder) settle(c *call) {
	if c.asked != nil {
		c.asked.Settled = true
		e.data(c.askedAs, c.asked)
		c.asked = nil
	}
}

func (e *Encoder) data(kind string, a *asked) {
	body, err := json.Marshal(a)
	if err != nil { // impossible: the JSON is from the log
		panic("aisdk: " + err.Error())
	}
	e.emit(data{kind, a.CallID, body})
}

// result settles a call. A call that never began, because its arguments were wrong, is given its input first.
func (e *Encoder) result(ev *cairn.Event, c *call) {
	e.closePart()
	e.input(ev.CallID, c)
	e.settle(c)
	c.settled = e.step
	if c.approval != "" && ev.Code == cairn.ErrDenied && e.version >= V6 {
		e.emit(toolDenied{"tool-output-denied", ev.CallID})
		return
	}
	if ev.IsError {
		e.emit(toolError{"tool-output-error", ev.CallID, words(ev.Data)})
		return
	}
	e.emit(toolOutput{"tool-output-available", ev.CallID, orNull(ev.Data)})
}

// child encodes what the user must see of a sub-agent: pending calls and their results.
func (e *Encoder) child(ev *cairn.Event) {
	waits := ev.Type == cairn.EventToolPending || ev.Type == cairn.EventToolApproval
	if waits || ev.Type == cairn.EventToolEnd && e.calls[ev.CallID] != nil {
		e.start(ev)
		e.tool(ev)
	}
}
