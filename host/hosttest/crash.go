package hosttest

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// crashes are scenarios in which a process dies at a chosen moment and another one takes over.
var crashes = []scenario{
	{"crash-answered", (*scene).crashAnswered},
	{"crash-suspending", (*scene).crashSuspending},
	{"crash-suspending-read", (*scene).crashSuspendingRead},
	{"crash-resuming", (*scene).crashResuming},
	{"crash-approved", (*scene).crashApproved},
	{"crash-approved-staged", (*scene).crashApprovedStaged},
	{"crash-expired", (*scene).crashExpired},
	{"crash-child-done", (*scene).crashChildDone},
	{"crash-child-ending", (*scene).crashChildEnding},
	{"crash-child-suspending", (*scene).crashChildSuspending},
	{"crash-child-staged", (*scene).crashChildStaged},
	{"crash-child-halfway", (*scene).crashChildHalfway},
	{"crash-child-waits", (*scene).crashChildWaits},
	{"crash-grandchild-resumed", (*scene).crashGrandchildResumed},
	{"crash-two-children", (*scene).crashTwoChildren},
	{"crash-interrupting", (*scene).crashInterrupting},
	{"crash-interrupting-tree", (*scene).crashInterruptingTree},
	{"crash-ending-tree", (*scene).crashEndingTree},
	{"crash-ended-child", (*scene).crashEndedChild},
	{"crash-ending-dynasty", (*scene).crashEndingDynasty},
	{"crash-executing", (*scene).crashExecuting},
	{"interrupt-crashed", (*scene).interruptCrashed},
	{"interrupt-crashed-tree", (*scene).interruptCrashedTree},
	{"interrupt-crashed-waiting", (*scene).interruptCrashedWaiting},
	{"execute-crashed", (*scene).executeCrashed},
	{"execute-crashed-waiting", (*scene).executeCrashedWaiting},
	{"execute-crashed-child", (*scene).executeCrashedChild},
	{"execute-crashed-reject", func(s *scene) { s.executeCrashedPaid(engine.BusyReject) }},
	{"execute-crashed-enqueue", func(s *scene) { s.executeCrashedPaid(engine.BusyEnqueue) }},
	{"execute-crashed-steer", func(s *scene) { s.executeCrashedPaid(engine.BusySteer) }},
	{"execute-crashed-interrupt", func(s *scene) { s.executeCrashedPaid(engine.BusyInterrupt) }},
	{"execute-crashed-rollback", func(s *scene) { s.executeCrashedPaid(engine.BusyRollback) }},
	{"resume-crashed-input", (*scene).resumeCrashedInput},
	{"resume-crashed-model", (*scene).resumeCrashedModel},
}

// dieBefore kills the process before the first operation that when selects.
func (p *process) dieBefore(when func(operation) bool) {
	p.tap.watch(func(o operation) error {
		if when(o) {
			p.die()
		}
		return nil
	}, nil)
}

// dieAfter kills the process after the first operation that when selects. The process never gets the outcome.
func (p *process) dieAfter(when func(operation) bool) {
	p.tap.watch(nil, func(o operation) {
		if when(o) {
			p.die()
		}
	})
}

// step reports whether the operation commits the n-th step of a run of a session.
func step(session string, n int) func(operation) bool {
	return func(o operation) bool { return o.session == session && o.commit != nil && o.commit.Step == n }
}

// stepOf reports whether the operation commits the n-th step of a run of the only session of an agent.
func (s *scene) stepOf(agent string, n int) func(operation) bool {
	return func(o operation) bool {
		if o.commit == nil || o.commit.Step != n {
			return false
		}
		row, err := driver.Load(context.Background(), s.st, o.session)
		return err == nil && row.Agent == agent
	}
}

// The process that answers may die, like the process that suspended.
func (s *scene) crashAnswered() {
	s.oneRefund()
	one, two := s.process(s.mortal()), s.process(s.mortal())
	one.turn("s", "refund it")
	one.die()
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.die()
	s.process().work()
	s.awaitEnd("s", 2)
}

// suspendAndDie leaves a suspended session whose process died right after the commit.
func (s *scene) suspendAndDie() {
	s.Helper()
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool { return o.ends("s") })
	s.awaitDeath(one.start("s", "refund it"))
}

