package hosttest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// approvals are scenarios of tools that a person must approve.
var approvals = []scenario{
	{"approval", (*scene).approval},
	{"approval-denied", (*scene).approvalDenied},
	{"approval-edited", (*scene).approvalEdited},
	{"approvals", (*scene).severalApprovals},
	{"approval-condition", (*scene).approvalCondition},
	{"approval-bad-input", (*scene).approvalBadInput},
	{"approval-finish", (*scene).approvalFinish},
	{"approval-output", (*scene).approvalOutput},
	{"mixed", (*scene).mixed},
	{"other-process", (*scene).otherProcess},
	{"double-answer", (*scene).doubleAnswer},
	{"answer-race", (*scene).answerRace},
	{"answer-at-once", (*scene).answerAtOnce},
	{"resume-race", (*scene).resumeRace},
	{"resume-with-input", (*scene).resumeWithInput},
	{"branch-paused", (*scene).branchPaused},
}

// oneRefund sets the agent of most scenes: it asks for one refund, then replies with a text.
func (s *scene) oneRefund(opts ...cairn.ToolOption) {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("Let me see. "), asks("c1", "refund", "42")),
		scripted.Text("That is that."), scripted.Text("You are welcome.")), s.refund(opts...))}
}

func (s *scene) approval() {
	s.oneRefund()
	p := s.process()
	p.turn("s", "refund it")
	p.submit("s", cairn.Approve(s.open("s", "refund")).By("ann"), cairn.OutcomeAccepted)
	p.resume("s")
	p.turn("s", "thanks")
}

func (s *scene) approvalDenied() {
	s.oneRefund()
	p := s.process()
	p.turn("s", "refund it")
	p.submit("s", cairn.Deny(s.open("s", "refund"), "it is too old"), cairn.OutcomeAccepted)
	p.resume("s")
}

func (s *scene) approvalEdited() {
	s.oneRefund()
	p := s.process()
	p.turn("s", "refund it")
	p.submit("s", cairn.Approve(s.open("s", "refund")).WithInput(words{"half of 42"}), cairn.OutcomeAccepted)
	p.resume("s")
}

// A step completes when all of its calls are answered, in any order, and not before.
func (s *scene) severalApprovals() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "refund", "1"), asks("c2", "refund", "2"), asks("c3", "refund", "3")),
		scripted.Text("Two of three.")), s.refund())}
	p := s.process()
	calls := p.turn("s", "refund all").Suspended.Calls
	p.submit("s", cairn.Approve(calls[2]), cairn.OutcomeAccepted)
	_, err := p.Resume(s.Context(), "s")
	s.want("resume with two calls open", err, cairn.ErrNotResumable)
	p.submit("s", cairn.Deny(calls[0], ""), cairn.OutcomeAccepted)
	_, err = p.Resume(s.Context(), "s")
	s.want("resume with one call open", err, cairn.ErrNotResumable)
	p.submit("s", cairn.Approve(calls[1]), cairn.OutcomeAccepted)
	p.resume("s")
}

// Approval is needed if the condition says so, fails or panics.
func (s *scene) approvalCondition() {
	needed := func(_ context.Context, _ *cairn.Call, in words) (bool, error) {
		switch in.Text {
		case "fails":
			return false, errors.New("who knows")
		case "panics":
			panic("boom")
		}
		return in.Text == "large", nil
	}
	pay := s.tool("pay", func(_ context.Context, _ *cairn.Call, in words) (string, error) { return "paid " + in.Text, nil },
		cairn.RequireApprovalIf(needed))
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "pay", "small"), asks("c2", "pay", "large"), asks("c3", "pay", "fails"), asks("c4", "pay", "panics")),
		scripted.Text("All paid.")), pay)}
	p := s.process()
	for _, call := range p.turn("s", "pay all").Suspended.Calls {
		p.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	}
	p.resume("s")
}

// Arguments that violate the schema go back to the model; no reviewer sees them.
func (s *scene) approvalBadInput() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Call("refund", map[string]int{"text": 1}).ID("c1"), scripted.Text("I cannot.")), s.refund())}
	s.process().turn("s", "refund it")
}

// A tool that would end the turn waits until its siblings are approved, and sees their state.
func (s *scene) approvalFinish() {
	approved := s.tool("remember", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "remembered", call.Append([]string{"notes"}, in.Text)
	}, cairn.RequireApproval())
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "close", "closed"), asks("c2", "note", "a"), asks("c3", "remember", "b"))), s.note(), approved, s.closing())}
	p := s.process()
	p.turn("s", "close it")
	p.submit("s", cairn.Approve(s.open("s", "remember")), cairn.OutcomeAccepted)
	p.resume("s")
}

