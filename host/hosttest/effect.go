package hosttest

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// effects are scenarios of effectful tools, whose receiver counts what is sent to it.
var effects = []scenario{
	{"effect", (*scene).effect},
	{"effect-confirmed", (*scene).effectConfirmed},
	{"effect-refuted", (*scene).effectRefuted},
	{"effect-happened", (*scene).effectHappened},
	{"effect-did-not-happen", (*scene).effectDidNotHappen},
	{"effect-tried-again", (*scene).effectTriedAgain},
	{"effect-late", (*scene).effectLate},
	{"effect-stopped", (*scene).effectStopped},
	{"effect-replaced", (*scene).effectReplaced},
	{"effect-panicked", (*scene).effectPanicked},
	{"effect-child", (*scene).effectChild},
	{"effect-branch", (*scene).effectBranch},
	{"fork", (*scene).fork},
}

// receiver is what an effectful tool sends to.
type receiver struct {
	s    *scene
	keys []string // in the order of arrival
	// holds is the number of the attempt whose process dies, before it sends or after, or 0.
	holds  int
	before bool
}

// transfer is an effectful tool that sends to the receiver.
func (r *receiver) transfer(opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func("transfer", "Transfers money.", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
		n := r.s.count("transfer")
		if n == r.holds && r.before {
			<-ctx.Done()
			return "", ctx.Err()
		}
		r.s.mu.Lock()
		r.keys = append(r.keys, call.IdempotencyKey())
		r.s.mu.Unlock()
		if n == r.holds {
			<-ctx.Done()
			return "", ctx.Err()
		}
		if err := call.Append([]string{"transfers"}, in.Text); err != nil {
			return "", err
		}
		return "transferred " + in.Text, nil
	}, append([]cairn.ToolOption{cairn.Effectful()}, opts...)...)
}

// looks is a Confirm that knows what has arrived.
func (r *receiver) looks() cairn.ToolOption {
	return cairn.Confirm(func(_ context.Context, key string) (bool, string, error) {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		return slices.Contains(r.keys, key), "found it", nil
	})
}

// got checks how often the receiver was sent to, with how many keys.
func (r *receiver) got(times, keys int) {
	r.s.Helper()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	distinct := map[string]bool{}
	for _, key := range r.keys {
		distinct[key] = true
	}
	if len(r.keys) != times || len(distinct) != keys {
		r.s.Errorf("the receiver got %d transfers with %d keys, want %d with %d", len(r.keys), len(distinct), times, keys)
	}
}

// oneTransfer sets an agent that makes one transfer, and then a turn without any.
func (s *scene) oneTransfer(r *receiver, opts ...cairn.ToolOption) {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("Gladly. "), asks("c1", "transfer", "a")),
		scripted.Text("So it is."), scripted.Text("You are welcome.")), r.transfer(opts...))}
}

// dieSending starts a run whose process dies in the receiver's attempt.
func (s *scene) dieSending(r *receiver) {
	r.holds = 1
	one := s.process(s.mortal())
	run := one.start("s", "send it")
	testclock.Await(s.T, "the transfer", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ran["transfer"] == 1 && len(r.keys) == map[bool]int{true: 0, false: 1}[r.before]
	})
	one.die()
	one.leave() // otherwise it would keep running until its lease lapses
	s.awaitDeath(run)
}

// Calls beside each other have rows of their own, also one that must be approved first.
func (s *scene) effect() {
	r := &receiver{s: s}
	approve := cairn.RequireApprovalIf(func(_ context.Context, _ *cairn.Call, in words) (bool, error) { return in.Text == "c", nil })
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "transfer", "a"), asks("c2", "note", "n"), asks("c3", "transfer", "c")),
		scripted.Text("All sent.")), r.transfer(approve, cairn.Serial()), s.note())}
	p := s.process()
	p.turn("s", "send both")
	r.got(1, 1)
	p.submit("s", cairn.Approve(s.open("s", "transfer")), cairn.OutcomeAccepted)
	s.process().resume("s")
	r.got(2, 2)
}

// The process dies after the transfer was sent: Confirm finds it, and it is not sent again.
func (s *scene) effectConfirmed() {
	r := &receiver{s: s}
	s.oneTransfer(r, r.looks())
	s.dieSending(r)
	s.process().work()
	s.awaitEnd("s", 1)
	r.got(1, 1)
}

// The process dies before the transfer was sent: Confirm does not find it, and it is sent.
func (s *scene) effectRefuted() {
	r := &receiver{s: s, before: true}
	s.oneTransfer(r, r.looks())
	s.dieSending(r)
	s.process().work()
	s.awaitEnd("s", 1)
	r.got(1, 1)
}

