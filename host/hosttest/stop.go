package hosttest

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// stops are scenarios of suspended or running turns that end on request or because another turn replaces them.
var stops = []scenario{
	{"interrupt-waiting", (*scene).interruptWaiting},
	{"abort-waiting", (*scene).abortWaiting},
	{"interrupt-waiting-tree", (*scene).interruptWaitingTree},
	{"abort-waiting-tree", (*scene).abortWaitingTree},
	{"interrupt-child-at-work", (*scene).interruptChildAtWork},
	{"abort-child-at-work", (*scene).abortChildAtWork},
	{"interrupt-wide-tree", (*scene).interruptWideTree},
	{"interrupt-waiting-child", (*scene).interruptWaitingChild},
	{"interrupt-waiting-child-crash", (*scene).interruptWaitingChildCrash},
	{"interrupt-waiting-companion", (*scene).interruptWaitingCompanion},
	{"interrupt-answered", (*scene).interruptAnswered},
	{"interrupt-answered-late", (*scene).interruptAnsweredLate},
	{"interrupt-dropped-crash", (*scene).interruptDroppedCrash},
	{"interrupt-suspending", (*scene).interruptSuspending},
	{"interrupt-approved", (*scene).interruptApproved},
	{"interrupt-resumed-tree", (*scene).interruptResumedTree},
	{"execute-paused", (*scene).executePaused},
	{"execute-paused-tree", (*scene).executePausedTree},
	{"rewind-paused", (*scene).rewindPaused},
	{"rewind-paused-tree", (*scene).rewindPausedTree},
	{"resume-from-checkpoint", (*scene).resumeFromCheckpoint},
}

// half suspends the bot for three calls, answers two of them, and returns the third.
func (s *scene) half(p *process) cairn.CallRef {
	s.Helper()
	s.agents[0].Model = plays(
		scripted.Reply(asks("c1", "refund", "42"), asks("c2", "locate", "here"), asks("c3", "locate", "there"), asks("c4", "note", "n")),
		scripted.Text("Then not."), scripted.Text("Bye."), scripted.Text("You are welcome."))
	calls := p.turn("s", "go").Suspended.Calls
	p.submit("s", cairn.Approve(calls[0]), cairn.OutcomeAccepted)
	p.submit("s", cairn.Answer(calls[1], place{"Oslo"}), cairn.OutcomeAccepted)
	return calls[2]
}

// cast sets the agent of half.
func (s *scene) cast() {
	s.agents = []*cairn.Agent{bot(plays(), s.refund(), locate(), s.note())}
}

// A stop passes the answers to the model and closes the other calls as not executed. The session can be resumed.
func (s *scene) interruptWaiting() {
	s.cast()
	one, two := s.process(), s.process()
	open := s.half(one)
	s.must(two.Interrupt(s.Context(), "s", "enough", engine.StoppedBy("ann")))
	two.refused("an answer to a cancelled call", "s", cairn.Answer(open, place{"Rome"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	s.want("another interrupt", two.Interrupt(s.Context(), "s", "really"), cairn.ErrNotRunning)
	one.resume("s")
	two.turn("s", "thanks")
}

func (s *scene) abortWaiting() {
	s.cast()
	one, two := s.process(), s.process()
	s.half(one)
	s.must(two.Abort(s.Context(), "s", "enough", engine.StoppedBy("ann")))
	_, err := one.Resume(s.Context(), "s")
	s.want("resume of what was aborted", err, cairn.ErrNotResumable)
	one.retry("s")
}

// A stop reaches every suspended session of the tree.
func (s *scene) interruptWaitingTree() {
	s.dynasty(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	two.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.resume("s")
}

func (s *scene) abortWaitingTree() {
	s.twins()
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	s.must(two.Abort(s.Context(), "s", "enough"))
	two.turn("s", "and now?")
}

// toil begins a turn whose tool or sub-agent's tool does not return by itself, and returns the run once the tool is
// running.
func (s *scene) toil(p *process) *engine.Run {
	s.Helper()
	run := p.start("s", "go")
	s.atWork("slow")
	return run
}

// A stop reaches a running child.
func (s *scene) interruptChildAtWork() {
	s.family(s.slow())
	one, two := s.process(), s.process()
	run := s.toil(one)
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.turn("s", "thanks")
}

func (s *scene) abortChildAtWork() {
	s.dynasty(s.slow())
	one, two := s.process(), s.process()
	run := s.toil(one)
	s.must(two.Abort(s.Context(), "s", "enough"))
	s.outcome(run)
}

// A stop of the root reaches every session below it, running or suspended, on every level.
func (s *scene) interruptWideTree() {
	payer := agent("payer", plays(asks("c1", "slow", "42"), scripted.Text("never said")), s.slow())
	scout := agent("scout", plays(asks("c1", "locate", "here"), scripted.Text("never said")), locate())
	clerk := agent("clerk", plays(scripted.Reply(delegates("c1", "payer"), delegates("c2", "scout"), delegates("c3", "payer")),
		scripted.Text("never said")), cairn.SubAgent(payer), cairn.SubAgent(scout))
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(delegates("c1", "clerk"), delegates("c2", "payer")), scripted.Text("None came back.")),
		cairn.SubAgent(clerk), cairn.SubAgent(payer))}
	one, two := s.process(), s.process()
	run := one.start("s", "go")
	testclock.Await(s.T, "everybody to be at work", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ran["slow"] == 3
	})
	testclock.Await(s.T, "the scout to wait", func() bool { return len(s.openCalls("s")) == 1 })
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.turn("s", "and now?")
}

