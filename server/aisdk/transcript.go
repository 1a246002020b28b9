package aisdk

import "github.com/cairn-agents/cairn"

// Events returns the events of runs of a turn as its messages stand for them, for a log that no longer has them. What only
// the log had is missing: data that tools emitted, and what calls were asked before they had their results.
func Events(session string, runs []cairn.Run, messages []cairn.Message) []cairn.Event {
	var list []cairn.Event
	for n := range runs {
		add := func(ev cairn.Event) {
			ev.SessionID, ev.RunID = session, runs[n].ID
			list = append(list, ev)
		}
		if n == 0 {
			add(cairn.Event{Type: cairn.EventRunStart})
		} else {
			add(cairn.Event{Type: cairn.EventRunResumed})
		}
		steps := 0
		for i := range messages {
			if m := &messages[i]; m.RunID == runs[n].ID && m.Role != cairn.RoleUser {
				if m.Role == cairn.RoleAssistant {
					steps++
					add(cairn.Event{Type: cairn.EventStepStart, Step: steps})
				}
				parts(m, add)
			}
		}
		if steps > 0 {
			add(cairn.Event{Type: cairn.EventStepCommitted, Step: steps})
		}
		if len(runs[n].Output) > 0 {
			add(cairn.Event{Type: cairn.EventOutput, Data: runs[n].Output})
		}
	}
	return list
}

// parts adds the events that a message's parts stand for.
func parts(m *cairn.Message, add func(cairn.Event)) {
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			add(cairn.Event{Type: cairn.EventTextDelta, Text: p.Text})
		case cairn.PartReasoning:
			add(cairn.Event{Type: cairn.EventThinking, Text: p.Text})
			add(cairn.Event{Type: cairn.EventThinkingEnd})
		case cairn.PartToolUse:
			add(cairn.Event{Type: cairn.EventToolStart, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool, Data: p.ToolUse.Input})
		case cairn.PartToolResult:
			r := p.Result
			add(cairn.Event{Type: cairn.EventToolEnd, CallID: r.CallID, Tool: r.Tool, Data: r.Output, IsError: r.IsError})
		}
	}
}

// End returns the event that ends a run.
func End(run *cairn.Run) cairn.Event {
	usage := run.Usage
	return cairn.Event{Type: cairn.EventRunEnd, SessionID: run.SessionID, RunID: run.ID, Status: run.Status, Error: run.Error,
		Text: run.StopReason, Usage: &usage}
}
