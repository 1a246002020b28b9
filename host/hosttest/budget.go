package hosttest

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// budgets are scenarios of agents whose budget is used up.
var budgets = []scenario{
	{"budget-raised", (*scene).budgetRaised},
	{"budget-raised-twice", (*scene).budgetRaisedTwice},
	{"budget-ended", (*scene).budgetEnded},
	{"budget-late", (*scene).budgetLate},
	{"budget-fails", (*scene).budgetFails},
	{"budget-replaced", (*scene).budgetReplaced},
	{"budget-stopped", (*scene).budgetStopped},
	{"budget-crashed", (*scene).budgetCrashed},
	{"budget-child", (*scene).budgetChild},
	{"budget-child-ended", (*scene).budgetChildEnded},
	{"budget-tree", (*scene).budgetTree},
}

// priced gives the scripted model a price: a dollar for a million tokens that it reads, ten for those that it writes.
func priced(o *engine.Options) {
	o.Models = cairn.ModelTable{{Provider: "scripted", Name: "scripted", Window: 1_000_000, AsOf: "2026-11-01",
		Price: cairn.Price{Input: 1_000_000, Output: 10_000_000}}}
}

// dear is a reply that costs 40 cents.
func dear(s scripted.Step) scripted.Step { return s.Usage(300_000, 10_000) }

// cheap is a reply that costs 2 cents.
func cheap(s scripted.Step) scripted.Step { return s.Usage(10_000, 1_000) }

// spender sets an agent that works in two steps, of which the second one does not fit its budget.
func (s *scene) spender(b cairn.Budget) {
	a := bot(plays(dear(scripted.Reply(scripted.Text("Let me see. "), asks("c1", "note", "a"))), cheap(scripted.Text("Here you are.")),
		cheap(scripted.Text("You are welcome."))), s.note())
	a.Budget = b
	s.agents = []*cairn.Agent{a}
}

var halfDollar = cairn.Budget{USD: 0.40}

// asked returns the report of the one call that asks about a budget.
func (s *scene) asked(root string) (cairn.CallRef, cairn.BudgetReport) {
	s.Helper()
	call := s.open(root, cairn.BudgetTool)
	var r cairn.BudgetReport
	s.must(json.Unmarshal(call.Payload, &r))
	if call.Kind != cairn.CallBudget || call.ToolCallID != call.ID || call.Prompt == "" {
		s.Errorf("the call is %+v", call)
	}
	return call, r
}

// The second model call does not fit. A person raises the budget, and another process continues. The next turn begins anew.
func (s *scene) budgetRaised() {
	s.spender(halfDollar)
	one := s.process(priced)
	one.turn("s", "look it up")
	call, r := s.asked("s")
	if r.Unit != cairn.BudgetUSD || r.Spent != 0.4 || r.Limit != 0.4 || r.Estimate < 0.04 || r.Per != "turn" || r.SessionID != "s" {
		s.Errorf("the report is %+v", r)
	}
	one.submit("s", cairn.RaiseBudget(call, 0.5).By("ann"), cairn.OutcomeAccepted)
	two := s.process(priced)
	two.resume("s")
	two.turn("s", "thanks")
}

// A raise that is too small leads to another call.
func (s *scene) budgetRaisedTwice() {
	s.spender(halfDollar)
	p := s.process(priced)
	p.turn("s", "look it up")
	call, _ := s.asked("s")
	p.submit("s", cairn.RaiseBudget(call, 0.01), cairn.OutcomeAccepted)
	p.resume("s")
	again, r := s.asked("s")
	if again.ID == call.ID || r.Limit != 0.41 || r.Spent != 0.4 {
		s.Errorf("the second call is %+v", again)
	}
	p.submit("s", cairn.RaiseBudget(again, 0), cairn.OutcomeAccepted)
	s.process(priced).resume("s")
}

// A person ends the turn. The session takes the next one.
func (s *scene) budgetEnded() {
	s.spender(halfDollar)
	p := s.process(priced)
	p.turn("s", "look it up")
	call, _ := s.asked("s")
	p.submit("s", cairn.EndTurn(call), cairn.OutcomeAccepted)
	s.process(priced).resume("s")
	p.turn("s", "thanks")
}

