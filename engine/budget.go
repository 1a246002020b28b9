package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// Budgets returns the rules of Options.Budgets. The caller owns them.
func (e *Engine) Budgets() []cairn.BudgetRule { return slices.Clone(e.opts.Budgets) }

// BudgetSpent returns the usage of a budget of Options.Budgets in the current period by the user, agent, tag or tenant of
// that name, with one report for each limit. It includes reservations of model calls in progress. The error is
// ErrNotFound if there is no such rule.
func (e *Engine) BudgetSpent(ctx context.Context, rule, of string) ([]cairn.BudgetReport, error) {
	i := slices.IndexFunc(e.opts.Budgets, func(r cairn.BudgetRule) bool { return r.Name == rule })
	if i < 0 {
		return nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "rule", Message: fmt.Sprintf("no budget rule %q", rule)}
	}
	r := &e.opts.Budgets[i]
	if problem := ids.CheckUser(of); problem != "" {
		return nil, cairn.Invalid("of", "%s", problem)
	}
	if r.Of != "" && r.Of != of {
		return nil, cairn.Invalid("of", "budget rule %q is of %q", rule, r.Of)
	}
	clock, err := e.records.Put(ctx, driver.RecordWrite{Namespace: driver.BudgetRecords, Key: "clock", Value: []byte("{}"), Seen: driver.AnyVersion, TTL: time.Minute})
	if err != nil {
		return nil, err
	}
	list, err := e.runs.Periods.Spent(ctx, r, of, clock.AsOf)
	out := make([]cairn.BudgetReport, 0, len(list))
	for _, report := range list {
		out = append(out, *report)
	}
	return out, err
}
