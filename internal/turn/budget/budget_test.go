package budget_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/budget"
)

func TestModelCallsThatBudgetsAllow(t *testing.T) {
	t.Parallel()
	dollars := func(n float64) budget.Amount { return budget.Limits(&cairn.Budget{USD: n}) }
	for name, c := range map[string]struct {
		budget                  cairn.Budget
		spent, raised, estimate budget.Amount
		limit                   cairn.BudgetUnit // that does not allow the call; empty for none
	}{
		"no limit":                    {cairn.Budget{}, dollars(1e6), budget.Amount{}, dollars(1), ""},
		"a call that just fits":       {cairn.Budget{USD: 0.5}, dollars(0.3), budget.Amount{}, dollars(0.2), ""},
		"a call that does not fit":    {cairn.Budget{USD: 0.5}, dollars(0.3), budget.Amount{}, dollars(0.200000001), cairn.BudgetUSD},
		"a free call at the limit":    {cairn.Budget{USD: 0.5}, dollars(0.5), budget.Amount{}, budget.Amount{}, cairn.BudgetUSD},
		"a raised budget":             {cairn.Budget{USD: 0.5}, dollars(0.5), dollars(0.1), dollars(0.1), ""},
		"a raise that is too small":   {cairn.Budget{USD: 0.5}, dollars(0.5), dollars(0.1), dollars(0.11), cairn.BudgetUSD},
		"tokens":                      {cairn.Budget{Tokens: 100}, budget.Amount{Tokens: 60}, budget.Amount{}, budget.Amount{Tokens: 41}, cairn.BudgetTokens},
		"the last step":               {cairn.Budget{Steps: 2}, budget.Amount{Steps: 1}, budget.Amount{}, budget.Amount{Steps: 1}, ""},
		"one step too many":           {cairn.Budget{Steps: 2}, budget.Amount{Steps: 2}, budget.Amount{}, budget.Amount{Steps: 1}, cairn.BudgetSteps},
		"time that is left":           {cairn.Budget{Time: time.Minute}, budget.Amount{Time: 59 * time.Second}, budget.Amount{}, budget.Amount{}, ""},
		"time that is over":           {cairn.Budget{Time: time.Minute}, budget.Amount{Time: time.Minute}, budget.Amount{}, budget.Amount{}, cairn.BudgetTime},
		"another unit does not count": {cairn.Budget{Steps: 9}, budget.Amount{Tokens: 1e9, Nanos: 1e15}, budget.Amount{}, budget.Amount{Steps: 1}, ""},
		"the first of two limits":     {cairn.Budget{USD: 1, Steps: 1}, budget.Amount{Nanos: 2e9, Steps: 1}, budget.Amount{}, budget.Amount{Steps: 1}, cairn.BudgetUSD},
		"the second of two limits":    {cairn.Budget{USD: 3, Steps: 1}, budget.Amount{Nanos: 2e9, Steps: 1}, budget.Amount{}, budget.Amount{Steps: 1}, cairn.BudgetSteps},
	} {
		var limit cairn.BudgetUnit
		r := budget.Exceeded(&c.budget, c.spent, c.raised, c.estimate)
		if r != nil {
			limit = r.Unit
		}
		if limit != c.limit {
			t.Errorf("%s: stopped by %q, want %q", name, limit, c.limit)
		}
	}
}

func TestWarningsAreGivenOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget                cairn.Budget
		before, after, raised int64 // tokens
		want                  int
	}{
		"below the share":         {cairn.Budget{Tokens: 100}, 0, 79, 0, 0},
		"reaches the share":       {cairn.Budget{Tokens: 100}, 79, 80, 0, 1},
		"was above it":            {cairn.Budget{Tokens: 100}, 80, 99, 0, 0},
		"beyond the limit":        {cairn.Budget{Tokens: 100}, 0, 300, 0, 1},
		"raised since":            {cairn.Budget{Tokens: 100}, 80, 90, 100, 0},
		"the raised limit, again": {cairn.Budget{Tokens: 100}, 100, 160, 100, 1},
		"a share of its own":      {cairn.Budget{Tokens: 100, WarnAt: 0.5}, 49, 50, 0, 1},
		"never":                   {cairn.Budget{Tokens: 100, WarnAt: -1}, 0, 100, 0, 0},
		"no limit":                {cairn.Budget{Steps: 5}, 0, 100, 0, 0},
	} {
		tokens := func(n int64) budget.Amount { return budget.Amount{Tokens: n} }
		if got := budget.Warnings(&c.budget, tokens(c.before), tokens(c.after), tokens(c.raised)); len(got) != c.want {
			t.Errorf("%s: %d warnings, want %d", name, len(got), c.want)
		}
	}
}

func TestRaiseOfABudget(t *testing.T) {
	t.Parallel()
	b := cairn.Budget{USD: 0.5, Tokens: 100, Time: time.Minute}
	answer := func(value string) *cairn.CallAnswer {
		return &cairn.CallAnswer{Kind: cairn.DecisionResult, Value: json.RawMessage(value)}
	}
	for name, c := range map[string]struct {
		unit   cairn.BudgetUnit
		answer *cairn.CallAnswer
		want   budget.Amount
	}{
		"dollars":             {cairn.BudgetUSD, answer(`{"outcome":"raise","by":0.25}`), budget.Amount{Nanos: 250_000_000}},
		"as much again":       {cairn.BudgetUSD, answer(`{"outcome":"raise"}`), budget.Amount{Nanos: 500_000_000}},
		"tokens":              {cairn.BudgetTokens, answer(`{"outcome":"raise","by":7}`), budget.Amount{Tokens: 7}},
		"seconds":             {cairn.BudgetTime, answer(`{"outcome":"raise","by":1.5}`), budget.Amount{Time: 1500 * time.Millisecond}},
		"a huge number":       {cairn.BudgetUSD, answer(`{"outcome":"raise","by":1e300}`), budget.Amount{Nanos: 1e18}},
		"an end":              {cairn.BudgetUSD, answer(`{"outcome":"end"}`), budget.Amount{}},
		"an unknown decision": {cairn.BudgetUSD, answer(`{"outcome":"RAISE","by":1}`), budget.Amount{}},
		"a refusal":           {cairn.BudgetUSD, &cairn.CallAnswer{Kind: cairn.DecisionError, Text: "no"}, budget.Amount{}},
		"no answer in time":   {cairn.BudgetUSD, &cairn.CallAnswer{Kind: cairn.DecisionTimeout}, budget.Amount{}},
		"no answer":           {cairn.BudgetUSD, nil, budget.Amount{}},
	} {
		call := &cairn.PendingCall{Answer: c.answer}
		call.Payload, _ = json.Marshal(cairn.BudgetReport{Unit: c.unit})
		if got := budget.Raise(&b, call); got != c.want {
			t.Errorf("%s: adds %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWordsOfAReport(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]cairn.BudgetReport{
		"budget of this turn is $0.50, of which $0.4821 are used. The next model call may use $0.02.": {Unit: cairn.BudgetUSD, Spent: 0.4821, Limit: 0.5, Estimate: 0.02, Per: "turn"},
		"budget of this session is 20 model calls, of which 20 model calls are used.":                 {Unit: cairn.BudgetSteps, Spent: 20, Limit: 20, Estimate: 1, Per: "tree"},
		"budget of this run is 1m30s, of which 1m31s are used.":                                       {Unit: cairn.BudgetTime, Spent: 91, Limit: 90, Per: "run"},
	} {
		if got := budget.Words(&r); !strings.HasSuffix(got, want) {
			t.Errorf("%q, want … %q", got, want)
		}
	}
}