// FinishTool waits for its siblings in the same way.
func (s *scene) approvalOutput() {
	a := bot(plays(
		scripted.Reply(asks("c1", "refund", "42"), scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c2"))), s.refund())
	a.Output = cairn.OutputOf[verdict]()
	s.agents = []*cairn.Agent{a}
	p := s.process()
	p.turn("s", "may I?")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
}

// Server tools run at once; the step is suspended for the others.
func (s *scene) mixed() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("One moment. "), asks("c1", "refund", "42"), asks("c2", "note", "n"), asks("c3", "locate", "here")),
		scripted.Text("Done."), scripted.Text("No more.")), s.note(), locate(), s.refund())}
	p := s.process()
	p.turn("s", "go")
	p.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
	p.turn("s", "one more")
}

// Each verb may come from another process. A process with the session in its cache notices the others' writes.
func (s *scene) otherProcess() {
	s.oneRefund()
	one, two, three := s.process(), s.process(), s.process()
	one.turn("s", "refund it")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	three.resume("s")
	one.turn("s", "thanks")
}

func (s *scene) doubleAnswer() {
	s.oneRefund()
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	one.submit("s", cairn.Deny(call, "no").By("ann"), cairn.OutcomeAccepted)
	second := two.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAlreadyCompleted)
	s.say("the first decision: %s by %s", second.Call.Answer.Kind, second.Call.Answer.Reviewer)
	two.resume("s")
	third := one.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAlreadyCompleted)
	s.say("the first decision: %s by %s", third.Call.Answer.Kind, third.Call.Answer.Reviewer)
}

// If several processes answer a call concurrently, exactly one answer is accepted.
func (s *scene) answerRace() {
	s.oneRefund()
	crowd := []*process{s.process(), s.process(), s.process()}
	crowd[0].turn("s", "refund it")
	call := s.open("s", "refund")
	var mu sync.Mutex
	outcomes := map[cairn.Outcome]int{}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			r, err := crowd[i%len(crowd)].Submit(s.Context(), "s", cairn.Approve(call))
			if err != nil {
				s.Errorf("submission %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Outcome]++
		})
	}
	all.Wait()
	s.say("%d accepted, %d already completed", outcomes[cairn.OutcomeAccepted], outcomes[cairn.OutcomeAlreadyCompleted])
	crowd[1].resume("s")
}

// A caller that sees a pending call can answer and resume at once, even if the suspending process is still in its
// hooks.
func (s *scene) answerAtOnce() {
	s.oneRefund()
	// The hook may run at any time from here on.
	one := s.process(func(o *engine.Options) { o.Hooks[0].RunSuspended = nil })
	two := s.process()
	run := one.start("s", "refund it")
	asked := s.awaitTool("s", cairn.EventToolApproval, "refund")
	call := cairn.CallRef{ID: asked.CallID, ApprovalID: asked.ApprovalID}
	two.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	two.resume("s")
	s.outcome(run)
	one.turn("s", "thanks")
}

// If several processes resume a session concurrently, one succeeds.
func (s *scene) resumeRace() {
	s.oneRefund()
	crowd := []*process{s.process(), s.process(), s.process()}
	crowd[0].turn("s", "refund it")
	crowd[1].submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	var mu sync.Mutex
	began := 0
	var all sync.WaitGroup
	for _, p := range crowd {
		all.Go(func() {
			run, err := p.Resume(s.Context(), "s")
			switch {
			case err == nil:
				s.outcome(run)
				mu.Lock()
				defer mu.Unlock()
				began++
			case !errors.Is(err, cairn.ErrAlreadyRunning) && !errors.Is(err, cairn.ErrNotResumable):
				s.Errorf("resume: %v", err)
			}
		})
	}
	all.Wait()
	s.say("%d of %d resumed", began, len(crowd))
}

// The input of a resume reaches the model with the answers.
func (s *scene) resumeWithInput() {
	s.oneRefund()
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.must(one.AddContext(s.Context(), "s", "The user is in a hurry."))
	two.resume("s", withText("and be quick"))
	one.turn("s", "thanks")
}

// A branch of a suspended session is an independent session without pending calls.
func (s *scene) branchPaused() {
	s.oneRefund()
	p := s.process()
	p.turn("s", "refund it")
	_, err := p.Branch(s.Context(), "s", "b")
	s.must(err)
	p.turn("b", "never mind")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	p.resume("s")
	s.roots = []string{"s", "b"}
	page, err := p.Inbox(s.Context(), callsOf("b"))
	s.must(err)
	s.say("%s", fmt.Sprint(len(page.Items), " calls of the branch are open"))
}