// settledBy lets a person settle a transfer that a process died in.
func (s *scene) settledBy(r *receiver, answer func(cairn.CallRef) cairn.Submission, opts ...cairn.ToolOption) {
	s.oneTransfer(r, opts...)
	s.dieSending(r)
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	r.got(1, 1)
	call := s.open("s", "transfer")
	if call.Kind != cairn.CallEffect || call.ToolCallID != "c1" || call.Prompt == "" {
		s.Errorf("the call is %+v", call)
	}
	two.submit("s", answer(call).By("ann"), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

func (s *scene) effectHappened() {
	r := &receiver{s: s}
	s.settledBy(r, func(c cairn.CallRef) cairn.Submission { return cairn.Happened(c, "no. 7") })
	r.got(1, 1)
}

func (s *scene) effectDidNotHappen() {
	r := &receiver{s: s}
	s.settledBy(r, func(c cairn.CallRef) cairn.Submission { return cairn.DidNotHappen(c, "it was returned") }, cairn.AssignTo(cairn.AnyReviewer, "ann", "bob"))
	r.got(1, 1)
}

// Only a person's word leads to a second transfer, with the same key.
func (s *scene) effectTriedAgain() {
	r := &receiver{s: s}
	s.settledBy(r, cairn.TryAgain)
	r.got(2, 1)
}

// Nobody finds out in time: the model reads that the outcome is unknown.
func (s *scene) effectLate() {
	r := &receiver{s: s}
	s.oneTransfer(r, cairn.WaitAtMost(s.soon))
	s.dieSending(r)
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	s.later()
	s.awaitEnd("s", 2)
	r.got(1, 1)
}

// A stop does not wait for a person: the effect stays unknown until an operator settles it.
func (s *scene) effectStopped() {
	r := &receiver{s: s, holds: 1}
	s.oneTransfer(r, r.looks())
	one, two := s.process(), s.process()
	run := one.start("s", "send it")
	s.atWork("transfer")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	page, err := two.Effects(s.Context(), engine.EffectQuery{States: []cairn.EffectState{cairn.EffectUnknown}})
	s.must(err)
	if len(page.Items) != 1 {
		s.Fatalf("%d effects are unknown, want one", len(page.Items))
	}
	_, err = two.SettleEffect(s.Context(), "s", page.Items[0].ID, engine.EffectSettlement{Happened: true, By: "ann", Notes: "seen"})
	s.must(err)
	two.turn("s", "and now?")
	r.got(1, 1)
}

// A new turn ends the wait for a person.
func (s *scene) effectReplaced() {
	r := &receiver{s: s}
	s.oneTransfer(r)
	s.dieSending(r)
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.turn("s", "never mind", engine.WithOnWaiting(engine.WaitingWithdraw))
	r.got(1, 1)
}

// A panic says nothing about the effect. Confirm does.
func (s *scene) effectPanicked() {
	sent := false
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "wire", "a"), scripted.Text("So it is.")),
		s.tool("wire", func(context.Context, *cairn.Call, words) (string, error) {
			if !sent {
				sent = true
				panic("cable cut")
			}
			return "wired", nil
		}, cairn.Effectful(), cairn.Retry(cairn.RetryPolicy{First: 1, When: func(error) bool { return true }}),
			cairn.Confirm(func(context.Context, string) (bool, string, error) { return false, "", nil })))}
	s.process().turn("s", "wire it")
}

// The effect of a sub-agent's tool is settled through the root.
func (s *scene) effectChild() {
	r := &receiver{s: s, holds: 1}
	helper := agent("helper", plays(asks("c1", "transfer", "a"), scripted.Text("It is done.")), r.transfer())
	s.agents = []*cairn.Agent{bot(plays(scripted.Call("helper", map[string]string{"input": "send"}).ID("k1"), scripted.Text("So it is.")), cairn.SubAgent(helper)), helper}
	s.dieSending(r)
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.submit("s", cairn.Happened(s.open("s", "transfer"), nil), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
	r.got(1, 1)
}

// In a branch, a transfer asks first.
func (s *scene) effectBranch() {
	r := &receiver{s: s}
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "transfer", "a"), scripted.Text("Sent."), asks("c2", "transfer", "a"), scripted.Text("Sent.")), r.transfer())}
	p := s.process()
	p.turn("s", "send it")
	_, err := p.Branch(s.Context(), "s", "t")
	s.must(err)
	s.roots = []string{"s", "t"}
	p.turn("t", "send it again")
	r.got(1, 1)
	p.submit("t", cairn.Approve(s.open("t", "transfer")), cairn.OutcomeAccepted)
	s.process().resume("t")
	r.got(2, 2)
}

// A fork continues a session of another process with another answer, model and system prompt, and keeps the last two in
// further processes. It sends nothing before a person has approved it there.
func (s *scene) fork() {
	s.roots = []string{"s", "f"}
	r := &receiver{s: s}
	voice := func(name string) cairn.Model {
		return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if req.Messages[len(req.Messages)-1].Text() == "send it" {
				return asks("c1", "transfer", "a")
			}
			return scripted.Text("I am " + name + ". " + req.System)
		})
	}
	a := bot(voice("the usual one"), r.transfer(cairn.RequireApproval()))
	a.Instructions, a.Models = "Be kind.", map[string]cairn.Model{"deep": voice("deep")}
	s.agents = []*cairn.Agent{a}
	one, two := s.process(), s.process()
	one.turn("s", "send it")
	call := s.open("s", "transfer")
	one.submit("s", cairn.Deny(call, "not now"), cairn.OutcomeAccepted)
	one.resume("s")
	run, err := two.Fork(s.Context(), "s", "f", engine.WithBranchAnswer(cairn.Approve(call)), engine.WithBranchModel("deep"), engine.WithBranchInstructions("Be strict."))
	s.must(err)
	s.outcome(run)
	r.got(0, 0)
	one.submit("f", cairn.Approve(s.open("f", "transfer")), cairn.OutcomeAccepted)
	s.process().resume("f")
	r.got(1, 1)
	one.turn("f", "thanks")
	two.turn("s", "thanks")
}