// After such a crash a second process takes the answer and resumes the run.
func (s *scene) crashSuspending() {
	s.oneRefund()
	s.suspendAndDie()
	two := s.process()
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// A reader of the log finds the request, and can answer.
func (s *scene) crashSuspendingRead() {
	s.oneRefund()
	s.suspendAndDie()
	two := s.process()
	ctx, cancel := context.WithTimeout(s.Context(), s.patience())
	defer cancel()
	for ev, err := range two.Events(ctx, "s", cairn.Cursor{}) {
		s.must(err)
		if ev.Type == cairn.EventToolApproval {
			two.submit("s", cairn.Approve(cairn.CallRef{ID: ev.CallID, ApprovalID: ev.ApprovalID}), cairn.OutcomeAccepted)
		}
		if ev.Type == cairn.EventRunEnd {
			break
		}
	}
	two.resume("s")
}

// The process dies once its resume is stored, before it does anything else.
func (s *scene) crashResuming() {
	s.oneRefund()
	s.process().turn("s", "refund it")
	two := s.process(s.mortal())
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.StartRun != nil })
	if _, err := two.Resume(s.Context(), "s"); err == nil {
		s.Fatal("a dead process resumed")
	}
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// keyed returns a refund tool that fails the scene if its executions have different idempotency keys.
func (s *scene) keyed(opts ...cairn.ToolOption) cairn.Tool {
	keys := map[string]bool{}
	return s.tool("refund", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		s.mu.Lock()
		keys[call.IdempotencyKey()] = true
		n := len(keys)
		s.mu.Unlock()
		if n > 1 {
			s.Error("the key changed")
		}
		return "refunded " + in.Text, call.Append([]string{"refunds"}, in.Text)
	}, opts...)
}

// approvedAndDie leaves a session whose approved tool has run, but whose step is not committed.
func (s *scene) approvedAndDie(d cairn.Durability) {
	s.Helper()
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("Let me see. "), asks("c1", "refund", "42"), asks("c2", "note", "n"), asks("c3", "locate", "here")),
		scripted.Text("That is that."), scripted.Text("As you like.")), s.keyed(cairn.RequireApproval()), s.note(), locate())}
	s.agents[0].Durability = d
	s.process().turn("s", "refund it")
	two := s.process(s.mortal())
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	two.dieBefore(step("s", 1))
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
}

func (s *scene) crashApproved() {
	s.approvedAndDie(cairn.PerStep)
	s.process().work()
	s.awaitEnd("s", 2)
}

func (s *scene) crashApprovedStaged() {
	s.approvedAndDie(cairn.PerTool)
	s.process().work()
	s.awaitEnd("s", 2)
}

// The worker that settled an overdue call dies before it resumes the session.
func (s *scene) crashExpired() {
	s.oneRefund(cairn.WaitAtMost(s.soon))
	s.process().turn("s", "refund it")
	two := s.process()
	two.dieAfter(func(o operation) bool { return o.commit != nil && len(o.commit.Calls) > 0 })
	s.later()
	two.work()
	testclock.Await(s.T, "the worker to die", func() bool { return !two.alive() })
	s.process().work()
	s.awaitEnd("s", 2)
}

