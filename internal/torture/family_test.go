package torture

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/driver"
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

// continues resumes the session, whose run completes.
func (s *tale) continues() {
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
	page, err := s.clerk.eng.Inbox(s.Context(), driver.CallQuery{Tool: tool})
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
	const id = "group.per-step-family"
	var busy atomic.Pointer[func()] // called before the next commit of a run under way
	meanwhile := func(happens func()) { busy.Store(&happens) }
	var ahead atomic.Int64 // difference between the store's clock and the real time
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	st := memstore.New(&memstore.Options{Now: now})
	j, _, eng, _, err := o.assemble(inProcess, func(string) (driver.Store, error) { return st, nil }, func(p point) {
		if p != beforeCommit || busy.Load() == nil {
			return
		}
		if row, err := driver.Load(t.Context(), st, id); err != nil || row.Status != cairn.SessionActive {
			return // the run begins
		}
		if happens := busy.Swap(nil); happens != nil {
			(*happens)()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	s := &tale{t, eng, &clerk{name: "p", eng: eng, journal: j, rng: rng}, id}

	s.ends(s.say("ask pay vote note"), cairn.RunSuspended)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("a", 1001))
	s.answer(toolPay, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.Approve(c).WithInput(amount{1002}).By("b") })
	s.answer(toolVote, cairn.OutcomeAccepted, approve("ann"))
	s.answer(toolVote, cairn.OutcomeAccepted, approve("bob"))
	s.continues()

	s.ends(s.say("ask pay"), cairn.RunSuspended)
	s.answer(toolAsk, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.AnswerError(c, "no idea").By("c") })
	s.answer(toolPay, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, "too much").By("d") })
	s.continues()

	s.ends(s.say("ask_soon"), cairn.RunSuspended)
	ahead.Store(int64(time.Hour))
	s.answer(toolAskSoon, cairn.OutcomeLate, result("e", 1003))
	s.continues()

	s.ends(s.say("per-tool-child:per-step-grandchild-typed:ask per-step-mate:pay add"), cairn.RunSuspended)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("f", 1004))
	s.answer(toolPay, cairn.OutcomeAccepted, approve("g"))
	s.continues()

	s.ends(s.say("inquire add"), cairn.RunSuspended)
	s.answer(toolInquire, cairn.OutcomeAccepted, result("k", 1007))
	if _, err := eng.Checkpoint(t.Context(), s.id); err != nil {
		t.Fatal(err)
	}
	s.resumes(cairn.RunSuspended)
	s.say("add", engine.WithOnWaiting(engine.WaitingEnqueue))
	if err := o.dequeue(t.Context(), j, eng, s.id, rng); err != nil {
		t.Fatal(err)
	}
	s.answer(toolInquire, cairn.OutcomeAccepted, func(c cairn.CallRef) cairn.Submission { return cairn.AnswerError(c, "no idea").By("l") })
	s.continues()

	meanwhile(func() {
		s.say("note", engine.WithOnBusy(engine.BusySteer))
		s.say("mark", engine.WithOnBusy(engine.BusySteer))
	})
	s.ends(s.say("add"), cairn.RunCompleted)

	s.ends(s.say("ask pay vote"), cairn.RunSuspended)
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
	s.ends(s.say("vote"), cairn.RunSuspended)
	var queued []*engine.Run
	meanwhile(func() {
		for _, tools := range []string{"ask", "pay per-tool-child:ask", "add"} {
			queued = append(queued, s.say(tools, engine.WithOnBusy(engine.BusyEnqueue)))
		}
	})
	s.ends(s.say("add", engine.WithOnWaiting(engine.WaitingWithdraw)), cairn.RunCompleted) // replaces the suspended run
	s.ends(queued[0], cairn.RunSuspended)
	s.answer(toolAsk, cairn.OutcomeAccepted, result("j", 1006))
	s.continues()
	s.ends(queued[1], cairn.RunSuspended)
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

// A late answer that came while a run holds the session is in its queue until the run's next commit.
func TestLateAnswerInTheQueueIsNoFault(t *testing.T) {
	t.Parallel()
	tree := soundFamily(t)
	h := tree.Sessions[0]
	h.Settled = false
	at := h.late()
	m := h.Messages[at]
	h.drop(at, 1)
	if err := lateAnswersOnce(h); err == nil {
		t.Error("a late answer that is nowhere is accepted")
	}
	h.queueAgain(m)
	for _, check := range []func(*History) error{lateAnswersOnce, queueInOrder, queueLogged} {
		if err := check(h); err != nil {
			t.Error(err)
		}
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
