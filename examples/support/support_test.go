package support

import (
	"testing"

	"github.com/cairn-agents/cairn/cairntest"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestRefundNeedsApproval(t *testing.T) {
	model := scripted.New(scripted.Call("refund", Refund{Order: 42}), scripted.Text("You have your money back."))
	s := cairntest.New(t, Agent(model))
	s.Say(t, "Order 42 arrived broken.")
	if got := cairntest.State[Orders](t, s); len(got.Refunded) != 0 {
		t.Errorf("refunded %v before it was approved", got.Refunded)
	}
	s.Restart(t) // the approval comes a day later, in another process
	if res := s.Approve(t); res.Text != "You have your money back." {
		t.Errorf("the reply is %q", res.Text)
	}
	if got := cairntest.State[Orders](t, s); len(got.Refunded) != 1 {
		t.Errorf("refunded %v, want order 42", got.Refunded)
	}
}
