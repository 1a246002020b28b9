package torture

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// damages are ways to break each invariant, by its name and by what is done to a sound history.
var damages = map[string]map[string]func(*History){
	"no committed step lost": {
		"a checkpoint":   func(h *History) { h.Checkpoints = h.Checkpoints[1:] },
		"the last step":  func(h *History) { h.Session.Version-- },
		"some messages":  func(h *History) { h.Session.MessageCount-- },
		"a run":          func(h *History) { h.Runs = h.Runs[:len(h.Runs)-1] },
		"a run's end":    func(h *History) { h.Runs[0].Status = cairn.RunRunning },
		"a reply":        func(h *History) { h.drop(h.answered()-1, 1) },
		"another length": func(h *History) { h.Checkpoints[0].MessageCount++ },
	},
	"one writer at a time": {
		"one version twice": func(h *History) {
			r := *h.record(committed)
			r.Process, r.Step = "other", "another step"
			h.Journal = append(h.Journal, r)
		},
		"one step twice by one process": func(h *History) {
			h.Journal = append(h.Journal, *h.record(committed))
		},
		"one step under two leases": func(h *History) {
			r := *h.record(committed)
			r.Process, r.Token = "other", r.Token+1
			h.Journal = append(h.Journal, r)
		},
		"under an old lease": func(h *History) {
			h.Journal = append(h.Journal, record{Kind: committed, Version: h.Session.Version + 1, Token: 1})
		},
		"under a lease not taken": func(h *History) {
			h.Journal = append(h.Journal, record{Kind: committed, Saw: h.Session.Version, Version: h.Session.Version + 1, Token: h.Session.Lease.Token + 1})
		},
		"a lease taken twice": func(h *History) {
			h.Journal = append(h.Journal, record{Kind: committed, Version: h.Session.Version + 1, Token: h.Session.Lease.Token, Took: true})
		},
	},
	"no committed step run again": {
		"the model": func(h *History) { h.again(modelCalled) },
		"a tool":    func(h *History) { h.again(toolStarted) },
	},
	"per tool, all is staged before it is committed": {
		"a reply":  func(h *History) { h.forget(func(r record) bool { return r.Kind == staged && len(r.Digests) > 0 }) },
		"a result": func(h *History) { h.forget(func(r record) bool { return r.Kind == staged && r.Call != "" }) },
	},
	"no staged result computed again": {
		"the model":   func(h *History) { h.again(modelCalled) },
		"a tool":      func(h *History) { h.again(toolStarted) },
		"another key": func(h *History) { h.again(toolStarted).Key = "other" },
	},
	"no effect twice, unless it was unknown and a person or a probe chose it; none confirmed that did not happen": {
		"sent without a row":         func(h *History) { h.arrive("k") },
		"sent in one attempt, twice": func(h *History) { h.effect("k", cairn.EffectConfirmed, 1); h.arrive("k"); h.arrive("k") },
		"sent again by nobody's choice": func(h *History) {
			h.effect("k", cairn.EffectConfirmed, 2)
			h.arrive("k")
			h.arrive("k")
		},
		"confirmed and never sent": func(h *History) { h.effect("k", cairn.EffectConfirmed, 1) },
		"unknown, but told":        func(h *History) { h.effect("k", cairn.EffectUnknown, 1).ToolCallID = h.addition() },
		"failed, but told as done": func(h *History) { h.effect("k", cairn.EffectFailed, 1).ToolCallID = h.addition() },
		"not described":            func(h *History) { h.effect("k", cairn.EffectConfirmed, 1).RunID = h.Runs[0].ID; h.arrive("k") },
		"described, and never sent": func(h *History) {
			m := cairn.Context("The previous run ended during a call.")
			m.ID, m.RunID = "left_1", h.Runs[0].ID
			h.Messages = append(h.Messages, m)
			h.Session.MessageCount++
		},
		"not one of the ledger": func(h *History) { h.effect("k", cairn.EffectFailed, 1).Effect = nil },
	},
	"no message twice": {
		"the same message": func(h *History) { h.Messages = append(h.Messages, h.Messages[0]); h.Session.MessageCount++ },
		"the same reply": func(h *History) {
			m := h.Messages[h.answered()-1]
			m.ID = "another"
			h.Messages = append(h.Messages, m)
			h.Session.MessageCount++
		},
		"no id":         func(h *History) { h.Messages[2].ID = "" },
		"another count": func(h *History) { h.Session.MessageCount++ },
	},
	"every tool use has one result before the next reply": {
		"no results":      func(h *History) { h.drop(h.answered(), 1) },
		"a result less":   func(h *History) { m := &h.Messages[h.answered()]; m.Parts = m.Parts[1:] },
		"a result twice":  func(h *History) { m := &h.Messages[h.answered()]; m.Parts = append(m.Parts, m.Parts[0]) },
		"another's":       func(h *History) { h.Messages[h.answered()].Parts[0].Result.CallID = "other" },
		"no use":          func(h *History) { h.drop(h.answered()-1, 1) },
		"a use once more": func(h *History) { at := h.answered() - 1; h.Messages = append(h.Messages, h.Messages[at:at+2]...) },
	},
	"the transcript is what the model says": {
		"another text":       func(h *History) { h.Messages[1].Parts[0].Text += " and more" },
		"another input":      func(h *History) { h.Messages[0].Parts[0].Text = "something else" },
		"other arguments":    func(h *History) { h.Messages[h.answered()-1].ToolUses()[0].Input = json.RawMessage(`{"n":1000}`) },
		"a step less":        func(h *History) { h.drop(h.answered()-1, 2) },
		"no input":           func(h *History) { h.drop(0, 1) },
		"a run of strangers": func(h *History) { h.Messages[len(h.Messages)-1].RunID = "other" },
		"too few steps":      func(h *History) { h.Runs[0].Steps++ },
		"ended too early":    func(h *History) { h.Runs[0].Status = cairn.RunInterrupted },
		"another beginning":  func(h *History) { h.Runs[1].FirstMessage++ },
		"no context row": func(h *History) {
			h.drop(slices.IndexFunc(h.Messages, func(m cairn.Message) bool { return m.Hidden }), 1)
		},
		"another context row": func(h *History) {
			i := slices.IndexFunc(h.Messages, func(m cairn.Message) bool { return m.Hidden })
			h.Messages[i].Parts[0].Text = "noted something else"
		},
	},
	"a committed call has one row, any other none": {
		"a row lost":                 func(h *History) { h.balance(); h.Books = h.Books[1:] },
		"a row twice":                func(h *History) { h.balance(); h.Books = append(h.Books, h.Books[0]) },
		"a row of no committed call": func(h *History) { h.balance(); h.Books = append(h.Books, entry{"another", 2}) },
		"another number":             func(h *History) { h.balance(); h.Books[0].N++ },
	},
	"the state is the fold of the results": {
		"an entry lost":     func(h *History) { h.ledger(func(l *ledger) { l.Entries = l.Entries[1:] }) },
		"an entry twice":    func(h *History) { h.ledger(func(l *ledger) { l.Entries = append(l.Entries, l.Entries[0]) }) },
		"an older total":    func(h *History) { h.ledger(func(l *ledger) { l.Total-- }) },
		"another writer":    func(h *History) { h.ledger(func(l *ledger) { l.Last = l.Entries[0].Call }) },
		"a result":          func(h *History) { h.result(toolAdd).Output = json.RawMessage(`{"n":1,"total":-5}`) },
		"a tool failed":     func(h *History) { h.result(toolAdd).IsError = true },
		"a checkpoint's":    func(h *History) { h.Sample = json.RawMessage(`{"entries":[]}`) },
		"a failure went on": func(h *History) { h.result(toolFail).IsError = false },
	},
	"run turns contiguous": {
		"a turn missing":    func(h *History) { h.Runs = slices.Delete(h.Runs, 1, 2); h.Session.Turn-- },
		"a run missing":     func(h *History) { h.Runs = h.Runs[:len(h.Runs)-1] },
		"an early one runs": func(h *History) { h.Runs[0].Status = cairn.RunRunning },
		"a late one runs":   func(h *History) { h.Runs[len(h.Runs)-1].Status = cairn.RunRunning },
		"another is last":   func(h *History) { h.Session.RunID = h.Runs[0].ID },
		"active and ended":  func(h *History) { h.Session.Status = cairn.SessionActive },
		"one failed":        func(h *History) { h.Runs[0].Status = cairn.RunFailed },
		"one was given up":  func(h *History) { h.Runs[0].Status, h.Runs[0].Reason = cairn.RunInterrupted, cairn.ReasonCrashed },
		"one was stopped":   func(h *History) { h.Runs[0].Status, h.Runs[0].Reason = cairn.RunInterrupted, cairn.ReasonInterrupted },
		"no end":            func(h *History) { h.Runs[0].EndedAt = time.Time{} },
	},
	"usage adds up": {
		"of a run":       func(h *History) { h.Runs[0].Usage.ModelCalls++ },
		"of tools":       func(h *History) { h.Runs[0].Usage.ToolErrors++ },
		"of the session": func(h *History) { h.Session.Usage.ToolCalls++ },
	},
	"checkpoints in order": {
		"one missing":      func(h *History) { h.Checkpoints = slices.Delete(h.Checkpoints, 1, 2) },
		"the last missing": func(h *History) { h.Checkpoints = h.Checkpoints[:len(h.Checkpoints)-1] },
		"another number":   func(h *History) { h.Checkpoints[1].Number++ },
		"another parent":   func(h *History) { h.Checkpoints[1].ParentID = "other" },
		"another length":   func(h *History) { h.Checkpoints[1].MessageCount-- },
		"another step":     func(h *History) { h.Checkpoints[1].Step++ },
		"of no step":       func(h *History) { c := &h.Checkpoints[1]; c.Step, c.StepID = 40, stepID(c.RunID, 40) },
	},
	"events contiguous": {
		"a gap":          func(h *History) { h.Events = slices.Delete(h.Events, 3, 4) },
		"a stranger":     func(h *History) { h.Events[3].RunID = "other" },
		"the log behind": func(h *History) { h.Session.LogSequence = int64(len(h.Events) + 1) },
	},
	"no mark behind the session's place": {
		"a commit": func(h *History) { h.Session.LogSequence-- },
		"of an active session": func(h *History) {
			h.Session.Status, h.Session.LogSequence = cairn.SessionActive, int64(h.event(cairn.EventStepCommitted))
		},
	},
	"replay equals live": {
		"a delta twice":          func(h *History) { at := h.event(cairn.EventTextDelta); h.insert(at, h.Events[at]) },
		"a delta lost":           func(h *History) { h.remove(h.event(cairn.EventTextDelta)) },
		"a step begun once more": func(h *History) { at := h.event(cairn.EventStepStart); h.insert(at, h.Events[at]) },
		"a step not begun":       func(h *History) { h.remove(h.event(cairn.EventStepStart)) },
		"taken back": func(h *History) {
			at := h.event(cairn.EventStepCommitted)
			h.Events[at].Type = cairn.EventStepDiscarded
		},
		"taken back once committed": func(h *History) {
			ev := h.Events[h.event(cairn.EventStepCommitted)]
			ev.Type = cairn.EventStepDiscarded
			h.insert(len(h.Events), ev)
		},
		"taken back with an earlier step": func(h *History) {
			ev := h.Events[h.event(cairn.EventStepStart)]
			ev.Type, ev.Step = cairn.EventStepDiscarded, ev.Step-1
			h.insert(h.event(cairn.EventStepCommitted), ev)
		},
		"not committed":   func(h *History) { h.remove(h.event(cairn.EventStepCommitted)) },
		"committed twice": func(h *History) { at := h.event(cairn.EventStepCommitted); h.insert(at, h.Events[at]) },
		"another result":  func(h *History) { h.Events[h.event(cairn.EventToolEnd)].Data = json.RawMessage(`"other"`) },
		"no result":       func(h *History) { h.remove(h.event(cairn.EventToolEnd)) },
		"a step that never was": func(h *History) {
			ev := h.Events[h.event(cairn.EventStepStart)]
			ev.Step = 40
			h.insert(len(h.Events), ev)
			ev.Type = cairn.EventStepCommitted
			h.insert(len(h.Events), ev)
		},
		"an open step": func(h *History) {
			ev := h.Events[h.event(cairn.EventStepStart)]
			ev.Step = 40
			h.insert(len(h.Events), ev)
		},
	},
	"one mark per end": {
		"an end twice":    func(h *History) { at := h.event(cairn.EventRunEnd); h.insert(at, h.Events[at]) },
		"no end":          func(h *History) { h.remove(h.event(cairn.EventRunEnd)) },
		"no beginning":    func(h *History) { h.remove(h.event(cairn.EventRunStart)) },
		"begun twice":     func(h *History) { at := h.event(cairn.EventRunStart); h.insert(at, h.Events[at]) },
		"committed twice": func(h *History) { at := h.event(cairn.EventStepCommitted); h.insert(at, h.Events[at]) },
		"an end too soon": func(h *History) {
			end := h.Events[h.event(cairn.EventRunEnd)]
			h.remove(h.event(cairn.EventRunEnd))
			h.insert(h.event(cairn.EventTextDelta), end)
		},
		"an end while it runs": func(h *History) { h.Runs[0].Status = cairn.RunRunning },
	},
	"patches lead to the state": {
		"a patch twice": func(h *History) {
			at := slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return len(ev.Patch) > 0 && ev.Patch[0].Path == "/entries/-" })
			h.insert(at, h.Events[at])
		},
		"a patch lost": func(h *History) { h.remove(h.event(cairn.EventStatePatch)) },
	},
	"a message to a crashed session is there once, if it was acknowledged": {
		"lost":           func(h *History) { h.acknowledge("run", "another text") },
		"of another run": func(h *History) { h.acknowledge(h.Runs[1].ID, h.Messages[0].Text()) },
		"twice": func(h *History) {
			h.acknowledge(h.Runs[0].ID, h.Messages[0].Text())
			h.Messages = append(h.Messages, h.Messages[0])
		},
		"twice, and not acknowledged": func(h *History) {
			h.Journal = append(h.Journal, record{Kind: sending, Text: h.Messages[0].Text()})
			h.Messages = append(h.Messages, h.Messages[0])
		},
		"once in the transcript and once in the queue": func(h *History) {
			h.acknowledge(h.Runs[0].ID, h.Messages[0].Text())
			h.Queue = append(h.Queue, driver.QueuedTurn{ID: "turn", Messages: h.Messages[:1]})
		},
		"lost, and another run undone": func(h *History) {
			h.acknowledge("run", "another text")
			h.Journal = append(h.Journal, record{Kind: undoing, Undone: "other"})
		},
	},
	"the epoch counts the rewinds": {
		"none was made":      func(h *History) { h.Session.Epoch++ },
		"one is not counted": func(h *History) { h.Journal = append(h.Journal, record{Kind: committed, Undone: "run"}) },
		"one counts twice": func(h *History) {
			h.Journal = append(h.Journal, record{Kind: undoing, Undone: "run"}, record{Kind: committed, Undone: "run"})
			h.Session.Epoch = 2
		},
	},
	"what needs a worker is due": {
		"let go":        func(h *History) { h.Session.Status, h.Session.Lease = cairn.SessionActive, cairn.Lease{} },
		"ran out":       func(h *History) { h.Session.Status, h.Session.Lease.Until = cairn.SessionActive, h.Asked },
		"a queue":       func(h *History) { h.Session.Queued = 1 },
		"everything in": func(h *History) { h.Session.Status, h.Session.SuspendedStep = cairn.SessionPaused, "step" },
		"a deadline": func(h *History) {
			h.Session.Status, h.Session.OpenCalls, h.Session.NextDeadline = cairn.SessionPaused, 1, h.Asked
		},
		"another reason": func(h *History) { h.Session.Queued, h.Due = 1, driver.DueReady },
		"for nothing":    func(h *History) { h.Due = driver.DueCrashed },
		"with a lease": func(h *History) {
			h.Due, h.Session.Status = driver.DueCrashed, cairn.SessionActive
			h.Session.Lease = cairn.Lease{Owner: "p", Until: h.Answered.Add(time.Second)}
		},
	},
	"no session running without a lease": {
		"active for ever": func(h *History) {
			h.Session.Status = cairn.SessionActive
			h.Session.Lease.Owner = "p"
			h.Session.Lease.Until = h.Session.UpdatedAt
		},
		"active without one": func(h *History) { h.Session.Status = cairn.SessionActive },
		"half let go": func(h *History) {
			h.Settled = false
			h.Session.Status, h.Session.Lease = cairn.SessionActive, cairn.Lease{Until: h.Session.UpdatedAt.Add(time.Minute)}
		},
		"a lease on the ended": func(h *History) {
			h.Session.Lease.Owner, h.Session.Lease.Until = "p", h.Session.UpdatedAt.Add(time.Minute)
		},
	},
}

