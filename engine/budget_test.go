package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// atPrices gives the scripted model a price of a dollar for a million tokens of input, and of ten for output.
var atPrices = with(func(o *engine.Options) {
	o.Models = cairn.ModelTable{{Provider: "scripted", Name: "scripted", AsOf: "2026-11-01", Price: cairn.Price{Input: 1_000_000, Output: 10_000_000}}}
})

// openBudget returns the one open call of a tree that asks about a budget, with its report.
func openBudget(t *testing.T, eng *engine.Engine, root string) (cairn.PendingCall, cairn.BudgetReport) {
	t.Helper()
	page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: root, Kind: cairn.CallBudget})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d open calls about a budget, want one; error %v", len(page.Items), err)
	}
	return page.Items[0], decode[cairn.BudgetReport](t, page.Items[0].Payload)
}

// answerBudgets answers the open calls of a tree and resumes it, until its run has ended.
func answerBudgets(t *testing.T, eng *engine.Engine, root string, answer func(cairn.CallRef) cairn.Submission) (res *cairn.Result, asked int) {
	t.Helper()
	for {
		page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: root, Kind: cairn.CallBudget})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range page.Items {
			if r, err := eng.Submit(t.Context(), root, answer(call.CallRef)); err != nil || r.Outcome != cairn.OutcomeAccepted {
				t.Fatal(r, err)
			}
			asked++
		}
		run, err := eng.Resume(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if res = wait(t, run); res.Status != cairn.RunSuspended {
			return res, asked
		}
	}
}

func TestBudgetCostsNoCallOfTheStore(t *testing.T) {
	t.Parallel()
	cost := func(b cairn.Budget) []string {
		st := tapOn(nil)
		agent := bot(counter(5), note())
		agent.Budget = b
		eng := open(t, st, agent, atPrices)
		wantStatus(t, turn(t, eng, "s", "one"), cairn.RunCompleted, cairn.ReasonReply)
		wantStatus(t, turn(t, eng, "s", "two"), cairn.RunCompleted, cairn.ReasonReply)
		return st.seen()
	}
	free, limited := cost(cairn.Budget{}), cost(cairn.Budget{USD: 1, Steps: 9, Tokens: 1e6, Time: time.Hour})
	if !slices.Equal(free, limited) {
		t.Errorf("with a budget: %v\nwithout: %v", limited, free)
	}
}

func TestBudgetInDollarsNeedsPrices(t *testing.T) {
	t.Parallel()
	free := bot(counter(1))
	free.Budget = cairn.Budget{USD: 1}
	sub := bot(counter(1), cairn.SubAgent(&cairn.Agent{Name: "helper", Model: counter(1)}))
	sub.Budget = free.Budget
	unpriced := bot(counter(1))
	unpriced.Budget = cairn.Budget{USD: 1, Unpriced: true}
	tokens := bot(counter(1))
	tokens.Budget = cairn.Budget{Tokens: 1e6}
	for name, c := range map[string]struct {
		agent *cairn.Agent
		says  string
	}{
		"no price":             {free, `agent "bot": budget.usd: the model scripted:scripted of agent "bot" has no price`},
		"a sub-agent's model":  {sub, `has no price`},
		"no price is needed":   {unpriced, ""},
		"tokens have no price": {tokens, ""},
	} {
		_, err := engine.New(memstore.New(nil), []*cairn.Agent{c.agent}, nil)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.says)
		}
	}
	other := *free
	other.Model = &unlisted{Model: counter(1)}
	sub = bot(counter(1), cairn.SubAgent(&cairn.Agent{Name: "helper", Model: other.Model}))
	sub.Budget = free.Budget
	o := &engine.Options{}
	atPrices(o)
	if _, err := engine.New(memstore.New(nil), []*cairn.Agent{sub}, o); err == nil || !strings.Contains(err.Error(), `else:where of agent "helper" has no price`) {
		t.Errorf("a sub-agent's model without a price: error %v", err)
	}
}

// unlisted is a model that the table does not have.
type unlisted struct{ cairn.Model }

func (e *unlisted) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "else", Name: "where"} }

func TestBudgetOfARunBeginsAnewWithAResume(t *testing.T) {
	t.Parallel()
	agent := bot(counter(6), note())
	agent.Budget = cairn.Budget{Steps: 2, Per: cairn.PerRun}
	st := tapOn(nil)
	eng := open(t, st, agent)
	wantStatus(t, turn(t, eng, "s", "go"), cairn.RunSuspended, cairn.ReasonCalls)
	res, asked := answerBudgets(t, eng, "s", func(c cairn.CallRef) cairn.Submission { return cairn.RaiseBudget(c, 1) })
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	var steps []int
	for _, run := range runsOf(t, st, "s") {
		steps = append(steps, run.Steps)
	}
	if want := []int{2, 3, 1}; asked != 2 || !slices.Equal(steps, want) {
		t.Errorf("runs of %v steps and %d calls, want %v and 2", steps, asked, want)
	}
	wantSound(t, st, "s")
}

