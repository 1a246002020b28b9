package effects

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// retell puts a step that was staged on the log again, whole: what its dead process said of it has been taken back,
// because nobody knows how much of that there is.
func (l *live) retell() {
	st := l.step
	say := func(ev cairn.Event) {
		ev.Step = st.Number
		l.emit.event(ev)
	}
	say(cairn.Event{Type: cairn.EventStepStart})
	var parts []cairn.Part
	if m := st.Message(); m != nil && !st.Carried { // else it was stopped before it said anything, or the run that suspended has told it
		parts = m.Parts
	}
	for i := range parts {
		switch p := &parts[i]; p.Type {
		case cairn.PartText:
			say(cairn.Event{Type: cairn.EventTextDelta, Text: p.Text})
		case cairn.PartReasoning:
			say(cairn.Event{Type: cairn.EventThinking, Text: p.Text})
			say(cairn.Event{Type: cairn.EventThinkingEnd})
		case cairn.PartToolUse:
			say(cairn.Event{Type: cairn.EventToolArgStart, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool})
			say(cairn.Event{Type: cairn.EventToolArgDelta, CallID: p.ToolUse.CallID, Text: string(p.ToolUse.Input)})
			say(cairn.Event{Type: cairn.EventToolArgEnd, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool, Data: p.ToolUse.Input})
		}
	}
	for _, c := range st.Calls {
		if c.Result == nil {
			continue
		}
		if f := c.Result.Consulted; f != nil && !st.Carried {
			say(consultEvent(st, c, &step.Started{CallID: c.Use.CallID, Agent: f.Agent, ChildID: f.ChildID}))
		}
		if c.Result.Began {
			say(startEvent(st, c))
		}
		l.tellResult(c)
	}
}

// startEvent says that a call's tool is called.
func startEvent(st *step.Step, c *step.Call) cairn.Event {
	return cairn.Event{Type: cairn.EventToolStart, Step: st.Number, CallID: c.Use.CallID, Tool: c.Use.Tool, Data: c.Input()}
}

// consultEvent says that a call consults another agent.
func consultEvent(st *step.Step, c *step.Call, f *step.Started) cairn.Event {
	return cairn.Event{Type: cairn.EventSubagentStart, Step: st.Number, CallID: c.Use.CallID, Tool: c.Use.Tool, ChildID: f.ChildID, Name: f.Agent, Data: c.Use.Input}
}

// tellResult says what a call came to.
func (l *live) tellResult(c *step.Call) {
	if f := c.Result.Consulted; f != nil {
		l.emit.event(cairn.Event{Type: cairn.EventSubagentEnd, Step: l.step.Number, CallID: c.Use.CallID, Tool: c.Use.Tool,
			ChildID: f.ChildID, Name: f.Agent, Status: f.Status, IsError: c.Result.Result.IsError})
	}
	l.emit.event(endEvent(l.step, c))
}

// endEvent says that a call has ended.
func endEvent(st *step.Step, c *step.Call) cairn.Event {
	ev := toolEnd(st.Number, c.Result.Result)
	ev.Cached = c.Result.Hit
	return ev
}

// toolEnd says that a call has ended with a result.
func toolEnd(step int, r *cairn.ToolResult) cairn.Event {
	ev := cairn.Event{Type: cairn.EventToolEnd, Step: step, CallID: r.CallID, Tool: r.Tool, Data: r.Output, IsError: r.IsError}
	if r.Private {
		ev.Data = json.RawMessage(cairn.PrivateError)
	}
	return ev
}
