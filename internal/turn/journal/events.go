// Package journal writes the event log. What the log says follows from facts: those of a step, and what was committed of a run.
// The functions of events.go are the only place that turns them into events. A run that is driven calls them as things happen;
// a process that takes a step over calls them for the whole step; and the log of a run that died is completed with what they say
// less what [Seen] has. So all three say the same.
//
// The rest of the package is the way of events to the log: cut to size, gathered for a short time, written in order and once.
// It reads and writes the log, and nothing else: no store, no agent, no user code.
package journal

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// Begin says that a run began, in place of another one if it has a previous run, and which messages it began with.
// count is how many the session has with them.
func Begin(run *cairn.Run, count int, messages []cairn.Message) []cairn.Event {
	ev := cairn.Event{Type: cairn.EventRunStart, Name: run.PreviousRunID, MessageCount: count}
	if run.PreviousRunID != "" {
		ev.Type = cairn.EventRunResumed
	}
	return append([]cairn.Event{ev}, Added(run.FirstMessage, messages)...)
}

// End says how a run came out.
func End(run *cairn.Run) []cairn.Event {
	list := make([]cairn.Event, 0, 3)
	if run.Error != nil {
		list = append(list, cairn.Event{Type: cairn.EventError, Step: run.Steps, Error: run.Error})
	}
	if len(run.Output) > 0 {
		list = append(list, cairn.Event{Type: cairn.EventOutput, Step: run.Steps, Data: run.Output})
	}
	usage := run.Usage
	return append(list, cairn.Event{Type: cairn.EventRunEnd, Step: run.Steps, Status: run.Status, Reason: run.Reason, Text: run.StopReason, Error: run.Error, Usage: &usage})
}

// StepStart says that an attempt at a step begins.
func StepStart(number int) cairn.Event {
	return cairn.Event{Type: cairn.EventStepStart, Step: number}
}

// StepDiscarded marks what an attempt at a step published as void.
func StepDiscarded(number int, why *cairn.Error) cairn.Event {
	return cairn.Event{Type: cairn.EventStepDiscarded, Step: number, Error: why}
}

// StepCommitted says that a step was committed, after which the session has so many messages.
func StepCommitted(number, messages int) cairn.Event {
	return cairn.Event{Type: cairn.EventStepCommitted, Step: number, MessageCount: messages}
}

// Checkpoint says that a step's commit made a checkpoint.
func Checkpoint(number int, id string, messages int) cairn.Event {
	return cairn.Event{Type: cairn.EventCheckpoint, Step: number, CheckpointID: id, MessageCount: messages}
}

// Pending asks for the answers to calls that can be given now.
func Pending(number int, rows []cairn.PendingCall) []cairn.Event {
	var list []cairn.Event
	for i := range rows {
		c := &rows[i]
		ev := cairn.Event{Type: cairn.EventToolPending, Step: number, CallID: c.ID, Tool: c.Tool, Data: c.Input,
			ApprovalID: c.ApprovalID, ToolCallID: c.ToolCallID, Prompt: c.Prompt, Payload: c.Payload, Deadline: c.Deadline}
		if c.Kind == cairn.CallApproval {
			ev.Type = cairn.EventToolApproval
		}
		list = append(list, ev)
	}
	return list
}

// Results says that calls have ended with the results in messages.
func Results(number int, messages []cairn.Message) (list []cairn.Event) {
	for i := range messages {
		for _, r := range messages[i].ToolResults() {
			if r.Child.SessionID != "" {
				list = append(list, childEnded(number, r, r.Child))
			}
			list = append(list, result(number, r))
		}
	}
	return list
}

// Step says everything about a step under way, from its beginning.
func Step(say func(cairn.Event), st *step.Step) {
	say(StepStart(st.Number))
	if m := st.Message(); m != nil && !st.Carried { // else it was stopped before it said anything, or the run that suspended has published it
		if m.Model != "" {
			say(Fallback(st.Number, m.Model))
		}
		for i := range m.Parts {
			Part(say, st.Number, &m.Parts[i])
		}
	}
	if !st.Carried {
		for _, ev := range st.Passed() {
			say(ev)
		}
	}
	for _, c := range st.Calls {
		if c.Result != nil {
			Call(say, st, c, Unpublished)
		}
	}
}

// Fallback says that a model answers which was not asked.
func Fallback(number int, model string) cairn.Event {
	return cairn.Event{Type: cairn.EventModelFallback, Step: number, Name: model}
}

