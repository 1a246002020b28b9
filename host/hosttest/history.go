package hosttest

import (
	"context"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// returns are scenarios of rewinds, branches and retries.
var returns = []scenario{
	{"branch", (*scene).branch},
	{"branch-waiting", (*scene).branchWaiting},
	{"branch-waiting-tree", (*scene).branchWaitingTree},
	{"rewind", (*scene).rewind},
	{"replace", (*scene).replace},
	{"replace-waiting", (*scene).replaceWaiting},
	{"retry", (*scene).retry},
	{"retry-child", (*scene).retryChild},
	{"retry-approved", (*scene).retryApproved},
}

// taking sets a bot that takes a note in each turn.
func (s *scene) taking() {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "note", "1"), scripted.Text("One."), asks("c2", "note", "2"), scripted.Text("Two."),
		asks("c3", "note", "3"), scripted.Text("Three.")), s.note())}
}

// checkpoints lists the checkpoints of a session.
func (s *scene) checkpoints(session string) []cairn.Checkpoint {
	s.Helper()
	page, err := s.st.Checkpoints(s.Context(), session, driver.PageQuery{})
	s.must(err)
	return page.Items
}

// A branch has the messages and the state of its origin, and diverges from there.
func (s *scene) branch() {
	s.taking()
	one, two := s.process(), s.process()
	one.turn("s", "one")
	one.turn("s", "two")
	list := s.checkpoints("s")
	branch := func(name string, at ...engine.BranchOption) {
		_, err := two.Branch(s.Context(), "s", name, at...)
		s.must(err)
		two.turn(name, "on "+name)
	}
	branch("b1", engine.AtCheckpoint(list[1].ID))
	branch("b2", engine.AtMessage(5))
	branch("b3")
	one.turn("s", "three")
	_, err := two.Branch(s.Context(), "s", "b1")
	s.want("a branch that is there", err, cairn.ErrExists)
	_, err = two.Branch(s.Context(), "s", "b4", engine.AtCheckpoint(s.row("b1").CheckpointID))
	s.want("another session's checkpoint", err, cairn.ErrNotFound)
	_, err = two.Branch(s.Context(), "x", "b4")
	s.want("a branch of nothing", err, cairn.ErrNotFound)
	s.roots = []string{"s", "b1", "b2", "b3"}
}

// A branch of a suspended session has its transcript. Calls without a result are closed in the branch.
func (s *scene) branchWaiting() {
	s.cast()
	one, two := s.process(), s.process()
	open := s.half(one)
	_, err := two.Branch(s.Context(), "s", "b")
	s.must(err)
	two.turn("b", "never mind")
	two.submit("s", cairn.Answer(open, place{"Rome"}), cairn.OutcomeAccepted)
	two.resume("s")
	s.roots = []string{"s", "b"}
}

// A branch does not copy sub-agents.
func (s *scene) branchWaitingTree() {
	s.family(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "go")
	_, err := two.Branch(s.Context(), "s", "b")
	s.must(err)
	two.turn("b", "never mind")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	s.roots = []string{"s", "b"}
}

// A rewind removes messages, state and checkpoints. A process that drove the session before notices.
func (s *scene) rewind() {
	s.taking()
	one, two := s.process(), s.process()
	one.turn("s", "one")
	list := s.checkpoints("s")
	one.turn("s", "two")
	_, err := two.Rewind(s.Context(), "s", list[0].ID)
	s.must(err)
	one.resume("s")
	one.turn("t", "one")
	_, err = two.Rewind(s.Context(), "s", s.row("t").CheckpointID)
	s.want("another session's checkpoint", err, cairn.ErrNotFound)
	_, err = two.Rewind(s.Context(), "s", "")
	s.want("no checkpoint", err, cairn.ErrInvalid)
	one.turn("s", "two again")
	two.resume("s", engine.FromCheckpoint(list[0].ID))
	s.roots = []string{"s", "t"}
}

// A turn replaces an earlier one, and all turns after it, whichever process drove them.
func (s *scene) replace() {
	s.taking()
	one, two := s.process(), s.process()
	one.turn("s", "one")
	one.turn("s", "two")
	second := s.row("s").MessageCount / 2
	two.turn("s", "two again", engine.FromMessage(second))
	one.turn("s", "three")
	for _, n := range []int{1, 99} {
		_, err := two.Execute(s.Context(), "s", "bot", cairn.Text("never"), engine.FromMessage(n))
		s.want("in the place of what began no turn", err, cairn.ErrInvalid)
	}
	_, err := two.Execute(s.Context(), "s", "bot", cairn.Text("never"), engine.FromMessage(0), engine.WithOnBusy(engine.BusyEnqueue))
	s.want("in the place of another, and queued", err, cairn.ErrInvalid)
	one.turn("s", "one again", engine.FromMessage(0))
}

// When a turn is replaced, its pending calls are closed, those of its tree as well.
func (s *scene) replaceWaiting() {
	helper := agent("helper", plays(asks("c1", "refund", "42"), scripted.Text("Paid.")), s.refund())
	s.agents = []*cairn.Agent{bot(plays(scripted.Text("Hello."), delegates("c1", "helper"), scripted.Text("Done.")), cairn.SubAgent(helper))}
	p := s.process()
	p.turn("s", "hello")
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	p.turn("s", "refund it, please", engine.FromMessage(2))
	p.refused("an answer to a call of a turn that is gone", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
}

// failing is a model that plays a script, but fails at its first attempt at the n-th reply.
func failing(n int, steps ...scripted.Step) cairn.Model {
	next := script(steps)
	var failed atomic.Bool
	return scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
		if replies(req) == n-1 && !failed.Swap(true) {
			return scripted.Reply(scripted.Text("Half a "), scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "not in this house")))
		}
		return next(ctx, req)
	})
}

// A failed turn is retried from its last committed step, in any process, with or without new input.
func (s *scene) retry() {
	s.agents = []*cairn.Agent{bot(failing(2, asks("c1", "note", "n"), scripted.Text("Done."), scripted.Text("Bye.")), s.note())}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	_, err := two.Resume(s.Context(), "s")
	s.want("resume of what failed", err, cairn.ErrNotResumable)
	two.retry("s", withText("try again"))
	_, err = one.Retry(s.Context(), "s")
	s.want("retry of what did not fail", err, cairn.ErrNotResumable)
	one.turn("s", "thanks")
}

// Sub-agents that completed before the failure are not repeated.
func (s *scene) retryChild() {
	s.family(s.refund())
	s.agents[0].Model = failing(2,
		scripted.Reply(scripted.Text("I ask. "), delegates("c1", "helper")), scripted.Text("It is done."))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
	two.retry("s")
}

// A retry may be suspended like any other run.
func (s *scene) retryApproved() {
	s.agents = []*cairn.Agent{bot(failing(1, asks("c1", "refund", "42"), scripted.Text("Done.")), s.refund())}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.retry("s")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
}