// A child may be stopped by itself: the tree resumes without its answer.
func (s *scene) interruptWaitingChild() {
	s.family(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	s.must(two.Interrupt(s.Context(), s.child("s"), "not this one"))
	one.resume("s")
}

// A worker does that also if the process that stopped the child died right after.
func (s *scene) interruptWaitingChildCrash() {
	s.family(s.refund())
	one, two := s.process(s.mortal()), s.process()
	one.turn("s", "refund it")
	child := s.child("s")
	one.dieAfter(func(o operation) bool { return o.ends(child) })
	if err := one.Interrupt(s.Context(), child, "not this one"); err == nil {
		s.Fatal("the process did not die")
	}
	two.work()
	s.awaitEnd("s", 2)
}

// The same goes for a companion whose parent waits for it.
func (s *scene) interruptWaitingCompanion() {
	s.accompanied(cairn.Blocking, asking(), []cairn.Tool{s.refund()}, spawns("c1", "ann", "pay"), scripted.Text("She did not."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.must(one.Interrupt(s.Context(), s.child("s"), "not this one"))
	two.work()
	s.awaitEnd("s", 2)
}

// located sets a bot that asks for a location and consults a helper, which asks for a refund.
func (s *scene) located(hooks *cairn.Hooks) {
	helper := agent("helper", plays(asks("c1", "refund", "42"), asks("c2", "slow", ""), scripted.Text("never said")), s.refund(), s.slow())
	s.agents = []*cairn.Agent{bot(plays(scripted.Reply(asks("c1", "locate", "here"), delegates("c2", "helper")), scripted.Text("Then not.")),
		locate(), cairn.SubAgent(helper))}
	s.agents[0].Hooks = hooks
}

// resumed suspends the bot of located, answers its helper, and returns the open call and the resumed run, once the
// helper's next tool is at work.
func (s *scene) resumed(p *process) (*engine.Run, cairn.CallRef) {
	s.Helper()
	p.turn("s", "go")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	run, err := p.Resume(s.Context(), "s")
	s.must(err)
	s.atWork("slow")
	return run, s.open("s", "locate")
}

// An answer that arrives while its turn runs is used, even if the turn is stopped then.
func (s *scene) interruptAnswered() {
	s.located(nil)
	one, two := s.process(), s.process()
	run, call := s.resumed(one)
	two.submit("s", cairn.Answer(call, place{"Oslo"}), cairn.OutcomeAccepted)
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.turn("s", "and now?")
}

// No answer is accepted once hooks know that the call was not executed.
func (s *scene) interruptAnsweredLate() {
	var two *process
	var late cairn.Receipt
	var err error
	closed := make(chan cairn.CallRef, 1)
	s.located(&cairn.Hooks{AfterTool: func(ctx context.Context, _ *cairn.Call, _ *cairn.ToolResult) {
		select {
		case call := <-closed:
			late, err = two.Submit(context.WithoutCancel(ctx), "s", cairn.Answer(call, place{"Oslo"}))
		default:
		}
	}})
	one := s.process()
	two = s.process()
	run, call := s.resumed(one)
	closed <- call
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	s.want("an answer to a call that is closed: "+string(late.Outcome), err, cairn.ErrInvalid)
	two.turn("s", "and now?")
}

// A process dies once it has closed the open calls of the run that is stopped. The run ends all the same.
func (s *scene) interruptDroppedCrash() {
	s.located(nil)
	one, two := s.process(s.mortal()), s.process()
	run, _ := s.resumed(one)
	one.dieAfter(func(o operation) bool {
		return o.session == "s" && o.commit != nil && len(o.commit.Calls) > 0 && o.commit.EndRun == nil
	})
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.awaitDeath(run)
	two.turn("s", "and now?")
}

// A run that is suspended just as it is asked to stop ends all the same.
func (s *scene) interruptSuspending() {
	s.oneRefund()
	one, two := s.process(), s.process()
	suspends, asked := make(chan struct{}), make(chan struct{})
	one.tap.watch(func(o operation) error {
		if o.ends("s") && o.commit.Status == cairn.SessionPaused {
			close(suspends)
			<-asked
		}
		return nil
	}, nil)
	two.tap.watch(nil, func(o operation) {
		if o.name == "RequestStop" {
			close(asked)
		}
	})
	run := one.start("s", "refund it")
	<-suspends
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	s.say("the session is %s", s.row("s").Status)
	two.turn("s", "and now?")
}

// A run that executes approved calls can be stopped like any other. Approved calls that were not executed are closed.
func (s *scene) interruptApproved() {
	wait := s.tool("pay", func(ctx context.Context, _ *cairn.Call, _ words) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, cairn.RequireApproval())
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "pay", "42"), asks("c2", "locate", "here")), scripted.Text("It was stopped.")), wait, locate())}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	one.submit("s", cairn.Approve(s.open("s", "pay")), cairn.OutcomeAccepted)
	one.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	run, err := one.Resume(s.Context(), "s")
	s.must(err)
	s.atWork("pay")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.resume("s")
}

