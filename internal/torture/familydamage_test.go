package torture

import (
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// onByHand damages the checkpoint that was made between turns.
func onByHand(damage func(*cairn.Checkpoint)) func(*Tree) {
	return onRoot(func(h *History) {
		i := slices.IndexFunc(h.Checkpoints, func(c cairn.Checkpoint) bool { return c.StepID == c.ID })
		damage(&h.Checkpoints[i])
	})
}

// call returns the first call of a tool with the given status and decision, and its session.
func (t *Tree) call(tool string, status cairn.CallStatus, kind cairn.DecisionKind) (*History, *cairn.PendingCall) {
	for _, h := range t.Sessions {
		for i := range h.Calls {
			c := &h.Calls[i]
			if c.Tool == tool && c.Status == status && (c.Answer == nil && kind == "" || c.Answer != nil && c.Answer.Kind == kind) {
				return h, c
			}
		}
	}
	panic("no such call of " + tool)
}

// resultOf returns the result of a call, and the message that contains it.
func (h *History) resultOf(call string) (*cairn.Message, *cairn.ToolResult) {
	for i := range h.Messages {
		for _, r := range h.Messages[i].ToolResults() {
			if r.CallID == call {
				return &h.Messages[i], r
			}
		}
	}
	panic("no result of call " + call)
}

// onCall damages the first call of a tool with the given status and decision.
func onCall(tool string, status cairn.CallStatus, kind cairn.DecisionKind, damage func(*History, *cairn.PendingCall)) func(*Tree) {
	return func(t *Tree) { damage(t.call(tool, status, kind)) }
}

// onResult damages the result of such a call.
func onResult(tool string, status cairn.CallStatus, kind cairn.DecisionKind, damage func(*cairn.ToolResult)) func(*Tree) {
	return onCall(tool, status, kind, func(h *History, c *cairn.PendingCall) {
		_, r := h.resultOf(c.ID)
		damage(r)
	})
}

// onRoot damages the root.
func onRoot(damage func(*History)) func(*Tree) {
	return func(t *Tree) { damage(t.Sessions[0]) }
}

// of returns the first session of an agent.
func (t *Tree) of(agent string) *History {
	i := slices.IndexFunc(t.Sessions, func(h *History) bool { return h.Session.Agent == agent })
	return t.Sessions[i]
}

// queued returns the indexes of the records of turns that were queued and not dequeued.
func (h *History) queued() (list []int) {
	out := h.takenOut()
	for i := range h.Journal {
		if r := &h.Journal[i]; r.Kind == committed && r.Queued != "" && !r.Steer && out[r.Queued] == "" {
			list = append(list, i)
		}
	}
	return list
}

// steered returns the indexes of the messages that have joined a turn.
func (h *History) steered() (list []int) {
	for i := range h.Messages {
		if joined(&h.Messages[i]) {
			list = append(list, i)
		}
	}
	return list
}

// question returns the first question with a number.
func (h *History) question(number int) *cairn.PendingCall {
	i := slices.IndexFunc(h.Calls, func(c cairn.PendingCall) bool { return c.Kind == cairn.CallQuestion && c.Number == number })
	return &h.Calls[i]
}

// onQuestion damages the first question with a number.
func onQuestion(number int, damage func(*History, *cairn.PendingCall)) func(*Tree) {
	return func(t *Tree) { damage(t.Sessions[0], t.Sessions[0].question(number)) }
}

// late returns the index of the context row of a late answer.
func (h *History) late() int {
	return slices.IndexFunc(h.Messages, func(m cairn.Message) bool { return isLate(&m) })
}

// queueAgain puts a message of the transcript into the queue, as it is there while a run holds the session.
func (h *History) queueAgain(m cairn.Message) {
	h.Queue = append(h.Queue, driver.QueuedTurn{ID: m.ID, Messages: []cairn.Message{m}, Context: true})
	h.Session.Queued++
}

// withdrawal returns the index of the event of the first cancelled call.
func (h *History) withdrawal() int {
	i := slices.IndexFunc(h.Calls, func(c cairn.PendingCall) bool { return c.Status == cairn.CallDropped })
	return slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return ev.Type == cairn.EventToolEnd && ev.CallID == h.Calls[i].ID })
}

