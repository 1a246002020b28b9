package hosttest

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// reviews are scenarios of approvals by several people.
var reviews = []scenario{
	{"assigned", (*scene).assigned},
	{"quorum-all", (*scene).quorumAll},
	{"quorum-all-denied", (*scene).quorumAllDenied},
	{"quorum-majority", (*scene).quorumMajority},
	{"quorum-majority-denied", (*scene).quorumMajorityDenied},
	{"claim", (*scene).claim},
	{"inbox", (*scene).inbox},
}

func (s *scene) assigned() {
	s.oneRefund(cairn.AssignTo(cairn.AnyReviewer, "ann", "bob"))
	p := s.process()
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	_, err := p.Submit(s.Context(), "s", cairn.Approve(call))
	s.want("approved by nobody", err, cairn.ErrInvalid)
	_, err = p.Submit(s.Context(), "s", cairn.Approve(call).By("eve"))
	s.want("approved by eve", err, cairn.ErrInvalid)
	p.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAccepted)
	p.resume("s")
}

func (s *scene) quorumAll() {
	s.oneRefund(cairn.AssignTo(cairn.AllReviewers, "ann", "bob"))
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	one.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAccepted)
	two.submit("s", cairn.Deny(call, "or not").By("bob"), cairn.OutcomeAlreadyCompleted)
	_, err := two.Resume(s.Context(), "s")
	s.want("resume with one vote missing", err, cairn.ErrNotResumable)
	_, err = two.Submit(s.Context(), "s", cairn.Approve(call).By("ann").WithInput(words{"43"}))
	s.want("a vote for another input", err, cairn.ErrInvalid)
	two.submit("s", cairn.Approve(call).By("ann"), cairn.OutcomeAccepted)
	one.resume("s")
}

func (s *scene) quorumAllDenied() {
	s.oneRefund(cairn.AssignTo(cairn.AllReviewers, "ann", "bob", "cleo"))
	p := s.process()
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	p.submit("s", cairn.Approve(call).By("ann"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Deny(call, "no").By("cleo"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAlreadyCompleted)
	p.resume("s")
}

func (s *scene) quorumMajority() {
	s.oneRefund(cairn.AssignTo(cairn.MostReviewers, "ann", "bob", "cleo"))
	p := s.process()
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	p.submit("s", cairn.Deny(call, "no").By("ann"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(call).By("cleo"), cairn.OutcomeAccepted)
	p.resume("s")
}

// The call is settled as soon as a majority is no longer possible.
func (s *scene) quorumMajorityDenied() {
	s.oneRefund(cairn.AssignTo(cairn.MostReviewers, "ann", "bob", "cleo", "dan"))
	p := s.process()
	p.turn("s", "refund it")
	call := s.open("s", "refund")
	p.submit("s", cairn.Deny(call, "no").By("ann"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Deny(call, "never").By("dan"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Approve(call).By("cleo"), cairn.OutcomeAlreadyCompleted)
	p.resume("s")
}

func (s *scene) claim() {
	s.oneRefund()
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	ctx := s.Context()
	claim := func(p *process, who string) error {
		_, err := p.Claim(ctx, "s", call.ID, who, time.Hour)
		return err
	}
	s.must(claim(one, "ann"))
	s.want("a claim of what is claimed", claim(two, "bob"), cairn.ErrClaimed)
	_, err := two.Submit(ctx, "s", cairn.Approve(call).By("bob"))
	s.want("an answer to what is claimed", err, cairn.ErrClaimed)
	_, err = two.Release(ctx, "s", call.ID, "bob")
	s.want("a release of what is another's", err, cairn.ErrClaimed)
	_, err = two.Release(ctx, "s", call.ID, "ann")
	s.must(err)
	s.must(claim(two, "bob"))
	one.submit("s", cairn.Approve(call).By("bob"), cairn.OutcomeAccepted)
	s.want("a claim of what is answered", claim(one, "ann"), cairn.ErrInvalid)
	one.resume("s")
}

// The inbox lists open calls of all sessions and kinds.
func (s *scene) inbox() {
	s.oneRefund(cairn.AssignTo(cairn.AnyReviewer, "ann", "bob"))
	one, two := s.process(), s.process()
	s.roots = []string{"s1", "s2", "s3"}
	for _, id := range s.roots {
		one.turn(id, "refund it")
	}
	list := func(what string, q driver.CallQuery) {
		page, err := two.Inbox(s.Context(), q)
		s.must(err)
		sessions := ""
		for _, c := range page.Items {
			sessions += " " + c.SessionID
		}
		s.say("%s:%s", what, sessions)
	}
	_, err := two.Claim(s.Context(), "s2", s.open("s2", "refund").ID, "bob", time.Hour)
	s.must(err)
	list("all", driver.CallQuery{})
	list("for ann", driver.CallQuery{Reviewer: "ann"})
	list("for eve", driver.CallQuery{Reviewer: "eve"})
	list("claimed by bob", driver.CallQuery{Claimed: "bob"})
	list("of another tool", driver.CallQuery{Tool: "note"})
	two.submit("s1", cairn.Deny(s.open("s1", "refund"), "").By("ann"), cairn.OutcomeAccepted)
	list("all", driver.CallQuery{})
	list("answered", driver.CallQuery{Statuses: []cairn.CallStatus{cairn.CallAnswered}})
	for _, id := range s.roots[1:] {
		two.submit(id, cairn.Deny(s.open(id, "refund"), "").By("bob"), cairn.OutcomeAccepted)
	}
	for _, id := range s.roots {
		two.resume(id)
	}
	list("all", driver.CallQuery{})
}
