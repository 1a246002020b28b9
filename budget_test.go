package cairn_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestMistakesInABudget(t *testing.T) {
	t.Parallel()
	for says, b := range map[string]cairn.Budget{
		"budget.usd: -1":                          {USD: -1},
		"budget.usd: NaN":                         {USD: math.NaN()},
		"budget.usd: +Inf":                        {USD: math.Inf(1)},
		"budget.usd: 1e-10":                       {USD: 1e-10},
		"budget.tokens: -1":                       {Tokens: -1},
		"budget.steps: -1":                        {Steps: -1},
		"budget.time: -1s":                        {Time: -time.Second},
		"budget.time: cannot be combined":         {Time: time.Second, Per: cairn.PerTree},
		`budget.per: unknown scope "week"`:        {USD: 1, Per: "week"},
		`budget.on_limit: unknown action "panic"`: {USD: 1, OnLimit: "panic"},
		"budget.warn_at: 1 is":                    {USD: 1, WarnAt: 1},
		"budget.warn_at: NaN":                     {USD: 1, WarnAt: math.NaN()},
		"budget: has no limit":                    {OnLimit: cairn.BudgetFails},
		`budget.reviewers: duplicate`:             {USD: 1, Reviewers: []string{"ann", "ann"}},
		`budget.reviewers: "a\x00"`:               {USD: 1, Reviewers: []string{"a\x00"}},
	} {
		a := goodAgent()
		a.Budget = b
		if err := a.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
	for _, b := range []cairn.Budget{{}, {USD: 0.5}, {USD: 1e6, Tokens: 1, Steps: 1, Time: 1, WarnAt: -1, Reviewers: []string{"ann"}}, {Tokens: 1, Per: cairn.PerTree}} {
		a := goodAgent()
		if a.Budget = b; a.Validate() != nil {
			t.Errorf("%+v: %v", b, a.Validate())
		}
	}
}

func TestAnswersAboutABudget(t *testing.T) {
	t.Parallel()
	c := cairn.CallRef{ID: "b1", Kind: cairn.CallBudget}
	for want, s := range map[string]cairn.Submission{
		`{"outcome":"raise","by":0.25}`: cairn.RaiseBudget(c, 0.25),
		`{"outcome":"raise"}`:           cairn.RaiseBudget(c, 0),
		`{"outcome":"end"}`:             cairn.EndTurn(c),
	} {
		if err := s.Validate(); err != nil || s.Type != cairn.SubmitAnswer || string(s.Value) != want {
			t.Errorf("%s: %+v, %v", want, s, err)
		}
	}
	if s := cairn.RaiseBudget(c, math.Inf(1)); s.Validate() == nil {
		t.Error("an infinite raise is accepted")
	}
}