// waitEnd returns the index of the first event of a suspension.
func (h *History) waitEnd() int {
	return slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return ev.Type == cairn.EventRunEnd && ev.Status == cairn.RunSuspended })
}

// begun returns the event that began a child's session.
func (t *Tree) begun(child *History) *cairn.Event {
	i := slices.IndexFunc(t.Events, func(ev cairn.Event) bool {
		return ev.Type == cairn.EventSubagentStart && ev.ChildID == child.Session.ID
	})
	return &t.Events[i]
}

// suspended returns the suspension of the last run.
func (h *History) suspended() *cairn.Suspension { return h.Runs[len(h.Runs)-1].Suspended }

// familyDamages are ways to break each invariant about people and families.
var familyDamages = map[string]map[string]func(*Tree){
	"of any number of answers one is used, once": {
		"two were accepted": onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(h *History, c *cairn.PendingCall) {
			r := record{Kind: answered, Call: c.ID, Reviewer: "other", Decision: c.Answer.Kind, Value: c.Answer.Value, Outcome: cairn.OutcomeAccepted}
			h.Journal = append(h.Journal, r)
		}),
		"another one's":     onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(_ *History, c *cairn.PendingCall) { c.Answer.Reviewer = "other" }),
		"another decision":  onCall(toolPay, cairn.CallSettled, cairn.DecisionDenied, func(_ *History, c *cairn.PendingCall) { c.Answer.Kind = cairn.DecisionTimeout }),
		"another value":     onCall(toolPay, cairn.CallSettled, cairn.DecisionApproved, func(_ *History, c *cairn.PendingCall) { c.Answer.Value = nil }),
		"decided twice":     onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(_ *History, c *cairn.PendingCall) { c.Trail = append(c.Trail, c.Trail[0]) }),
		"a vote lost":       onCall(toolVote, cairn.CallSettled, cairn.DecisionApproved, func(_ *History, c *cairn.PendingCall) { c.Trail = c.Trail[1:] }),
		"voted twice":       onCall(toolVote, cairn.CallSettled, cairn.DecisionApproved, func(_ *History, c *cairn.PendingCall) { c.Trail = append(c.Trail, c.Trail[0]) }),
		"decided by nobody": onCall(toolAsk, cairn.CallSettled, cairn.DecisionError, func(_ *History, c *cairn.PendingCall) { c.Trail = nil }),
		"no answer":         onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(_ *History, c *cairn.PendingCall) { c.Answer = nil }),
		"lost by its call": onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(_ *History, c *cairn.PendingCall) {
			c.Status, c.Answer, c.Trail = cairn.CallDropped, nil, nil
		}),
		"a call lost": onRoot(func(h *History) { h.Calls = h.Calls[1:] }),
		"completed by nobody": onCall(toolPay, cairn.CallOpen, "", func(h *History, c *cairn.PendingCall) {
			h.Journal = append(h.Journal, record{Kind: answered, Call: c.ID, Outcome: cairn.OutcomeAlreadyCompleted})
		}),
		"not told": onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(h *History, c *cairn.PendingCall) {
			m, _ := h.resultOf(c.ID)
			m.Parts = slices.DeleteFunc(m.Parts, func(p cairn.Part) bool { return p.Result.CallID == c.ID })
		}),
		"told twice": onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(h *History, c *cairn.PendingCall) {
			m, _ := h.resultOf(c.ID)
			m.Parts = append(m.Parts, m.Parts...)
		}),
		"told otherwise":         onResult(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(r *cairn.ToolResult) { r.Output = json.RawMessage(`{"n":1}`) }),
		"told an error":          onResult(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(r *cairn.ToolResult) { r.IsError = true }),
		"no error told":          onResult(toolAsk, cairn.CallSettled, cairn.DecisionError, func(r *cairn.ToolResult) { r.Code = cairn.ErrDenied }),
		"denied and run":         onResult(toolPay, cairn.CallSettled, cairn.DecisionDenied, func(r *cairn.ToolResult) { r.Code = "" }),
		"too late and told":      onResult(toolAskSoon, cairn.CallSettled, cairn.DecisionTimeout, func(r *cairn.ToolResult) { r.Code = "" }),
		"run with other input":   onResult(toolPay, cairn.CallSettled, cairn.DecisionApproved, func(r *cairn.ToolResult) { r.Output = json.RawMessage(`{"n":7}`) }),
		"withdrawn and run":      onResult(toolPay, cairn.CallDropped, cairn.DecisionApproved, func(r *cairn.ToolResult) { r.Code = "" }),
		"told and still open":    onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(_ *History, c *cairn.PendingCall) { c.Status = cairn.CallAnswered }),
		"open with an answer":    onCall(toolPay, cairn.CallOpen, "", func(_ *History, c *cairn.PendingCall) { c.Answer = &cairn.CallAnswer{} }),
		"withdrawn and answered": onCall(toolPay, cairn.CallDropped, cairn.DecisionApproved, func(_ *History, c *cairn.PendingCall) { c.Answer.Kind = cairn.DecisionDenied }),
	},
	"no tool runs before it is approved": {
		"open": onCall(toolPay, cairn.CallOpen, "", func(h *History, c *cairn.PendingCall) {
			h.Journal = append(h.Journal, record{Kind: toolStarted, Call: c.ID})
		}),
		"denied": onCall(toolPay, cairn.CallSettled, cairn.DecisionDenied, func(h *History, c *cairn.PendingCall) {
			h.Journal = append(h.Journal, record{Kind: toolStarted, Call: c.ID})
		}),
		"in a child": onCall(toolPay, cairn.CallSettled, cairn.DecisionApproved, func(_ *History, c *cairn.PendingCall) { c.Answer.Kind = cairn.DecisionDenied }),
	},
	"late answers reach the model once": {
		"not told":   onRoot(func(h *History) { h.drop(h.late(), 1) }),
		"told twice": onRoot(func(h *History) { h.Messages = append(h.Messages, h.Messages[h.late()]) }),
		"of nobody":  onRoot(func(h *History) { h.Messages[h.late()].ID = "answer_other" }),
		"queued too": onRoot(func(h *History) { h.queueAgain(h.Messages[h.late()]) }),
		"lost": onCall(toolAsk, cairn.CallSettled, cairn.DecisionResult, func(h *History, c *cairn.PendingCall) {
			h.Journal = append(h.Journal, record{Kind: answered, Call: c.ID, Outcome: cairn.OutcomeLate})
		}),
		"two of a call": onCall(toolAskSoon, cairn.CallSettled, cairn.DecisionTimeout, func(_ *History, c *cairn.PendingCall) {
			c.Trail = append(c.Trail, c.Trail[len(c.Trail)-1])
		}),
	},
	"open calls are what the session is suspended for": {
		"one too few":      onRoot(func(h *History) { h.Session.OpenCalls-- }),
		"one too many":     onRoot(func(h *History) { h.suspended().Children = nil }),
		"another step":     onRoot(func(h *History) { h.Session.SuspendedStep = "other" }),
		"another run":      onRoot(func(h *History) { h.suspended().StepID = "other" }),
		"not paused":       onRoot(func(h *History) { h.Session.Status = cairn.SessionInterrupted }),
		"ended and paused": onRoot(func(h *History) { h.Runs[len(h.Runs)-1].Status = cairn.RunInterrupted }),
		"ended and counts": func(t *Tree) { t.of(mate).Session.OpenCalls = 1 },
		"another's step":   onCall(toolPay, cairn.CallOpen, "", func(_ *History, c *cairn.PendingCall) { c.StepID = "other" }),
		"a call of no use": onCall(toolPay, cairn.CallOpen, "", func(_ *History, c *cairn.PendingCall) { c.ID = "other" }),
		"a use of no call": onRoot(func(h *History) { h.Messages[h.answered()].Parts = nil }),
		"no deadline":      onCall(toolPay, cairn.CallOpen, "", func(_ *History, c *cairn.PendingCall) { c.Deadline = c.CreatedAt }),
		"too late": onCall(toolPay, cairn.CallOpen, "", func(h *History, c *cairn.PendingCall) {
			c.Deadline, h.Session.NextDeadline = c.CreatedAt, c.CreatedAt.Add(1)
		}),
	},
	"a question gets the answer of its number, in every pass": {
		"another answer": onQuestion(1, func(_ *History, c *cairn.PendingCall) { c.Answer.Value = json.RawMessage(`{"n":1}`) }),
		"of the other":   onQuestion(1, func(h *History, c *cairn.PendingCall) { h.question(2).Number, c.Number = 1, 2 }),
		"asked twice":    onQuestion(1, func(h *History, c *cairn.PendingCall) { h.Calls = append(h.Calls, *c) }),
		"one left out": onQuestion(1, func(h *History, c *cairn.PendingCall) {
			h.Calls = slices.DeleteFunc(h.Calls, func(o cairn.PendingCall) bool { return o.ID == c.ID })
		}),
		"the next one too soon": onQuestion(1, func(h *History, c *cairn.PendingCall) {
			c.Answer = nil
			h.forget(func(r record) bool { return r.Kind == learned })
		}),
		"an earlier pass was given another": onQuestion(1, func(h *History, c *cairn.PendingCall) { h.record(learned).Learned++ }),
		"an answer to none":                 onQuestion(1, func(h *History, c *cairn.PendingCall) { h.record(learned).Number = 3 }),
	},
	"queued turns are on the log": {
		"not there":         onRoot(func(h *History) { h.remove(h.event(cairn.EventQueued)) }),
		"twice":             onRoot(func(h *History) { at := h.event(cairn.EventQueued); h.insert(at, h.Events[at]) }),
		"for ever":          onRoot(func(h *History) { h.remove(h.event(cairn.EventDequeued)) }),
		"only in the store": onRoot(func(h *History) { h.Queue = append(h.Queue, driver.QueuedTurn{ID: "other"}) }),
	},
	"what the user said is on the log once, in its place": {
		"not there":     onRoot(func(h *History) { h.remove(h.event(cairn.EventUserMessage)) }),
		"twice":         onRoot(func(h *History) { at := h.event(cairn.EventUserMessage); h.insert(at, h.Events[at]) }),
		"another index": onRoot(func(h *History) { h.Events[h.event(cairn.EventUserMessage)].Index++ }),
		"only there":    onRoot(func(h *History) { h.Messages[0].ID = "other" }),
		"what joined a turn": onRoot(func(h *History) {
			id := h.Messages[h.steered()[0]].ID
			h.remove(slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return ev.MessageID == id && ev.Type == cairn.EventUserMessage }))
		}),
	},
	"children belong to a call of their parent": {
		"of nobody":       func(t *Tree) { t.begun(t.of(child)).ChildID = "other" },
		"of two calls":    func(t *Tree) { ev := *t.begun(t.of(child)); ev.CallID = "other"; t.Events = append(t.Events, ev) },
		"of another":      func(t *Tree) { t.begun(t.of(grandchild)).SessionID = t.Sessions[0].Session.ID },
		"another agent's": func(t *Tree) { t.begun(t.of(child)).Name = grandchild },
		"a lost parent":   func(t *Tree) { t.of(child).Session.ParentID = "other" },
		"another tree":    func(t *Tree) { t.of(mate).Session.RootID = "other" },
	},
	"no child waits for a parent that ended": {
		"its parent ended":  onRoot(func(h *History) { h.Session.Status = cairn.SessionInterrupted }),
		"for another child": onRoot(func(h *History) { h.suspended().Children[0].SessionID = "other" }),
		"still at work":     func(t *Tree) { t.of(grandchild).Session.Status = cairn.SessionActive },
	},
	"a sub-agent ends before the run that consulted it": {
		"after it": func(t *Tree) { // the root's last end comes before those of its child
			root, child := t.Sessions[0].Session.ID, t.of(grandchild).Session.ParentID
			at := slices.IndexFunc(t.Events, func(ev cairn.Event) bool {
				return ev.SessionID == child && ev.Type == cairn.EventRunEnd && ev.Status != cairn.RunSuspended
			})
			ends := slices.IndexFunc(t.Events[at:], func(ev cairn.Event) bool {
				return ev.SessionID == root && ev.Type == cairn.EventRunEnd && ev.Status != cairn.RunSuspended
			})
			end := t.Events[at+ends]
			t.Events = slices.Insert(slices.Delete(t.Events, at+ends, at+ends+1), at, end)
		},
		"never": func(t *Tree) {
			id := t.of(grandchild).Session.ID
			t.Events = slices.DeleteFunc(t.Events, func(ev cairn.Event) bool {
				return ev.SessionID == id && ev.Type == cairn.EventRunEnd && ev.Status != cairn.RunSuspended
			})
		},
	},
	"what a child came to is the result of its call": {
		"another text": func(t *Tree) { h := t.of(grandchild); h.Runs[len(h.Runs)-1].Output = json.RawMessage(`{"n":-1}`) },
		"another result": func(t *Tree) {
			t.session(t.of(grandchild).Session.ParentID).result(grandchild).Output = json.RawMessage(`"what"`)
		},
		"not at its end": func(t *Tree) { h := t.of(grandchild); h.Runs[len(h.Runs)-1].Status = cairn.RunInterrupted },
	},
	"a consultation that began ends before its call does": {
		"no end":       onRoot(func(h *History) { h.remove(h.event(cairn.EventSubagentEnd)) }),
		"two ends":     onRoot(func(h *History) { at := h.event(cairn.EventSubagentEnd); h.insert(at, h.Events[at]) }),
		"no beginning": onRoot(func(h *History) { h.remove(h.event(cairn.EventSubagentStart)) }),
		"begun twice":  onRoot(func(h *History) { at := h.event(cairn.EventSubagentStart); h.insert(at, h.Events[at]) }),
		"discarded": onRoot(func(h *History) {
			ev := h.Events[h.event(cairn.EventSubagentEnd)]
			h.insert(h.event(cairn.EventSubagentEnd)+1, cairn.Event{Type: cairn.EventStepDiscarded, RunID: ev.RunID, Step: ev.Step})
		}),
	},
	"queued turns run once, in order": {
		"one lost":        onRoot(func(h *History) { h.Queue, h.Session.Queued = nil, 0 }),
		"miscounted":      onRoot(func(h *History) { h.Session.Queued++ }),
		"begun and there": onRoot(func(h *History) { h.Queue[0].ID = h.Runs[len(h.Runs)-1].ID }),
		"twice":           onRoot(func(h *History) { h.Queue = append(h.Queue, h.Queue[0]); h.Session.Queued++ }),
		"another text":    onRoot(func(h *History) { h.Journal[h.queued()[0]].Text = "other" }),
		"another order": onRoot(func(h *History) {
			at := h.queued()
			h.Journal[at[0]].Version, h.Journal[at[1]].Version = h.Journal[at[1]].Version, h.Journal[at[0]].Version
		}),
		"left behind": onRoot(func(h *History) { h.Session.Status = cairn.SessionCompleted }),
		"joined and queued": onRoot(func(h *History) {
			id, _ := joins(&h.Messages[h.steered()[0]])
			h.Queue = append(h.Queue, driver.QueuedTurn{ID: id, Messages: h.Messages[:1]})
			h.Session.Queued++
		}),
		"joined unasked": onRoot(func(h *History) {
			for i := range h.Journal {
				h.Journal[i].Steer = false
			}
		}),
		"joined and lost": onRoot(func(h *History) { h.drop(h.steered()[0], 1) }),
		"joined in another order": onRoot(func(h *History) {
			at := h.steered()
			h.Messages[at[0]], h.Messages[at[1]] = h.Messages[at[1]], h.Messages[at[0]]
		}),
		"joined with another text": onRoot(func(h *History) { h.Messages[h.steered()[0]].Parts[0].Text = "other" }),
		"taken out and run":        onRoot(func(h *History) { h.record(dequeued).Queued = h.Runs[len(h.Runs)-1].ID }),
		"not taken out and lost": onRoot(func(h *History) {
			h.record(dequeued).Kind = notQueued
		}),
	},
	"a sub-agent is consulted once": {
		"another turn": func(t *Tree) {
			h := t.of(child)
			h.Runs = append(h.Runs, cairn.Run{ID: "another", Status: cairn.RunCompleted})
		},
		"it had completed": func(t *Tree) {
			h := t.of(child)
			h.Runs = append(h.Runs, cairn.Run{Status: cairn.RunCompleted}, cairn.Run{ID: "another", Kind: cairn.RunResume})
		},
	},
	"a stop that returned has ended the run": {
		"it waits": onRoot(func(h *History) {
			h.Journal = append(h.Journal, record{Kind: stopHeld, Session: h.Session.ID, Ended: h.Session.RunID})
		}),
		"what resumed it runs": onRoot(func(h *History) {
			i := slices.IndexFunc(h.Runs, func(r cairn.Run) bool { return r.Kind == cairn.RunResume && r.Status == cairn.RunCompleted })
			h.Runs[i].Status = cairn.RunRunning
			h.Journal = append(h.Journal, record{Kind: stopHeld, Session: h.Session.ID, Ended: h.Runs[i].PreviousRunID})
		}),
		"another session's": onRoot(func(h *History) {
			h.Journal = append(h.Journal, record{Kind: stopHeld, Session: h.Session.ID, Ended: "another"})
		}),
	},
	"no session stuck": {
		"active":              onRoot(func(h *History) { h.Session.Status = cairn.SessionActive }),
		"a child active":      func(t *Tree) { t.of(mate).Session.Status = cairn.SessionActive },
		"paused after all":    func(t *Tree) { t.Answered = true },
		"everything answered": func(t *Tree) { _, c := t.call(toolAsk, cairn.CallOpen, ""); c.Status = cairn.CallAnswered },
		"for a child that ended": func(t *Tree) {
			_, c := t.call(toolPay, cairn.CallOpen, "")
			c.Status = cairn.CallAnswered
			t.session(t.Sessions[0].suspended().Children[0].SessionID).Session.Status = cairn.SessionCompleted
		},
	},
	"every tool use has one result before the next reply": {
		"nobody waits": onRoot(func(h *History) { h.Session.SuspendedStep = "" }),
		"another speaks in between": onRoot(func(h *History) {
			at := h.answered()
			h.Messages = slices.Insert(h.Messages, at, cairn.Message{ID: "other", Role: cairn.RoleUser})
		}),
	},
	"the transcript is what the model says": {
		"no reply to go on with":   onRoot(func(h *History) { h.Runs[0].Status = cairn.RunCompleted }),
		"a step that is not there": onRoot(func(h *History) { h.Runs[1].Steps++ }),
		"a row too many": onRoot(func(h *History) {
			i := slices.IndexFunc(h.Messages, func(m cairn.Message) bool { return m.Hidden && !isLate(&m) })
			m := h.Messages[i]
			m.ID += "2"
			h.Messages = slices.Insert(h.Messages, i+1, m)
		}),
	},
	"replay equals live": {
		"a withdrawal not told":   onRoot(func(h *History) { h.remove(h.withdrawal()) }),
		"a withdrawal told twice": onRoot(func(h *History) { at := h.withdrawal(); h.insert(at, h.Events[at]) }),
		"another withdrawn":       onRoot(func(h *History) { h.Events[h.withdrawal()].CallID = "other" }),
	},
	"one mark per end": {
		"a wait not told":   onRoot(func(h *History) { h.remove(h.waitEnd()) }),
		"a wait told twice": onRoot(func(h *History) { at := h.waitEnd(); h.insert(at, h.Events[at]) }),
		"a wait of the ended": onRoot(func(h *History) {
			ev := h.Events[h.waitEnd()]
			ev.RunID = h.Runs[1].ID
			h.insert(len(h.Events), ev)
		}),
		"ended and waits": onRoot(func(h *History) {
			ev := h.Events[h.waitEnd()]
			ev.Status = cairn.RunInterrupted
			h.insert(len(h.Events), ev)
		}),
	},
	"events contiguous": {
		"of another tree":  func(t *Tree) { t.Events[3].SessionID = "other" },
		"of another's run": func(t *Tree) { t.Events[3].SessionID = t.of(mate).Session.ID },
		"a child ahead":    func(t *Tree) { t.of(mate).Session.LogSequence = int64(len(t.Events)) + 1 },
	},
	"the state is the fold of the results": {
		"a pass that asked": onRoot(func(h *History) {
			call := h.question(1).ToolCallID
			h.ledger(func(l *ledger) { l.Entries = append(l.Entries, entry{call, 7}) })
		}),
	},
	"checkpoints in order": {
		"by hand, too short": onByHand(func(c *cairn.Checkpoint) { c.MessageCount = 1 }),
		"by hand, too long":  onByHand(func(c *cairn.Checkpoint) { c.MessageCount = 1000 }),
		"by hand, twice":     onByHand(func(c *cairn.Checkpoint) { c.Number++ }),
	},
	"usage adds up": {
		"of a run that went on": onRoot(func(h *History) { h.Runs[1].Usage.ModelCalls++; h.Session.Usage.ModelCalls++ }),
	},
}
