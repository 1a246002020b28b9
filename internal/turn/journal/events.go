// Package journal has the events of runs. They follow from facts: the facts of a step, and what a commit writes. The
// functions of events.go are the only place that turns facts into events. The driver of a run calls them as things
// happen, a process that takes over a step calls them for the whole step, and a commit has what they return for it, see
// [Log.Marks]. So the log of a run is the same whichever processes drive it.
//
// The rest of the package writes the live events of a step: it cuts them to size, batches them for a short time, and
// appends them in order and exactly once. An [Emitter] hands those that it still holds back to the step's commit. The
// package reads and writes the log and nothing else: no store, no agent, no user code.
package journal

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// Begin returns the events of a run's begin: which run it continues, if it has a previous one, and which messages it
// began with. count is the session's message count including them.
func Begin(run *cairn.Run, count int, messages []cairn.Message) []cairn.Event {
	ev := cairn.Event{Type: cairn.EventRunStart, Name: run.PreviousRunID, MessageCount: count}
	if run.PreviousRunID != "" {
		ev.Type = cairn.EventRunResumed
	}
	if run.TraceParent != "" {
		ev.Data = fastjson.Text(nil, run.TraceParent)
	}
	return append(append(make([]cairn.Event, 0, 1+len(messages)), ev), Added(run.FirstMessage, messages)...)
}

// End returns the events of a run's end.
func End(run *cairn.Run) []cairn.Event {
	list := make([]cairn.Event, 0, 3)
	if run.Error != nil {
		list = append(list, cairn.Event{Type: cairn.EventError, Step: run.Steps, Error: run.Error})
	}
	if len(run.Output) > 0 {
		list = append(list, cairn.Event{Type: cairn.EventOutput, Step: run.Steps, Data: run.Output})
	}
	usage := run.Usage
	return append(list, cairn.Event{Type: cairn.EventRunEnd, Step: run.Steps, Status: run.Status, Reason: run.Reason, Name: run.StoppedBy, Text: run.StopReason,
		Error: run.Error, Usage: &usage})
}

// StepStart returns the event that starts an attempt at a step.
func StepStart(number int) cairn.Event {
	return cairn.Event{Type: cairn.EventStepStart, Step: number}
}

// StepDiscarded returns the event that marks what attempts at a step and at later ones published as void.
func StepDiscarded(number int, why *cairn.Error) cairn.Event {
	return cairn.Event{Type: cairn.EventStepDiscarded, Step: number, Error: why}
}

// StepRetry returns the event of a failed call of a step's model, of which failed have failed, and of its retry.
func StepRetry(number, failed int, why *cairn.Error, until time.Time) cairn.Event {
	return cairn.Event{Type: cairn.EventStepRetry, Step: number, Attempts: failed, Error: why, Until: until}
}

// StepCommitted returns the event of a step's commit. messages is the session's message count after it.
func StepCommitted(number, messages int) cairn.Event {
	return cairn.Event{Type: cairn.EventStepCommitted, Step: number, MessageCount: messages}
}

// Checkpoint returns the event of a checkpoint that a step's commit made.
func Checkpoint(number int, id string, messages int) cairn.Event {
	return cairn.Event{Type: cairn.EventCheckpoint, Step: number, CheckpointID: id, MessageCount: messages}
}

// Usage returns the event of the usage of a step, which has the model calls among its entries.
func Usage(number int, usage *cairn.Usage, entries []cairn.UsageEntry) cairn.Event {
	ev := cairn.Event{Type: cairn.EventUsage, Step: number, Usage: usage}
	calls := 0
	for i := range entries {
		if entries[i].Kind == cairn.UsageModel {
			calls++
		}
	}
	if calls == 0 {
		return ev
	}
	data := make([]byte, 0, 64)
	for i := range entries {
		e := &entries[i]
		if e.Kind != cairn.UsageModel {
			continue
		}
		data = fastjson.Text(append(data, `,{"name":`...), e.Name)
		took, _ := e.Duration.MarshalJSON() // never fails
		data = append(append(data, `,"duration":`...), took...)
		if calls > 1 { // the usage of a single one is the event's
			used, _ := json.Marshal(&e.Usage) // finite numbers
			data = append(append(data, `,"usage":`...), used...)
		}
		data = append(data, '}')
	}
	data[0] = '['
	ev.Data = append(data, ']')
	return ev
}

// Pending returns the events that ask for answers to pending calls that can be answered now.
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

// BudgetWarning returns the event of a budget of which the share for a warning is used.
func BudgetWarning(number int, r *cairn.BudgetReport) cairn.Event {
	data, _ := json.Marshal(r) // finite numbers
	return cairn.Event{Type: cairn.EventBudgetWarning, Step: number, Data: data, Text: budget.Words(r)}
}

// Results returns the events of calls that ended with the results in messages.
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

// Step publishes everything about a step under way, from its start.
func Step(say func(cairn.Event), st *step.Step) {
	say(StepStart(st.Number))
	// No message: the step was stopped before the model said anything. Carried: the run that was suspended has
	// published it.
	if m := st.Message(); m != nil && !st.Carried {
		if m.Model != "" {
			say(Fallback(st.Number, m.Model, st.Reply.Requested))
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
			Call(say, st, c, NotBegun)
		}
	}
}