// One child executes an approved call while its sibling is suspended; the stop ends both.
func (s *scene) interruptResumedTree() {
	wait := s.tool("pay", func(ctx context.Context, _ *cairn.Call, _ words) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, cairn.RequireApproval())
	payer := agent("payer", plays(asks("c1", "pay", "42"), scripted.Text("never said")), wait)
	scout := agent("scout", plays(asks("c1", "locate", "here"), scripted.Text("never said")), locate())
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(delegates("c1", "payer"), delegates("c2", "scout")), scripted.Text("Neither came back.")),
		cairn.SubAgent(payer), cairn.SubAgent(scout))}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	call := s.open("s", "locate")
	one.submit("s", cairn.Approve(s.open("s", "pay")), cairn.OutcomeAccepted)
	run, err := one.Resume(s.Context(), "s")
	s.must(err)
	s.atWork("pay")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.refused("an answer to a cancelled call", "s", cairn.Answer(call, place{"Rome"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	two.turn("s", "and now?")
}

// The next turn closes the open calls of the previous one, whose answers are used first.
func (s *scene) executePaused() {
	s.cast()
	one, two := s.process(), s.process()
	open := s.half(one)
	two.turn("s", "never mind", withdraw)
	two.refused("an answer to a cancelled call", "s", cairn.Answer(open, place{"Rome"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.turn("s", "thanks")
}

func (s *scene) executePausedTree() {
	s.dynasty(s.refund())
	p := s.process()
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	p.turn("s", "never mind", withdraw)
	p.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
}

// A rewind drops the session's pending calls. The same call, made again, is another pending call.
func (s *scene) rewindPaused() {
	s.agents = []*cairn.Agent{bot(plays(scripted.Text("Hello."), asks("c1", "refund", "42"), scripted.Text("Done.")), s.refund())}
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	first := s.row("s").CheckpointID
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	_, err := two.Rewind(s.Context(), "s", "cp_x")
	s.want("rewind to an unknown checkpoint", err, cairn.ErrNotFound)
	s.say("the call is still %s", s.open("s", "refund").Kind)
	_, err = two.Rewind(s.Context(), "s", first)
	s.must(err)
	two.refused("an answer to a rewound call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.turn("s", "refund it")
	again := s.open("s", "refund")
	if again.ID == call.ID || again.ApprovalID == call.ApprovalID {
		s.Errorf("the call that was taken back and the new one share an id: %+v, %+v", call, again)
	}
	one.submit("s", cairn.Approve(again), cairn.OutcomeAccepted)
	two.resume("s")
}

func (s *scene) rewindPausedTree() {
	helper := agent("helper", plays(asks("c1", "refund", "42"), scripted.Text("Paid.")), s.refund())
	s.agents = []*cairn.Agent{bot(plays(scripted.Text("Hello."), delegates("c1", "helper"), scripted.Text("Done.")), cairn.SubAgent(helper))}
	p := s.process()
	p.turn("s", "hello")
	first := s.row("s").CheckpointID
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	_, err := p.Rewind(s.Context(), "s", first)
	s.must(err)
	p.refused("an answer to a rewound call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	p.turn("s", "refund it")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
}

// The checkpoint of a suspended step can be resumed from as well: its open calls are closed.
func (s *scene) resumeFromCheckpoint() {
	s.oneRefund()
	p := s.process()
	p.turn("s", "refund it")
	waiting := s.row("s").CheckpointID
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
	p.resume("s", engine.FromCheckpoint(waiting))
}
