package engine

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// checkRules returns an error for rules that cannot be enforced.
func checkRules(rules []cairn.BudgetRule, records bool) error {
	for i := range rules {
		if err := rules[i].Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(rules[:i], func(r cairn.BudgetRule) bool { return r.Name == rules[i].Name }) {
			return cairn.Invalid("budgets", "duplicate rule %q", rules[i].Name)
		}
	}
	if len(rules) > 0 && !records {
		return cairn.Invalid("budgets", "requires a store that keeps records")
	}
	return nil
}
