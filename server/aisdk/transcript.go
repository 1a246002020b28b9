package aisdk

import "github.com/cairn-agents/cairn"

// Events rebuilds the events of a turn's runs from its messages, for a log that was trimmed. messages are the
// transcript from index first on, decided the calls of the session that reviewers decided. Data that only the log had
// is missing: values that code other than tools emitted, and the questions of calls that have results.
func Events(session string, runs []cairn.Run, first int, messages []cairn.Message, decided []cairn.PendingCall) []cairn.Event {
	var list []cairn.Event
	approvals := map[string]*cairn.PendingCall{}
	for i := range decided {
		approvals[decided[i].ID] = &decided[i]
	}
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
		steps, said := 0, ""
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
				said = m.Text()
				add(cairn.Event{Type: cairn.EventStepStart, Step: steps})
			}
			parts(&m, approvals, add)
			if m.Role == cairn.RoleTool {
				add(cairn.Event{Type: cairn.EventArtifact, Index: first + i, MessageID: m.ID, Files: artifactsOf(&m)})
			}
			if m.Role == cairn.RoleAssistant {
				add(cairn.Event{Type: cairn.EventFiles, Index: first + i, MessageID: m.ID, Files: filesOf(&m)})
			}
		}
		if text := unfinished(&runs[n], said); text != "" && n == len(runs)-1 {
			steps++
			add(cairn.Event{Type: cairn.EventStepStart, Step: steps})
			add(cairn.Event{Type: cairn.EventTextDelta, Step: steps, Text: text})
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

// unfinished returns the words of the model call that failed a run, which the transcript does not have. said is the
// text of the run's last reply.
func unfinished(run *cairn.Run, said string) string {
	if run.Status != cairn.RunFailed || run.Text == said {
		return ""
	}
	return run.Text
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

// artifactsOf describes the artifacts of results.
func artifactsOf(m *cairn.Message) (list []cairn.FileRef) {
	for _, a := range m.Artifacts(0) {
		list = append(list, cairn.FileRef{Name: a.Name, MediaType: a.MediaType, Size: int(a.Size)})
	}
	return list
}

// parts adds the events that the parts of a message stand for.
func parts(m *cairn.Message, approvals map[string]*cairn.PendingCall, add func(cairn.Event)) {
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
			if c := approvals[r.CallID]; c != nil {
				add(cairn.Event{Type: cairn.EventToolApproval, CallID: r.CallID, Tool: r.Tool, ApprovalID: c.ApprovalID, Data: c.Input,
					Prompt: c.Prompt, Payload: c.Payload})
				if c.Answer.Kind == cairn.DecisionApproved {
					input := c.Input
					if len(r.Edited) > 0 {
						input = r.Edited
					}
					add(cairn.Event{Type: cairn.EventToolStart, CallID: r.CallID, Tool: r.Tool, Data: input, Edited: r.Edited})
				}
			}
			for _, d := range r.Data {
				add(cairn.Event{Type: cairn.EventCustom, Name: d.Name, DataID: d.ID, Data: d.Value})
			}
			add(cairn.Event{Type: cairn.EventToolEnd, CallID: r.CallID, Tool: r.Tool, Data: r.Output, IsError: r.IsError, Code: r.Code, Edited: r.Edited})
		}
	}
}

// End returns the event that ends a run.
func End(run *cairn.Run) cairn.Event {
	usage := run.Usage
	return cairn.Event{Type: cairn.EventRunEnd, SessionID: run.SessionID, RunID: run.ID, Status: run.Status, Reason: run.Reason, Error: run.Error,
		Text: run.StopReason, Usage: &usage}
}