// The child has completed when its parent's process dies: the next process finds it, and repeats none of its work.
func (s *scene) crashChildDone() {
	s.family(s.note())
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "do it"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The child's last commit is done but not published: the process that finds the child publishes its end.
func (s *scene) crashChildEnding() {
	s.family(s.note())
	one := s.process(s.mortal())
	one.dieAfter(s.stepOf("helper", 2))
	s.awaitDeath(one.start("s", "do it"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The child's suspension is committed but not published: people must see its call.
func (s *scene) crashChildSuspending() {
	s.family(s.refund())
	one := s.process(s.mortal())
	one.dieAfter(s.stepOf("helper", 1))
	s.awaitDeath(one.start("s", "do it"))
	two := s.process()
	two.work()
	asked := s.awaitTool("s", cairn.EventToolApproval, "refund")
	s.awaitEnd("s", 1)
	two.submit("s", cairn.Approve(cairn.CallRef{ID: asked.CallID, ApprovalID: asked.ApprovalID}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// With PerTool, the parent has staged the child's result.
func (s *scene) crashChildStaged() {
	s.family(s.note())
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "do it"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The child is halfway: it resumes from its last commit.
func (s *scene) crashChildHalfway() {
	s.family(s.note())
	one := s.process(s.mortal())
	one.dieBefore(s.stepOf("helper", 2))
	s.awaitDeath(one.start("s", "do it"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The child is suspended, but its parent has not recorded that yet.
func (s *scene) crashChildWaits() {
	s.childWaitsAndDie()
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// The process that resumes the tree with an answer dies once the grandchild has used it.
func (s *scene) crashGrandchildResumed() {
	s.dynasty(s.refund())
	s.process().turn("s", "refund it")
	two := s.process(s.mortal())
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.dieAfter(s.stepOf("payer", 1))
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
	s.process().work()
	s.awaitEnd("s", 2)
}

// One child has completed, the other is suspended, and the process dies before the parent has recorded that.
func (s *scene) crashTwoChildren() {
	s.twins()
	s.process().turn("s", "go")
	two := s.process(s.mortal())
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	two.dieBefore(step("s", 1))
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
	three := s.process()
	three.work()
	s.awaitEnd("s", 2)
	three.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 3)
}

// The process that stops a suspended session dies before it publishes the stop.
func (s *scene) crashInterrupting() {
	s.oneRefund()
	s.process().turn("s", "refund it")
	two := s.process(s.mortal())
	two.dieAfter(func(o operation) bool { return o.ends("s") })
	if err := two.Interrupt(s.Context(), "s", "enough"); err == nil {
		s.Fatal("a dead process heard of its interrupt")
	}
	s.process().turn("s", "never mind")
}

// The process that stops a suspended tree dies once it has recorded that: a worker ends the sub-agent, then the session.
func (s *scene) crashEndingTree() {
	s.dieEnding(func(o operation) bool { return o.commit != nil && o.commit.Ending != nil })
	s.process().work()
	testclock.Await(s.T, "the end of the session", func() bool { return s.diary.has("s", "RunInterrupt") })
}

// The process that stops a suspended tree dies once the sub-agent has ended: the next message continues with that, and its
// turn begins when the session has ended.
func (s *scene) crashEndedChild() {
	s.dieEnding(func(o operation) bool { return o.commit != nil && o.commit.EndRun != nil && o.session != "s" })
	s.process().turn("s", "never mind")
}

// dieEnding lets a process die while it ends a suspended tree, after the operation that when selects. No answer is
// taken after that.
func (s *scene) dieEnding(when func(operation) bool) {
	s.family(s.refund())
	s.process().turn("s", "refund it")
	two := s.process(s.mortal())
	two.dieAfter(when)
	if err := two.Interrupt(s.Context(), "s", "enough"); err == nil {
		s.Fatal("a dead process heard of its interrupt")
	}
	if row := s.row("s"); row.Status != cairn.SessionPaused || row.Ending == nil || row.Ready() {
		s.Fatalf("the session is %s with %+v", row.Status, row.Ending)
	}
	_, err := s.process().Resume(s.Context(), "s")
	s.want("a resume of a wait that is being ended", err, cairn.ErrNotResumable)
}

// A suspended tree of three is stopped by one process after the other. Each continues with what the one before has left,
// and dies after its first write: the stop of the root's wait, that of the clerk's, the end of the payer, that of the
// clerk. A worker ends the root.
func (s *scene) crashEndingDynasty() {
	s.dynasty(s.refund())
	s.process().turn("s", "refund it")
	ending := func(o operation) bool { return o.commit != nil && o.commit.Ending != nil }
	ended := func(o operation) bool { return o.commit != nil && o.commit.EndRun != nil }
	for _, when := range []func(operation) bool{ending, ending, ended, ended} {
		next := s.process(s.mortal())
		next.dieAfter(when)
		if err := next.Interrupt(s.Context(), "s", "enough"); err == nil {
			s.Fatal("a dead process heard of its interrupt")
		}
		if row := s.row("s"); row.Status != cairn.SessionPaused || row.Ending == nil || row.Ending.Reason != "enough" {
			s.Fatalf("the session is %s with %+v", row.Status, row.Ending)
		}
	}
	s.process().work()
	testclock.Await(s.T, "the end of the session", func() bool { return s.diary.has("s", "RunInterrupt") })
}

// The process that stops a suspended tree dies before it publishes the stop: the next turn publishes it.
func (s *scene) crashInterruptingTree() {
	s.family(s.refund())
	s.process().turn("s", "refund it")
	call := s.open("s", "refund")
	two := s.process(s.mortal())
	two.dieAfter(func(o operation) bool { return o.ends("s") })
	if err := two.Interrupt(s.Context(), "s", "enough"); err == nil {
		s.Fatal("a dead process heard of its interrupt")
	}
	three := s.process()
	three.turn("s", "never mind")
	three.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
}

// A process dies once its next turn has closed the pending calls.
func (s *scene) crashExecuting() {
	s.oneRefund()
	s.process().turn("s", "refund it")
	two := s.process(s.mortal())
	two.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.StartRun != nil })
	if _, err := two.Execute(s.Context(), "s", "bot", cairn.Text("never mind"), withdraw); err == nil {
		s.Fatal("a dead process began a turn")
	}
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// A stop ends the run of a dead process that was executing an approved call.
func (s *scene) interruptCrashed() {
	s.approvedAndDie(cairn.PerStep)
	three := s.process()
	s.must(three.Interrupt(s.Context(), "s", "enough"))
	three.resume("s")
}

// A stop ends the run of a dead process with a running child: a worker reaps the child as an orphan.
func (s *scene) interruptCrashedTree() {
	s.family(s.slow())
	one := s.process(s.mortal())
	run := s.toil(one)
	one.die()
	one.leave() // otherwise it would keep running until its lease lapses
	s.awaitDeath(run)
	child := s.child("s")
	testclock.Await(s.T, "the leases of the dead process to run out", func() bool { // the child's may lapse later
		root, row := s.row("s"), s.row(child)
		return root.Crashed(root.AsOf) && row.Crashed(row.AsOf)
	})
	two := s.process()
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	two.work()
	s.awaitEvent("s", "the end of the child", func(ev *cairn.Event) bool { return ev.Type == cairn.EventRunEnd && ev.SessionID == child })
	testclock.Await(s.T, "the hooks of the stop", func() bool { return s.diary.has("s", "RunInterrupt") && s.diary.has(child, "RunInterrupt") })
}

// The next turn takes over a run whose dead process was executing an approved call, and begins after it.
func (s *scene) executeCrashed() {
	s.approvedAndDie(cairn.PerStep)
	s.outcome(s.process().behindDead("s"))
	s.awaitHooks("s", 3)
}

// behindDead gives a session its next turn as soon as the dead process's lease has lapsed.
func (p *process) behindDead(session string) *engine.Run {
	s := p.s
	s.Helper()
	var run *engine.Run
	testclock.Await(s.T, "the dead process's lease to run out", func() (begun bool) {
		var err error
		run, err = p.Execute(s.Context(), session, "bot", cairn.Text("never mind"))
		return err == nil
	})
	return run
}

// childWaitsAndDie leaves the run of a dead process with a suspended child. It returns the child's call.
func (s *scene) childWaitsAndDie() cairn.CallRef {
	s.Helper()
	s.family(s.refund())
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "do it"))
	return s.open("s", "refund")
}

// A suspended child is ended with its parent's run, although the process that drove it is dead.
func (s *scene) interruptCrashedWaiting() {
	call := s.childWaitsAndDie()
	two := s.process()
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	two.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
}

func (s *scene) executeCrashedWaiting() {
	call := s.childWaitsAndDie()
	two := s.process()
	run := two.behindDead("s")
	testclock.Await(s.T, "the run to wait", func() bool { return s.row("s").Status == cairn.SessionPaused })
	two.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	two.resume("s")
	s.outcome(run)
	s.awaitHooks("s", 3)
}

// A sub-agent that has completed is not consulted again when a message comes after its parent's process has died,
// whatever the durability.
func (s *scene) executeCrashedChild() {
	s.family(s.note())
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "do it"))
	s.outcome(s.process().behindDead("s"))
	s.awaitHooks("s", 2)
}

// paidAndDie leaves a run of a dead process whose step is not committed, but whose tools have run and are staged.
func (s *scene) paidAndDie() {
	s.Helper()
	plain := plays(scripted.Reply(scripted.Text("Let me see. "), asks("c1", "refund", "42"), asks("c2", "note", "n")), scripted.Text("That is that."), scripted.Text("As you like."))
	s.agents = []*cairn.Agent{bot(plain, s.keyed(), s.note())}
	s.agents[0].Durability = cairn.PerTool
	s.agents[0].Models = map[string]cairn.Model{"other": plain}
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "refund it"))
}

// A message to a session whose process has died repeats no tool, whatever it is to do with a run that is under way.
func (s *scene) executeCrashedPaid(way engine.OnBusy) {
	s.paidAndDie()
	two := s.process()
	testclock.Await(s.T, "the dead process's lease to run out", func() bool { row := s.row("s"); return row.Crashed(row.AsOf) })
	run := two.start("s", "never mind", engine.WithOnBusy(way))
	s.outcome(run)
	ends := 2
	if way == engine.BusyInterrupt || way == engine.BusyRollback {
		ends = 1
		testclock.Await(s.T, "the hooks of the stop", func() bool { return s.diary.has("s", "RunInterrupt") })
	}
	s.awaitHooks("s", ends)
}

// Messages with which a session is resumed whose process has died become the turn after the one that is taken over.
func (s *scene) resumeCrashedInput() {
	s.paidAndDie()
	testclock.Await(s.T, "the dead process's lease to run out", func() bool { row := s.row("s"); return row.Crashed(row.AsOf) })
	s.process().resume("s", engine.WithInput(cairn.Text("never mind")))
	s.awaitHooks("s", 2)
}

// A resume with another model stops the run of the dead process, which keeps what its tools did, and begins another.
func (s *scene) resumeCrashedModel() {
	s.paidAndDie()
	testclock.Await(s.T, "the dead process's lease to run out", func() bool { row := s.row("s"); return row.Crashed(row.AsOf) })
	s.process().resume("s", engine.WithModel("other"))
	s.awaitHooks("s", 1)
}
