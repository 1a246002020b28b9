package torture

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// tale plays a session without accidents.
type tale struct {
	*testing.T
	eng   *engine.Engine
	clerk *clerk
	id    string
}

// say executes a turn in which the model calls the given tools, see please.
func (s *tale) say(tools string, opts ...engine.RunOption) *engine.Run {
	s.Helper()
	run, err := s.eng.Execute(s.Context(), s.id, agentOf(s.id), cairn.Text(please+tools), opts...)
	if err != nil {
		s.Fatal(err)
	}
	return run
}

// ends waits for a run's end.
func (s *tale) ends(run *engine.Run, status cairn.RunStatus) {
	s.Helper()
	res, err := run.Wait(s.Context())
	if err != nil || res.Status != status {
		s.Fatalf("%+v %v, not %s", res, err, status)
	}
}

// goesOn resumes the session, whose run completes.
func (s *tale) goesOn() {
	s.Helper()
	s.resumes(cairn.RunCompleted)
}

// resumes resumes the session, whose run ends with the given status.
func (s *tale) resumes(status cairn.RunStatus) {
	s.Helper()
	run, err := s.eng.Resume(s.Context(), s.id)
	if err != nil {
		s.Fatal(err)
	}
	s.ends(run, status)
}

// answer answers the only open call of a tool.
func (s *tale) answer(tool string, outcome cairn.Outcome, with func(cairn.CallRef) cairn.Submission) {
	s.Helper()
	page, err := s.clerk.eng.Inbox(s.Context(), store.CallQuery{Tool: tool})
	if err != nil || len(page.Items) != 1 {
		s.Fatalf("%d open calls of %s: %v", len(page.Items), tool, err)
	}
	receipt, err := s.clerk.submit(s.Context(), &page.Items[0], with(page.Items[0].CallRef))
	if err != nil || receipt.Outcome != outcome {
		s.Fatalf("%s: %+v %v", tool, receipt, err)
	}
}

func approve(by string) func(cairn.CallRef) cairn.Submission {
	return func(c cairn.CallRef) cairn.Submission { return cairn.Approve(c).By(by) }
}

func result(by string, n int) func(cairn.CallRef) cairn.Submission {
	return func(c cairn.CallRef) cairn.Submission { return cairn.Answer(c, amount{n}).By(by) }
}

// soundFamily returns the tree of a session in which all that can happen to a call happens. Calls are answered in
// each way, in time and late, cancelled by a stop or by the next turn, or still pending. Tools ask. Sub-agents and
// companions are consulted and suspended. Turns are queued, dequeued, and join the turn under way. A checkpoint is
// made between turns.
func soundFamily(t *testing.T) *Tree {
	t.Helper()
	o := order{Dir: t.TempDir(), Name: "p", LeaseTTL: time.Minute}
	var busy func()        // called at the next write to the log
	var ahead atomic.Int64 // difference between the store's clock and the real time
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	inMemory := func(string) (store.Store, error) { return memstore.New(&memstore.Options{Now: now}), nil }
	j, st, eng, _, err := o.assemble(inProcess, inMemory, func(p point) {
		if happens := busy; p == beforeAppend && happens != nil {
			busy = nil
			happens()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	s := &tale{t, eng, &clerk{name: "p", eng: eng, journal: j, rng: rng}, "group.per-step-family"}

	s.ends(s.say("ask pay vote note"), cairn.SuspendedStepPartially)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("a", 1001))
	s.answer(toolPay, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.Approve(c).WithInput(amount{1002}).By("b") })
	s.answer(toolVote, cairn.OutcomeAccepted, approve("ann"))
	s.answer(toolVote, cairn.OutcomeAccepted, approve("bob"))
	s.goesOn()

	s.ends(s.say("ask pay"), cairn.SuspendedClientTool)
	s.answer(toolAsk, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.AnswerError(c, "no idea").By("c") })
	s.answer(toolPay, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, "too much").By("d") })
	s.goesOn()

	s.ends(s.say("ask_soon"), cairn.SuspendedClientTool)
	ahead.Store(int64(time.Hour))
	s.answer(toolAskSoon, cairn.OutcomeLate, result("e", 1003))
	s.goesOn()

	s.ends(s.say("per-tool-child:per-step-grandchild-typed:ask per-step-mate:pay add"), cairn.SuspendedChildren)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("f", 1004))
	s.answer(toolPay, cairn.OutcomeAccepted, approve("g"))
	s.goesOn()

	s.ends(s.say("inquire add"), cairn.SuspendedStepPartially)
	s.answer(toolInquire, cairn.OutcomeAccepted, result("k", 1007))
	if _, err := eng.Checkpoint(t.Context(), s.id); err != nil {
		t.Fatal(err)
	}
	s.resumes(cairn.SuspendedClientTool)
	s.say("add", engine.WithOnWaiting(engine.WaitingEnqueue))
	if err := o.dequeue(t.Context(), j, eng, s.id, rng); err != nil {
		t.Fatal(err)
	}
	s.answer(toolInquire, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.AnswerError(c, "no idea").By("l") })
	s.goesOn()

	busy = func() {
		s.say("note", engine.WithOnBusy(engine.BusySteer))
		s.say("mark", engine.WithOnBusy(engine.BusySteer))
	}
	s.ends(s.say("add"), cairn.RunCompleted)

	s.ends(s.say("ask pay vote"), cairn.SuspendedClientTool)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("h", 1005))
	s.answer(toolPay, cairn.OutcomeAccepted, approve("i"))
	stopped, err := eng.Session(t.Context(), s.id)
	if err == nil {
		err = eng.Interrupt(t.Context(), s.id, "enough")
	}
	if err != nil {
		t.Fatal(err)
	}
	j.write(record{Kind: stopHeld, Session: s.id, Ended: stopped.RunID})
	s.ends(s.say("vote"), cairn.SuspendedClientTool)
	var queued []*engine.Run
	busy = func() {
		for _, tools := range []string{"ask", "pay per-tool-child:ask", "add"} {
			queued = append(queued, s.say(tools, engine.WithOnBusy(engine.BusyEnqueue)))
		}
	}
	s.ends(s.say("add", engine.WithOnWaiting(engine.WaitingWithdraw)), cairn.RunCompleted) // replaces the suspended run
	s.ends(queued[0], cairn.SuspendedClientTool)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("j", 1006))
	s.goesOn()
	s.ends(queued[1], cairn.SuspendedStepPartially)
	if err := eng.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return loadAll(t, st, o.Dir, s.id)
}