// A call that no run may make is made once the budget of a run was raised by enough.
func TestRaiseOfABudgetOfARunIsForTheRunThatResumesIt(t *testing.T) {
	t.Parallel()
	agent := bot(counter(1))
	agent.Budget = cairn.Budget{Tokens: 100, Per: cairn.PerRun}
	eng := open(t, tapOn(nil), agent)
	wantStatus(t, turn(t, eng, "s", "go"), cairn.RunSuspended, cairn.ReasonCalls)
	call, _ := openBudget(t, eng, "s")
	if _, err := eng.Submit(t.Context(), "s", cairn.RaiseBudget(call.CallRef, 10_000)); err != nil {
		t.Fatal(err)
	}
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
}

// The time that a run waits for a person does not count.
func TestBudgetOfTimeCountsRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := scripted.Reply(scripted.Pause(40*time.Second), scripted.Call("note", in{"x"}))
		agent := bot(scripted.New(slow, slow, scripted.Text("done")), note())
		agent.Budget = cairn.Budget{Time: time.Minute}
		st := tapOn(nil)
		eng := open(t, st, agent)
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunSuspended, cairn.ReasonCalls)
		testclock.Advance(time.Hour)
		call, r := openBudget(t, eng, "s")
		if r.Unit != cairn.BudgetTime || r.Spent < 80 || r.Spent > 81 {
			t.Errorf("the report is %+v", r)
		}
		if _, err := eng.Submit(t.Context(), "s", cairn.RaiseBudget(call.CallRef, 30)); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantSound(t, st, "s")
	})
}

// Calls whose reply was not used count, and the call that repeats them does not fit.
func TestBudgetCountsDiscardedCalls(t *testing.T) {
	t.Parallel()
	lost := scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: 900, OutputTokens: 50}}), scripted.Break())
	agent := bot(scripted.New(lost, scripted.Text("done")))
	agent.Budget = cairn.Budget{Steps: 1, OnLimit: cairn.BudgetFails}
	agent.Retry = &cairn.RetryPolicy{First: 1}
	res := turn(t, open(t, tapOn(nil), agent), "s", "go")
	if wantStatus(t, res, cairn.RunFailed, cairn.ReasonError); res.Error.Code != cairn.ErrBudget || res.Usage.DiscardedCalls != 1 {
		t.Errorf("error %v, usage %+v", res.Error, res.Usage)
	}
	if status := res.Error.Code.HTTPStatus(); status != 402 {
		t.Errorf("status %d", status)
	}
}

// Sub-agents at work at the same time exceed a budget by at most the calls in progress. Each of them asks.
func TestBudgetOfParallelSubAgents(t *testing.T) {
	t.Parallel()
	const agents, limit = 4, 10
	var calls []scripted.Step
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: counter(6), Tools: []cairn.Tool{note()}}
	for range agents {
		calls = append(calls, scripted.Call("helper", map[string]string{"input": "do it"}))
	}
	agent := bot(scripted.New(scripted.Reply(calls...), scripted.Text("done")), cairn.SubAgent(helper))
	agent.Budget = cairn.Budget{Steps: limit}
	st := tapOn(nil)
	eng := open(t, st, agent)
	wantStatus(t, turn(t, eng, "s", "go"), cairn.RunSuspended, cairn.ReasonChildren)
	used, err := eng.TreeUsage(t.Context(), "s")
	if n := used.ModelCalls; err != nil || n < limit || n > limit+agents {
		t.Errorf("%d model calls, error %v: want %d, and at most %d more", n, err, limit, agents)
	}
	res, asked := answerBudgets(t, eng, "s", func(c cairn.CallRef) cairn.Submission { return cairn.RaiseBudget(c, 4) })
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	if used, err = eng.TreeUsage(t.Context(), "s"); err != nil || used.ModelCalls != 2+agents*6 || limit+4*asked < 2+agents*6 {
		t.Errorf("%d model calls after %d raises, error %v", used.ModelCalls, asked, err)
	}
	wantSound(t, st, "s")
}