// again adds a copy of the first record of a kind and returns it.
func (h *History) again(kind recordKind) *record {
	h.Journal = append(h.Journal, *h.record(kind))
	return &h.Journal[len(h.Journal)-1]
}

// acknowledge adds the records of a message that was acknowledged as a turn.
func (h *History) acknowledge(turn, text string) {
	h.Journal = append(h.Journal, record{Kind: sending, Text: text}, record{Kind: sent, Queued: turn, Text: text})
}

// forget removes records.
func (h *History) forget(which func(record) bool) { h.Journal = slices.DeleteFunc(h.Journal, which) }

// result returns the first result of a tool.
func (h *History) result(tool string) *cairn.ToolResult {
	for i := range h.Messages {
		for _, r := range h.Messages[i].ToolResults() {
			if r.Tool == tool {
				return r
			}
		}
	}
	return nil
}

// arrive lets something with a key arrive at the receiver.
func (h *History) arrive(key string) {
	h.Journal = append(h.Journal, record{Kind: arrived, Session: h.Session.ID, Key: key})
}

// effect adds a row to the ledger.
func (h *History) effect(key string, state cairn.EffectState, attempts int) *cairn.PendingCall {
	h.Calls = append(h.Calls, cairn.PendingCall{CallRef: cairn.CallRef{ID: "effect", Kind: cairn.CallEffect, Tool: toolSend, ToolCallID: "none"},
		Status: cairn.CallSettled, Effect: &cairn.Effect{State: state, Key: key, Attempts: attempts}})
	return &h.Calls[len(h.Calls)-1]
}

// addition returns a call of toolAdd that has a result.
func (h *History) addition() string {
	for id, list := range h.results() {
		if list[0].Tool == toolAdd && !list[0].IsError {
			return id
		}
	}
	panic("no call of " + toolAdd)
}
