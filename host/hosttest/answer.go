package hosttest

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// answers are scenarios of client tools whose answers arrive in time or too late.
var answers = []scenario{
	{"client-tool", (*scene).clientTool},
	{"client-tool-error", (*scene).clientToolError},
	{"deadline", (*scene).deadline},
	{"deadline-resumed", (*scene).deadlineResumed},
	{"deadline-partly", (*scene).deadlinePartly},
	{"late-answer", (*scene).lateAnswer},
	{"late-answer-first", (*scene).lateAnswerFirst},
	{"late-answer-child", (*scene).lateAnswerChild},
}

func (s *scene) clientTool() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("Where are you? "), asks("c1", "locate", "here")), scripted.Text("Nice.")), locate())}
	p := s.process()
	p.turn("s", "hello")
	p.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	p.resume("s")
}

func (s *scene) clientToolError() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "locate", "here"), asks("c2", "note", "n")), scripted.Text("Never mind.")), locate(), s.note())}
	p := s.process()
	p.turn("s", "hello")
	p.submit("s", cairn.AnswerError(s.open("s", "locate"), "no signal").By("phone"), cairn.OutcomeAccepted)
	p.resume("s")
}

// No answer arrives and no verb is called: a worker enforces the deadline.
func (s *scene) deadline() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "locate", "here"), asks("c2", "refund", "42")), scripted.Text("Nobody there?")),
		locate(cairn.WaitAtMost(s.soon)), s.refund(cairn.WaitAtMost(s.soon)))}
	s.process().turn("s", "hello")
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// Without a worker, the next resume enforces the deadline.
func (s *scene) deadlineResumed() {
	s.oneRefund(cairn.WaitAtMost(s.soon))
	p := s.process()
	p.turn("s", "refund it")
	s.pass(s.open("s", "refund"))
	p.resume("s")
}

// pass waits until a call's deadline has passed.
func (s *scene) pass(call cairn.CallRef) {
	s.Helper()
	s.later()
	testclock.Await(s.T, "the deadline of "+call.Tool, func() bool {
		due, err := s.st.Due(s.Context(), driver.DueQuery{})
		s.must(err)
		for _, d := range due.Items {
			if d.SessionID == call.SessionID && d.Kind == driver.DueDeadline {
				return true
			}
		}
		return false
	})
}

// The deadline of one call passes; the others may still be answered.
func (s *scene) deadlinePartly() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "locate", "here"), asks("c2", "refund", "42")), scripted.Text("Well.")),
		locate(cairn.WaitAtMost(s.soon)), s.refund())}
	p := s.process()
	p.turn("s", "hello")
	s.later()
	s.process().work()
	testclock.Await(s.T, "the call to be closed", func() bool { return s.row("s").OpenCalls == 1 })
	_, err := p.Resume(s.Context(), "s")
	s.want("resume with one call open", err, cairn.ErrNotResumable)
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// A late answer is recorded, and shown to the model once.
func (s *scene) lateAnswer() {
	s.oneRefund(cairn.WaitAtMost(s.soon))
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	s.later()
	two.work()
	s.awaitEnd("s", 2)
	one.submit("s", cairn.Approve(call).By("ann"), cairn.OutcomeLate)
	two.submit("s", cairn.Approve(call).By("ann"), cairn.OutcomeAlreadyCompleted)
	two.submit("s", cairn.Deny(call, "no").By("bob"), cairn.OutcomeAlreadyCompleted)
	one.turn("s", "and now?")
}

// A late answer may be the first to notice that the deadline has passed.
func (s *scene) lateAnswerFirst() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "locate", "here"), asks("c2", "note", "n")), scripted.Text("I see.")),
		locate(cairn.WaitAtMost(s.soon)), s.note())}
	p := s.process()
	p.turn("s", "hello")
	call := s.open("s", "locate")
	s.pass(call)
	p.submit("s", cairn.Answer(call, place{"Oslo"}), cairn.OutcomeLate)
	p.submit("s", cairn.Answer(call, place{"Rome"}), cairn.OutcomeAlreadyCompleted)
	p.resume("s")
}

// A late answer to a sub-agent's call is recorded in the sub-agent's session.
func (s *scene) lateAnswerChild() {
	s.family(s.refund(cairn.WaitAtMost(s.soon)))
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	s.later()
	two.work()
	s.awaitEnd("s", 2)
	one.submit("s", cairn.Approve(call).By("ann"), cairn.OutcomeLate)
	one.submit("s", cairn.Approve(call).By("ann"), cairn.OutcomeAlreadyCompleted)
	one.turn("s", "and now?")
}