// What a companion used in earlier turns does not count for this one.
func TestBudgetOfATurnWithACompanion(t *testing.T) {
	t.Parallel()
	spawn := scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "helper", "name": "h", "message": "hello"})
	send := scripted.Call(cairn.CompanionSend, map[string]string{"name": "h", "message": "again"})
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: counter(4), Tools: []cairn.Tool{note()}}
	agent := bot(scripted.New(spawn, scripted.Text("one"), send, scripted.Text("two")))
	agent.Companions = []cairn.Companion{{Agent: helper}}
	agent.Budget = cairn.Budget{Steps: 6, OnLimit: cairn.BudgetFails}
	st := tapOn(nil)
	eng := open(t, st, agent)
	for _, text := range []string{"one", "two"} {
		wantStatus(t, turn(t, eng, "s", text), cairn.RunCompleted, cairn.ReasonReply)
	}
	used, err := eng.TreeUsage(t.Context(), "s")
	if err != nil || used.ModelCalls != 12 {
		t.Errorf("%d model calls, error %v: want 6 in each turn", used.ModelCalls, err)
	}
}

// A sub-agent's own budget fails its run, and its parent reads why.
func TestBudgetOfASubAgent(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: counter(6), Tools: []cairn.Tool{note()},
		Budget: cairn.Budget{Steps: 2, OnLimit: cairn.BudgetFails}}
	agent := bot(scripted.New(scripted.Call("helper", map[string]string{"input": "do it"}).ID("k"), scripted.Text("done")), cairn.SubAgent(helper))
	st := tapOn(nil)
	wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	list := messages(t, st, "s")
	if r := list[2].ToolResults(); len(r) != 1 || !r[0].IsError || !strings.Contains(string(r[0].Output), "budget") {
		t.Errorf("the parent reads %+v", list[2])
	}
}

// Steps that are committed later count at once, and the call about the budget commits them.
func TestBudgetWithDeferredSteps(t *testing.T) {
	t.Parallel()
	agent := bot(counter(5), note())
	agent.Budget, agent.Durability = cairn.Budget{Steps: 3}, cairn.Manual
	st := tapOn(nil)
	eng := open(t, st, agent)
	wantStatus(t, turn(t, eng, "s", "go"), cairn.RunSuspended, cairn.ReasonCalls)
	if row := load(t, st, "s"); row.Usage.ModelCalls != 3 {
		t.Errorf("%d model calls are committed, want 3", row.Usage.ModelCalls)
	}
	res, _ := answerBudgets(t, eng, "s", func(c cairn.CallRef) cairn.Submission { return cairn.RaiseBudget(c, 0) })
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	warnings := 0
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventBudgetWarning {
			warnings++
		}
	}
	if warnings != 2 { // of the first limit, and of the raised one
		t.Errorf("%d warnings, want 2", warnings)
	}
	wantSound(t, st, "s")
}

// Hooks and stop conditions see what the run has used.
func TestUsageOnTheHandle(t *testing.T) {
	t.Parallel()
	agent := bot(counter(9), note())
	agent.StopWhen = func(_ context.Context, step *cairn.Step) bool {
		return step.Usage.ModelCalls == 3 && step.Usage.InputTokens == 30
	}
	res := turn(t, open(t, tapOn(nil), agent), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonStopCondition)
	if res.Steps != 3 {
		t.Errorf("%d steps, want 3", res.Steps)
	}
}

// Hostile answers change nothing.
func TestMistakesInAnswersAboutABudget(t *testing.T) {
	t.Parallel()
	agent := bot(counter(5), note())
	agent.Budget = cairn.Budget{Steps: 1, Reviewers: []string{"ann"}}
	st := tapOn(nil)
	eng := open(t, st, agent)
	turn(t, eng, "s", "go")
	call, _ := openBudget(t, eng, "s")
	value := func(raw string) cairn.Submission {
		return cairn.Submission{Type: cairn.SubmitAnswer, CallID: call.ID, Value: json.RawMessage(raw), Reviewer: "ann"}
	}
	for name, s := range map[string]cairn.Submission{
		"nobody":           cairn.RaiseBudget(call.CallRef, 1),
		"someone else":     cairn.RaiseBudget(call.CallRef, 1).By("bob"),
		"a negative raise": cairn.RaiseBudget(call.CallRef, -1).By("ann"),
		"no outcome":       value(`{"by":3}`),
		"another outcome":  value(`{"outcome":"double"}`),
		"a text":           value(`"raise"`),
		"more than asked":  value(`{"outcome":"raise","usd":5}`),
		"an approval":      {Type: cairn.SubmitApproval, CallID: call.ID, ApprovalID: "x", Approved: true, Reviewer: "ann"},
	} {
		if r, err := eng.Submit(t.Context(), "s", s); r.Outcome != cairn.OutcomeInvalid || err == nil {
			t.Errorf("%s: %s, error %v", name, r.Outcome, err)
		}
	}
	if after, _ := openBudget(t, eng, "s"); after.Version != call.Version {
		t.Error("an invalid answer has changed the call")
	}
}
