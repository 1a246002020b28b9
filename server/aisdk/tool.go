package aisdk

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// tool encodes what an event says of a tool call.
func (e *Encoder) tool(ev *cairn.Event) {
	if ev.CallID == "" {
		return
	}
	c := e.calls[ev.CallID]
	if c == nil {
		c = &call{tool: ev.Tool, hidden: ev.Tool == cairn.FinishTool, begun: e.step}
		e.calls[ev.CallID] = c
		if !c.hidden {
			e.closePart()
			e.emit(toolStart{"tool-input-start", ev.CallID, c.tool})
		}
	}
	if c.hidden || c.settled != 0 {
		return
	}
	e.tools++
	switch ev.Type {
	case cairn.EventToolArgDelta:
		if !e.answered[ev.CallID] {
			e.emit(toolDelta{"tool-input-delta", ev.CallID, ev.Text})
		}
	case cairn.EventToolArgEnd:
		c.input = ev.Data
	case cairn.EventToolStart, cairn.EventToolPending:
		c.input = ev.Data
		e.input(ev.CallID, c)
	case cairn.EventToolApproval:
		c.input = ev.Data
		e.input(ev.CallID, c)
		e.approval(ev)
	case cairn.EventToolEnd:
		e.result(ev, c)
	}
}

// input gives the client the whole input of a call, once. For a tool of the client's that makes it run the tool, so it is
// given when the call can be answered, and not at all where the answer is there.
func (e *Encoder) input(id string, c *call) {
	if c.available {
		return
	}
	c.available = true
	if e.answered[id] {
		e.emit(toolDelta{"tool-input-delta", id, string(orNull(c.input))})
		return
	}
	e.emit(toolInput{"tool-input-available", id, c.tool, orNull(c.input)})
}

// approval asks for a decision. Clients of version 5 know no approvals; they get a data part.
func (e *Encoder) approval(ev *cairn.Event) {
	if e.answered[ev.CallID] {
		return
	}
	if e.version >= V6 {
		e.emit(approvalRequest{"tool-approval-request", ev.ApprovalID, ev.CallID})
		return
	}
	body, _ := json.Marshal(map[string]string{"approvalId": ev.ApprovalID, "toolCallId": ev.CallID, "toolName": ev.Tool})
	e.emit(data{"data-approval", ev.CallID, body})
}

// result settles a call. One that never began, because its arguments were wrong, is given its input first.
func (e *Encoder) result(ev *cairn.Event, c *call) {
	e.closePart()
	e.input(ev.CallID, c)
	c.settled = e.step
	if ev.IsError {
		e.emit(toolError{"tool-output-error", ev.CallID, words(ev.Data)})
		return
	}
	e.emit(toolOutput{"tool-output-available", ev.CallID, orNull(ev.Data)})
}

// child encodes what a sub-agent does that its user must see: the calls that wait for an answer, and their results.
func (e *Encoder) child(ev *cairn.Event) {
	waits := ev.Type == cairn.EventToolPending || ev.Type == cairn.EventToolApproval
	if waits || ev.Type == cairn.EventToolEnd && e.calls[ev.CallID] != nil {
		e.start(ev)
		e.tool(ev)
	}
}