func TestSoundFamilyIsAccepted(t *testing.T) {
	t.Parallel()
	for _, err := range soundFamily(t).check() {
		t.Error(err)
	}
}

// TestStoppedChildIsCountedOff examines a session after a stop of its child and before the session is resumed.
func TestStoppedChildIsCountedOff(t *testing.T) {
	t.Parallel()
	tree := soundFamily(t)
	root := tree.Sessions[0]
	child := tree.session(root.suspended().Children[0].SessionID)
	root.Session.OpenCalls--
	if err := root.waitAgrees(tree); err == nil {
		t.Error("a child that waits is not counted")
	}
	child.Session.Status = cairn.SessionInterrupted
	if err := root.waitAgrees(tree); err != nil {
		t.Error(err)
	}
	root.Session.OpenCalls--
	if err := root.waitAgrees(tree); err == nil {
		t.Error("a call of its own is not counted")
	}
}

// TestStepThatTwoAttemptsCommitted has a host commit a step twice, in two processes or in one. The store answers both
// attempts with the one write, and the slower one with the session's later version.
func TestStepThatTwoAttemptsCommitted(t *testing.T) {
	t.Parallel()
	root := soundFamily(t).Sessions[0]
	for _, process := range []string{"other", "p"} {
		first := root.record(committed)
		for _, version := range []int64{first.Version, root.Session.Version} {
			again := *first
			again.Process, again.Version = process, version
			h := *root
			h.Journal = append(slices.Clone(root.Journal), again)
			if err := h.oneWriter(true); err != nil {
				t.Error(err)
			}
			if err := h.oneWriter(false); (err == nil) != (process == "other") {
				t.Errorf("process %s, without a host: %v", process, err)
			}
		}
	}
}

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

// withdrawal returns the index of the event of the first cancelled call.
func (h *History) withdrawal() int {
	i := slices.IndexFunc(h.Calls, func(c cairn.PendingCall) bool { return c.Status == cairn.CallDropped })
	return slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return ev.Type == cairn.EventToolEnd && ev.CallID == h.Calls[i].ID })
}

// waitEnd returns the index of the first event of a suspension.
func (h *History) waitEnd() int {
	return slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return ev.Type == cairn.EventRunEnd && ev.Status.Suspends() })
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
		"no error told":          onResult(toolAsk, cairn.CallSettled, cairn.DecisionError, func(r *cairn.ToolResult) { r.Code = cairn.CodeDenied }),
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
				return ev.SessionID == child && ev.Type == cairn.EventRunEnd && !ev.Status.Suspends()
			})
			ends := slices.IndexFunc(t.Events[at:], func(ev cairn.Event) bool {
				return ev.SessionID == root && ev.Type == cairn.EventRunEnd && !ev.Status.Suspends()
			})
			end := t.Events[at+ends]
			t.Events = slices.Insert(slices.Delete(t.Events, at+ends, at+ends+1), at, end)
		},
		"never": func(t *Tree) {
			id := t.of(grandchild).Session.ID
			t.Events = slices.DeleteFunc(t.Events, func(ev cairn.Event) bool {
				return ev.SessionID == id && ev.Type == cairn.EventRunEnd && !ev.Status.Suspends()
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
			h.Queue = append(h.Queue, store.QueuedTurn{ID: id, Messages: h.Messages[:1]})
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