// Nobody decides in time: the turn ends.
func (s *scene) budgetLate() {
	s.spender(halfDollar)
	one := s.process(priced, func(o *engine.Options) { o.WaitAtMost = s.soon })
	one.turn("s", "look it up")
	s.asked("s")
	s.later()
	if res := s.process(priced).resume("s"); res.Status != cairn.RunInterrupted {
		s.Errorf("the run is %s", res.Status)
	}
}

// A budget that fails the run. A retry has a budget of its own.
func (s *scene) budgetFails() {
	s.spender(cairn.Budget{Tokens: 320_000, OnLimit: cairn.BudgetFails, WarnAt: 0.99})
	p := s.process(priced)
	res := p.turn("s", "look it up")
	if res.Error == nil || res.Error.Code != cairn.ErrBudget {
		s.Errorf("the error is %v", res.Error)
	}
	p.retry("s")
}

// A new turn takes the place of one that waits for a budget.
func (s *scene) budgetReplaced() {
	s.spender(halfDollar)
	p := s.process(priced)
	p.turn("s", "look it up")
	s.asked("s")
	s.process(priced).turn("s", "never mind", engine.WithOnWaiting(engine.WaitingWithdraw))
}

// A stop ends the wait, and the run that it stops is resumed by hand: the budget still counts.
func (s *scene) budgetStopped() {
	s.spender(halfDollar)
	p := s.process(priced)
	p.turn("s", "look it up")
	s.asked("s")
	s.must(p.Interrupt(s.Context(), "s", "enough"))
	p.resume("s")
	s.asked("s")
}

// The process that resumes the run dies in its first step: the next one does not ask again.
func (s *scene) budgetCrashed() {
	s.spender(halfDollar)
	one := s.process(priced)
	one.turn("s", "look it up")
	call, _ := s.asked("s")
	one.submit("s", cairn.RaiseBudget(call, 0.5), cairn.OutcomeAccepted)
	two := s.process(priced, s.mortal())
	two.dieBefore(step("s", 1))
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
	s.process(priced).work()
	s.awaitEnd("s", 2)
}

// spenders sets an agent whose sub-agent uses up its budget.
func (s *scene) spenders(b cairn.Budget) {
	helper := agent("helper", plays(dear(asks("h1", "note", "a")), cheap(scripted.Text("It is done."))), s.note())
	a := bot(plays(cheap(delegates("k1", "helper")), cheap(scripted.Text("So it is."))), cairn.SubAgent(helper))
	a.Budget = b
	s.agents = []*cairn.Agent{a, helper}
}

// A sub-agent spends its parent's budget. The raise counts for the parent, too.
func (s *scene) budgetChild() {
	s.spenders(halfDollar)
	p := s.process(priced)
	p.turn("s", "have it done")
	call, r := s.asked("s")
	if call.SessionID != s.child("s") || r.SessionID != "s" || r.Spent < 0.4 {
		s.Errorf("the call is %+v, its report %+v", call, r)
	}
	p.submit("s", cairn.RaiseBudget(call, 1), cairn.OutcomeAccepted)
	s.process(priced).resume("s")
}

// The turn of a sub-agent is ended, so its parent is asked in turn.
func (s *scene) budgetChildEnded() {
	s.spenders(halfDollar)
	p := s.process(priced)
	p.turn("s", "have it done")
	call, _ := s.asked("s")
	p.submit("s", cairn.EndTurn(call), cairn.OutcomeAccepted)
	p.resume("s")
	call, r := s.asked("s")
	if call.SessionID != "s" || r.Spent < 0.42 {
		s.Errorf("the call is %+v, its report %+v", call, r)
	}
	p.submit("s", cairn.RaiseBudget(call, 1), cairn.OutcomeAccepted)
	s.process(priced).resume("s")
}

// A budget of a tree counts all turns, and a raise lasts.
func (s *scene) budgetTree() {
	s.agents = []*cairn.Agent{bot(plays(scripted.Text("One."), scripted.Text("Two."), scripted.Text("Three.")))}
	s.agents[0].Budget = cairn.Budget{Steps: 1, Per: cairn.PerTree, Reviewers: []string{"ann"}}
	p := s.process()
	p.turn("s", "one")
	p.turn("s", "two")
	call, _ := s.asked("s")
	p.submit("s", cairn.RaiseBudget(call, 2).By("ann"), cairn.OutcomeAccepted)
	s.process().resume("s")
	p.turn("s", "three")
}
