// Package budget decides whether a model call may begin: whether what was used so far, and what the call may use, fit a
// budget. It is pure: it knows no store, no clock and no agent.
package budget

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// Amount is what was used, or may be used, in each unit of a budget.
type Amount struct {
	Nanos  int64         `json:"nanos,omitempty"` // billionths of a US dollar
	Tokens int64         `json:"tokens,omitempty"`
	Steps  int64         `json:"steps,omitempty"`
	Time   time.Duration `json:"time,omitempty"`
}

// Of returns the amount of a usage.
func Of(u cairn.Usage) Amount {
	return Amount{Nanos: u.CostNanos, Tokens: u.InputTokens + u.OutputTokens, Steps: u.ModelCalls + u.DiscardedCalls}
}

// Plus returns the sum of two amounts.
func (a Amount) Plus(b Amount) Amount {
	return Amount{a.Nanos + b.Nanos, a.Tokens + b.Tokens, a.Steps + b.Steps, a.Time + b.Time}
}

// Minus returns the difference of two amounts.
func (a Amount) Minus(b Amount) Amount {
	return Amount{a.Nanos - b.Nanos, a.Tokens - b.Tokens, a.Steps - b.Steps, a.Time - b.Time}
}

// unit is one unit of a budget.
type unit struct {
	name cairn.BudgetUnit
	// one is how many counts of the unit's field make 1 in a report.
	one float64
	at  func(*Amount) *int64
}

var units = [...]unit{
	{cairn.BudgetUSD, 1e9, func(a *Amount) *int64 { return &a.Nanos }},
	{cairn.BudgetTokens, 1, func(a *Amount) *int64 { return &a.Tokens }},
	{cairn.BudgetSteps, 1, func(a *Amount) *int64 { return &a.Steps }},
	{cairn.BudgetTime, float64(time.Second), func(a *Amount) *int64 { return (*int64)(&a.Time) }},
}

// Limits returns the limits of a budget; a field of 0 is no limit.
func Limits(b *cairn.Budget) Amount {
	return Amount{Nanos: int64(math.Round(b.USD * 1e9)), Tokens: b.Tokens, Steps: b.Steps, Time: b.Time}
}

// Exceeded returns the report of the first limit that does not allow a model call; nil if all do. raised is what people
// have added to the limits. A limit of time allows a call until it is reached; any other one allows a call whose estimate
// fits.
func Exceeded(b *cairn.Budget, spent, raised, estimate Amount) *cairn.BudgetReport {
	limits := Limits(b)
	for _, u := range units {
		limit, used, next := *u.at(&limits), *u.at(&spent), *u.at(&estimate)
		if limit == 0 {
			continue
		}
		limit += *u.at(&raised)
		if used+next > limit || used >= limit {
			return u.report(used, limit, next)
		}
	}
	return nil
}

// Warnings returns the reports of the limits of which the share for a warning was reached between two amounts.
func Warnings(b *cairn.Budget, before, after, raised Amount) (list []*cairn.BudgetReport) {
	share := b.WarnAt
	switch {
	case share < 0:
		return nil
	case share == 0:
		share = cairn.DefaultBudgetWarning
	}
	limits := Limits(b)
	for _, u := range units {
		limit := *u.at(&limits)
		if limit == 0 {
			continue
		}
		limit += *u.at(&raised)
		mark := int64(math.Ceil(share * float64(limit)))
		if used := *u.at(&after); *u.at(&before) < mark && used >= mark {
			list = append(list, u.report(used, limit, 0))
		}
	}
	return list
}

func (u *unit) report(used, limit, next int64) *cairn.BudgetReport {
	return &cairn.BudgetReport{Unit: u.name, Spent: float64(used) / u.one, Limit: float64(limit) / u.one, Estimate: float64(next) / u.one}
}

// Raise returns what an answer adds to a budget; nothing for any other answer than one that raises it.
func Raise(b *cairn.Budget, call *cairn.PendingCall) (added Amount) {
	var report cairn.BudgetReport
	var answer cairn.BudgetAnswer
	if !Raises(call) || json.Unmarshal(call.Payload, &report) != nil || json.Unmarshal(call.Answer.Value, &answer) != nil {
		return added
	}
	limits := Limits(b)
	for _, u := range units {
		if u.name != report.Unit {
			continue
		}
		if *u.at(&added) = *u.at(&limits); answer.By > 0 {
			*u.at(&added) = int64(math.Round(min(answer.By*u.one, 1e18)))
		}
	}
	return added
}

// Raises reports whether a call of [cairn.CallBudget] was answered with a raise.
func Raises(call *cairn.PendingCall) bool {
	var answer cairn.BudgetAnswer
	return call.Answer != nil && call.Answer.Kind == cairn.DecisionResult && json.Unmarshal(call.Answer.Value, &answer) == nil &&
		answer.Outcome == cairn.BudgetRaised
}

// Renewed reports whether nobody decided about a call of [cairn.CallBudget] before the next period of its rule began.
func Renewed(call *cairn.PendingCall) bool {
	var r cairn.BudgetReport
	return call.Answer != nil && call.Answer.Kind == cairn.DecisionTimeout && json.Unmarshal(call.Payload, &r) == nil &&
		r.Rule != "" && !call.Answer.At.Before(r.Until)
}

// Schema is the JSON Schema of a [cairn.BudgetAnswer].
var Schema = json.RawMessage(`{"type":"object","properties":{"outcome":{"type":"string","enum":["raise","end"]},` +
	`"by":{"type":"number","minimum":0}},"required":["outcome"],"additionalProperties":false}`)

// Words describes a report.
func Words(r *cairn.BudgetReport) string {
	of := "turn"
	switch r.Per {
	case "run":
		of = "run"
	case "tree":
		of = "session"
	}
	whose := "of this " + of
	if r.Rule != "" {
		whose = fmt.Sprintf("%q of %s for this %s", r.Rule, r.Of, r.Per)
	}
	text := fmt.Sprintf("The budget %s is %s, of which %s are used.", whose, amount(r.Unit, r.Limit), amount(r.Unit, r.Spent))
	if r.Estimate > 0 && r.Spent < r.Limit {
		text += fmt.Sprintf(" The next model call may use %s.", amount(r.Unit, r.Estimate))
	}
	return text
}

// amount formats an amount with its unit.
func amount(unit cairn.BudgetUnit, n float64) string {
	switch unit {
	case cairn.BudgetUSD:
		places := 2
		if n != math.Trunc(n*100)/100 {
			places = 4
		}
		return "$" + strconv.FormatFloat(n, 'f', places, 64)
	case cairn.BudgetTime:
		return time.Duration(n * float64(time.Second)).Round(time.Second).String()
	case cairn.BudgetSteps:
		return strconv.FormatFloat(n, 'f', -1, 64) + " model calls"
	}
	return strconv.FormatFloat(n, 'f', -1, 64) + " " + string(unit)
}

// Reports returns a report for each limit of a budget.
func Reports(b *cairn.Budget, spent, raised Amount) (list []*cairn.BudgetReport) {
	limits := Limits(b)
	for _, u := range units {
		if limit := *u.at(&limits); limit > 0 {
			list = append(list, u.report(*u.at(&spent), limit+*u.at(&raised), 0))
		}
	}
	return list
}
