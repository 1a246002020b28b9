package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// refusals are scenarios of input that is refused. Each error explains why, and nothing changes.
var refusals = []scenario{
	{"bad-submissions", (*scene).badSubmissions},
	{"answer-settled", (*scene).answerSettled},
	{"answer-stopped", (*scene).answerStopped},
	{"answer-deleted", (*scene).answerDeleted},
	{"child-verbs", (*scene).childVerbs},
	{"guesses", (*scene).guesses},
}

// refused checks that a submission is refused and that the trees are unchanged.
func (p *process) refused(what, root string, answer cairn.Submission, outcome cairn.Outcome, want cairn.Code) {
	s := p.s
	s.Helper()
	before := s.trees()
	r, err := p.Submit(s.Context(), root, answer)
	if r.Outcome != outcome {
		s.Fatalf("%s: %s, want %s; error %v", what, r.Outcome, outcome, err)
	}
	s.want(what, err, want)
	if after := s.trees(); after != before {
		s.Errorf("%s changed something:\n%s", what, difference(before, after))
	}
}

// trees describes all trees, with the versions of sessions and calls.
func (s *scene) trees() string {
	s.Helper()
	var b strings.Builder
	for _, root := range s.roots {
		t, err := readTree(context.Background(), s.st, s.log, root)
		s.must(err)
		for _, r := range t.sessions {
			raw, err := json.Marshal(r.row)
			s.must(err)
			fmt.Fprintf(&b, "%s\n", raw)
		}
		raw, err := json.MarshalIndent(t.calls, "", " ")
		s.must(err)
		fmt.Fprintf(&b, "%s\n%s", raw, t.describe(nil))
	}
	return b.String()
}

func (s *scene) badSubmissions() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "refund", "42"), asks("c2", "locate", "here"), asks("c3", "refund", "43")),
		scripted.Text("Good.")), s.refund(cairn.AssignTo(cairn.AnyReviewer, "ann")), locate())}
	one, two := s.process(), s.process()
	calls := one.turn("s", "go").Suspended.Calls
	refund, locate, other := calls[0], calls[1], calls[2]
	big := strings.Repeat("x", cairn.MaxAnswerBytes)
	for _, bad := range []struct {
		what    string
		root    string
		answer  cairn.Submission
		outcome cairn.Outcome
		want    cairn.Code
	}{
		{"an unknown call", "s", cairn.Approve(cairn.CallRef{ID: "call_x", ApprovalID: "approval_x"}), cairn.OutcomeUnknownCall, cairn.ErrNotFound},
		{"an unknown root", "t", cairn.Approve(refund).By("ann"), cairn.OutcomeUnknownCall, cairn.ErrNotFound},
		{"an empty root", "", cairn.Approve(refund).By("ann"), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"no call", "s", cairn.Approve(cairn.CallRef{ApprovalID: refund.ApprovalID}), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"no type", "s", cairn.Submission{CallID: refund.ID}, cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"a result for an approval", "s", cairn.Answer(refund, place{"Oslo"}).By("ann"), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"an approval of a client tool", "s", cairn.Approve(cairn.CallRef{ID: locate.ID, ApprovalID: refund.ApprovalID}), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"another call's approval id", "s", cairn.Approve(cairn.CallRef{ID: refund.ID, ApprovalID: other.ApprovalID}).By("ann"), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"no approval id", "s", cairn.Approve(cairn.CallRef{ID: refund.ID}).By("ann"), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"a reviewer who is not assigned", "s", cairn.Approve(refund).By("eve"), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"nobody, where somebody is assigned", "s", cairn.Deny(refund, "no"), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"an input that violates the tool's schema", "s", cairn.Approve(refund).By("ann").WithInput(place{"Oslo"}), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"an input for a denial", "s", cairn.Deny(refund, "no").By("ann").WithInput(words{"43"}), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"a result that violates its schema", "s", cairn.Answer(locate, words{"Oslo"}), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"a result that is no JSON", "s", cairn.Submission{Type: cairn.SubmitResult, CallID: locate.ID, Result: []byte("Oslo")}, cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"a result that does not encode", "s", cairn.Answer(locate, func() {}), cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"a result and an error", "s", cairn.Submission{Type: cairn.SubmitResult, CallID: locate.ID, Result: []byte(`{}`), Error: "e"}, cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"neither result nor error", "s", cairn.Submission{Type: cairn.SubmitResult, CallID: locate.ID}, cairn.OutcomeInvalid, cairn.ErrInvalid},
		{"an oversized result", "s", cairn.Answer(locate, place{big}), cairn.OutcomeInvalid, cairn.ErrTooLarge},
		{"an oversized reason", "s", cairn.Deny(refund, big+"x").By("ann"), cairn.OutcomeInvalid, cairn.ErrTooLarge},
	} {
		two.refused(bad.what, bad.root, bad.answer, bad.outcome, bad.want)
	}
	one.submit("s", cairn.Approve(refund).By("ann"), cairn.OutcomeAccepted)
	one.submit("s", cairn.Answer(locate, place{"Oslo"}), cairn.OutcomeAccepted)
	one.submit("s", cairn.Deny(other, "").By("ann"), cairn.OutcomeAccepted)
	two.resume("s")
}

