package aisdk

import "github.com/cairn-agents/cairn"

// Events rebuilds the events of a turn's runs from its messages, for a log that was trimmed. messages are the
// transcript from index first on. What only the log had is missing: data that tools emitted, and what calls asked
// before they had results.
func Events(session string, runs []cairn.Run, first int, messages []cairn.Message) []cairn.Event {
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
			m := messages[i].Public()
			if m.RunID != runs[n].ID || m.Hidden {
				continue
			}
			switch m.Role {
			case cairn.RoleUser:
				add(joined(first+i, &m))
				continue
			case cairn.RoleAssistant:
				steps++
				add(cairn.Event{Type: cairn.EventStepStart, Step: steps})
			}
			parts(&m, add)
			if m.Role == cairn.RoleAssistant {
				add(cairn.Event{Type: cairn.EventFiles, Index: first + i, MessageID: m.ID, Files: filesOf(&m)})
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

// joined returns the event of a user's message.
func joined(index int, m *cairn.Message) cairn.Event {
	return cairn.Event{Type: cairn.EventUserMessage, Index: index, MessageID: m.ID, Text: m.Text(), Files: filesOf(m)}
}

// filesOf describes the files of a message.
func filesOf(m *cairn.Message) (list []cairn.FileRef) {
	for i := range m.Parts {
		if f := m.Parts[i].File; f != nil {
			list = append(list, cairn.FileRef{Part: i, Name: f.Name, MediaType: f.MediaType, Size: len(f.Data), URL: f.URL})
		}
	}
	return list
}

// parts adds the events that the parts of a message stand for.
func parts(m *cairn.Message, add func(cairn.Event)) {
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			add(cairn.Event{Type: cairn.EventTextDelta, Text: p.Text})
			add(cairn.Event{Type: cairn.EventSources, Sources: p.Sources})
		case cairn.PartProvider:
			add(cairn.Event{Type: cairn.EventSources, Sources: p.Sources})
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
	return cairn.Event{Type: cairn.EventRunEnd, SessionID: run.SessionID, RunID: run.ID, Status: run.Status, Reason: run.Reason, Error: run.Error,
		Text: run.StopReason, Usage: &usage}
}