// Part says a part of a reply as a whole.
func Part(say func(cairn.Event), number int, p *cairn.Part) {
	if ev, ok := PartBegan(number, p); ok {
		say(ev)
	}
	text := p.Text
	if p.ToolUse != nil {
		text = string(p.ToolUse.Input)
	}
	if text != "" && p.Type != cairn.PartFile {
		say(Delta(number, p, text))
	}
	if ev, ok := PartEnded(number, p); ok {
		say(ev)
	}
}

// PartBegan says that a part of a reply begins. It reports false for parts whose first piece says so.
func PartBegan(number int, p *cairn.Part) (ev cairn.Event, ok bool) {
	if p.Type != cairn.PartToolUse {
		return ev, false
	}
	return cairn.Event{Type: cairn.EventToolArgStart, Step: number, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool}, true
}

// Delta says a piece of a part of a reply: of its text, or of the arguments of its tool use.
func Delta(number int, p *cairn.Part, text string) cairn.Event {
	ev := cairn.Event{Type: cairn.EventTextDelta, Step: number, Text: text}
	switch p.Type {
	case cairn.PartReasoning:
		ev.Type = cairn.EventThinking
	case cairn.PartToolUse:
		ev.Type, ev.CallID = cairn.EventToolArgDelta, p.ToolUse.CallID
	}
	return ev
}

// PartEnded says that a part of a reply is complete. It reports false for parts of which nothing says so.
func PartEnded(number int, p *cairn.Part) (ev cairn.Event, ok bool) {
	switch p.Type {
	case cairn.PartReasoning:
		return cairn.Event{Type: cairn.EventThinkingEnd, Step: number}, true
	case cairn.PartToolUse:
		return cairn.Event{Type: cairn.EventToolArgEnd, Step: number, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool, Data: p.ToolUse.Input}, true
	case cairn.PartText, cairn.PartProvider:
		return sources(number, p.Sources)
	}
	return ev, false
}

// Progress is how much of a call is on the log already.
type Progress int

const (
	Unpublished Progress = iota // nothing
	Begun                       // how it began
)

// Call says of a call that has its result what is not on the log already.
func Call(say func(cairn.Event), st *step.Step, c *step.Call, published Progress) {
	f := c.Result
	if published == Unpublished {
		if f.Began {
			say(CallBegan(st, c))
		}
		if f.Consulted != nil && !st.Carried {
			say(Consults(st, c, f.Consulted.Agent, f.Consulted.ChildID))
		}
	}
	if by := f.Consulted; by != nil && by.ChildID != "" {
		say(childEnded(st.Number, f.Result, cairn.ChildEnd{SessionID: by.ChildID, Agent: by.Agent, Status: by.Status}))
	}
	ev := result(st.Number, f.Result)
	ev.Cached, ev.Attempts = f.Hit, f.Attempts
	say(ev)
}

// CallBegan says that a call begins.
func CallBegan(st *step.Step, c *step.Call) cairn.Event {
	return cairn.Event{Type: cairn.EventToolStart, Step: st.Number, CallID: c.Use.CallID, Tool: c.Use.Tool, Data: c.Input(), Edited: c.Edited()}
}

// Consults says that a call consults another agent, in a session of its own.
func Consults(st *step.Step, c *step.Call, agent, childID string) cairn.Event {
	return cairn.Event{Type: cairn.EventSubagentStart, Step: st.Number, CallID: c.Use.CallID, Tool: c.Use.Tool, ChildID: childID, Name: agent, Data: c.Use.Input}
}

// childEnded says that the consultation of another agent has ended with a result of its call.
func childEnded(number int, r *cairn.ToolResult, by cairn.ChildEnd) cairn.Event {
	return cairn.Event{Type: cairn.EventSubagentEnd, Step: number, CallID: r.CallID, Tool: r.Tool,
		ChildID: by.SessionID, Name: by.Agent, Status: by.Status, IsError: r.IsError}
}

// result says that a call has ended with a result.
func result(number int, r *cairn.ToolResult) cairn.Event {
	ev := cairn.Event{Type: cairn.EventToolEnd, Step: number, CallID: r.CallID, Tool: r.Tool, Data: r.Output, IsError: r.IsError, Edited: r.Edited}
	if r.Private {
		ev.Data = json.RawMessage(define.PrivateError)
	}
	return ev
}