// Fallback returns the event of a reply by a model other than the requested one.
func Fallback(number int, model, requested string) cairn.Event {
	return cairn.Event{Type: cairn.EventModelFallback, Step: number, Name: model, Text: requested}
}

// ToolsMissing returns the event of a turn that runs without the tools of a toolset. It belongs to no step: what it says
// stays so when the step is repeated.
func ToolsMissing(toolset string, err error) cairn.Event {
	var e *cairn.Error
	if !errors.As(err, &e) {
		e = cairn.Errorf(cairn.ErrUnavailable, "%w", err)
	}
	return cairn.Event{Type: cairn.EventToolsMissing, Name: toolset, Error: e.Public()}
}

// Part publishes a whole part of a reply.
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

// PartBegan returns the event that starts a part of a reply. It reports false for parts whose first delta implies it.
func PartBegan(number int, p *cairn.Part) (ev cairn.Event, ok bool) {
	if p.Type != cairn.PartToolUse {
		return ev, false
	}
	return cairn.Event{Type: cairn.EventToolArgStart, Step: number, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool}, true
}

// Delta returns the event of a piece of a part: of its text, or of the arguments of its tool use.
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

// PartEnded returns the event that completes a part of a reply. It reports false for parts that have no such event.
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

// Progress is how much of a call is already on the log.
type Progress int

const (
	NotBegun Progress = iota // nothing
	Begun                    // its start
)

// Call publishes what is not yet on the log of a call that has its result.
func Call(say func(cairn.Event), st *step.Step, c *step.Call, published Progress) {
	f := c.Result
	if published == NotBegun {
		if f.Began {
			say(CallBegan(st, c))
		}
		if f.Effect != nil && !st.Carried {
			say(EffectSent(st.Number, f.Effect))
		}
		if f.Consulted != nil && !st.Carried {
			say(Consults(st, c, f.Consulted.Agent, f.Consulted.ChildID))
		}
	}
	if by := f.Consulted; by != nil && by.ChildID != "" {
		say(childEnded(st.Number, f.Result, cairn.ChildEnd{SessionID: by.ChildID, Agent: by.Agent, Status: by.Status}))
	}
	if f.Effect != nil {
		say(EffectEnded(st.Number, f.Effect))
	}
	ev := result(st.Number, f.Result)
	ev.Cached, ev.Attempts = f.Hit, f.Attempts
	say(ev)
}

// EffectSent returns the event of the start of an attempt at an effectful call, whose row is in the ledger.
func EffectSent(number int, row *cairn.PendingCall) cairn.Event {
	return cairn.Event{Type: cairn.EventEffectSent, Step: number, CallID: row.ToolCallID, Tool: row.Tool, Attempts: row.Effect.Attempts}
}

// EffectUnknown returns the event of an attempt at an effectful call that ended without an outcome.
func EffectUnknown(number int, row *cairn.PendingCall, why string) cairn.Event {
	return cairn.Event{Type: cairn.EventEffectUnknown, Step: number, CallID: row.ToolCallID, Tool: row.Tool, Attempts: row.Effect.Attempts, Text: why}
}

// EffectEnded returns the event of the outcome of an effectful call.
func EffectEnded(number int, row *cairn.PendingCall) cairn.Event {
	if row.Effect.State == cairn.EffectUnknown {
		return EffectUnknown(number, row, inbox.WhyDropped(row))
	}
	return cairn.Event{Type: cairn.EventEffectSettled, Step: number, CallID: row.ToolCallID, Tool: row.Tool, Attempts: row.Effect.Attempts, Name: string(row.Effect.State)}
}

// CallBegan returns the event of a call's start.
func CallBegan(st *step.Step, c *step.Call) cairn.Event {
	return cairn.Event{Type: cairn.EventToolStart, Step: st.Number, CallID: c.Use.CallID, Tool: c.Use.Tool, Data: c.Input(), Edited: c.Edited()}
}

// Consults returns the event of a call that consults another agent, in a session of its own.
func Consults(st *step.Step, c *step.Call, agent, childID string) cairn.Event {
	return cairn.Event{Type: cairn.EventSubagentStart, Step: st.Number, CallID: c.Use.CallID, Tool: c.Use.Tool, ChildID: childID, Name: agent, Data: c.Use.Input}
}

// childEnded returns the event of a consultation that ended with a result of its call.
func childEnded(number int, r *cairn.ToolResult, by cairn.ChildEnd) cairn.Event {
	return cairn.Event{Type: cairn.EventSubagentEnd, Step: number, CallID: r.CallID, Tool: r.Tool,
		ChildID: by.SessionID, Name: by.Agent, Status: by.Status, IsError: r.IsError}
}

// result returns the event of a call that ended with a result.
func result(number int, r *cairn.ToolResult) cairn.Event {
	ev := cairn.Event{Type: cairn.EventToolEnd, Step: number, CallID: r.CallID, Tool: r.Tool, Data: r.Output, IsError: r.IsError, Code: r.Code, Edited: r.Edited}
	if r.Private {
		ev.Data = json.RawMessage(define.PrivateError)
	}
	return ev
}