// A settled call stays settled.
func (s *scene) answerSettled() {
	s.oneRefund()
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	one.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	two.resume("s")
	before := s.trees()
	one.submit("s", cairn.Deny(call, "changed my mind"), cairn.OutcomeAlreadyCompleted)
	if after := s.trees(); after != before {
		s.Errorf("an answer to a settled call changed something:\n%s", difference(before, after))
	}
	one.refused("a result for a settled approval", "s", cairn.Answer(call, place{"Oslo"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	_, err := one.Resume(s.Context(), "s")
	s.want("resume of a completed session", err, cairn.ErrNotResumable)
}

func (s *scene) answerStopped() {
	s.oneRefund()
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	one.refused("an answer to a stopped session", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
}

// Deleting a tree hides its calls; restoring it brings them back.
func (s *scene) answerDeleted() {
	s.family(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	s.must(two.Delete(s.Context(), "s"))
	s.roots = nil
	one.refused("an answer to a deleted session", "s", cairn.Approve(call), cairn.OutcomeUnknownCall, cairn.ErrNotFound)
	_, err := one.Resume(s.Context(), "s")
	s.want("resume of a deleted session", err, cairn.ErrNotFound)
	page, err := one.Inbox(s.Context(), callsOf(""))
	s.must(err)
	s.say("%d calls are open", len(page.Items))
	_, err = one.Execute(s.Context(), "s", "bot", cairn.Text("hello again"))
	s.want("a turn on a deleted session", err, cairn.ErrDeleted)
	if _, err := two.Restore(s.Context(), "s"); err != nil {
		s.Fatal(err)
	}
	s.roots = []string{"s"}
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
}

// Only the root may drive a sub-agent's session.
func (s *scene) childVerbs() {
	s.family(s.refund())
	p := s.process()
	p.turn("s", "refund it")
	child, call := s.child("s"), s.open("s", "refund")
	ctx := s.Context()
	p.refused("an answer to the child", child, cairn.Approve(call), cairn.OutcomeUnknownCall, cairn.ErrNotFound)
	before := s.trees()
	_, err := p.Resume(ctx, child)
	s.want("resume of the child", err, cairn.ErrInvalid)
	_, err = p.Execute(ctx, child, "helper", cairn.Text("hello"))
	s.want("a turn of the child", err, cairn.ErrInvalid)
	_, err = p.Retry(ctx, child)
	s.want("retry of the child", err, cairn.ErrInvalid)
	if after := s.trees(); after != before {
		s.Errorf("that changed something:\n%s", difference(before, after))
	}
	p.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	p.resume("s")
}

// The ids of one session cannot be derived from those of another, however similar the sessions are.
func (s *scene) guesses() {
	s.family(s.refund())
	p := s.process()
	s.roots = []string{"s", "t"}
	type secrets struct{ child, call, approval string }
	var seen []secrets
	for _, root := range s.roots {
		p.turn(root, "refund it")
		call := s.open(root, "refund")
		seen = append(seen, secrets{s.child(root), call.ID, call.ApprovalID})
	}
	if seen[0].child == seen[1].child || seen[0].call == seen[1].call || seen[0].approval == seen[1].approval {
		s.Errorf("two sessions share an id: %v", seen)
	}
	for _, root := range s.roots {
		row, err := driver.Load(s.Context(), s.st, root)
		s.must(err)
		if row.Secret == "" || strings.Contains(s.trees(), row.Secret) {
			s.Errorf("the secret of session %s is not kept", root)
		}
	}
}
