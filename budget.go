package cairn

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
)

// Budget limits the usage of an agent. The zero value sets no limit. Each model call is checked before it begins: the
// usage so far and an estimate of the call must not exceed a limit together. The estimate is the input of the request and
// [Settings].MaxOutputTokens (or [BudgetOutput] if that is 0), at the price of the table of models without any cache.
//
// Work of sub-agents and companions counts for the agent that consults them, whether they have a budget of their own or
// not. The usage of other sessions of the tree is read from their rows, as of their last commit. So calls that are under
// way at the same time may exceed a limit together.
type Budget struct {
	// USD is the limit in US dollars, kept in billionths; 0 means none. The cost of a call is the one that the provider
	// reports, or else by the engine's table of models. An engine refuses an agent with such a budget if its model, or the
	// model of an agent that it consults, has no price in the table, unless Unpriced is set.
	USD float64
	// Tokens limits the tokens that models read and write; 0 means no limit.
	Tokens int64
	// Steps limits the number of model calls, including those that were discarded; 0 means no limit.
	Steps int64
	// Time limits how long the runs of the agent's own session may take, without the time that they were suspended; 0
	// means no limit. It is checked before a model call and ends none that is in progress. It requires PerTurn or PerRun.
	Time time.Duration
	// Per selects the runs that count. The default is PerTurn.
	Per BudgetScope
	// OnLimit selects the action at a limit. The default is BudgetAsks.
	OnLimit BudgetAction
	// WarnAt is the share of a limit at which an [EventBudgetWarning] is published; 0 means DefaultBudgetWarning, a
	// negative number never. It is less than 1.
	WarnAt float64
	// Unpriced allows models without a price. Calls of unknown cost then do not count for USD.
	Unpriced bool
	// Reviewers are the people who may raise the budget or end the turn; empty means anyone. They follow the rules of
	// [AssignTo]. A server lets only reviewers raise a budget that names none, not the session's user.
	Reviewers []string
}

const (
	// DefaultBudgetWarning is the share of a budget at which a warning is published.
	DefaultBudgetWarning = 0.8
	// BudgetOutput is the number of output tokens that the estimate of a model call has if the agent does not limit them.
	BudgetOutput = 4096
)

// BudgetScope selects the runs that count for a budget.
type BudgetScope string

const (
	// PerTurn counts the runs of a turn: the run of the message, and those that resume it. A retry has a budget of its own,
	// as it has steps of its own. This is the default.
	PerTurn BudgetScope = ""
	// PerRun counts one run. A run that resumes a suspended one begins anew, with the amounts that people added at its limit.
	PerRun BudgetScope = "run"
	// PerTree counts everything that the session and the sessions below it have ever used. For a root that is the whole
	// conversation.
	PerTree BudgetScope = "tree"
)

// BudgetAction is the action at a limit of a budget.
type BudgetAction string

const (
	// BudgetAsks suspends the run with a pending call of [CallBudget] until a person answers with [RaiseBudget] or
	// [EndTurn]. This is the default.
	BudgetAsks BudgetAction = ""
	// BudgetFails fails the run with ErrBudget.
	BudgetFails BudgetAction = "fail"
)

// BudgetTool is the tool name of pending calls of [CallBudget]. No tool has it.
const BudgetTool = "__budget__"

// BudgetUnit is a unit in which a budget counts.
type BudgetUnit string

const (
	BudgetUSD    BudgetUnit = "usd"     // US dollars
	BudgetTokens BudgetUnit = "tokens"  // tokens read and written
	BudgetSteps  BudgetUnit = "steps"   // model calls
	BudgetTime   BudgetUnit = "seconds" // seconds of runs
)

// BudgetReport is the state of a budget in the payload of a pending call of [CallBudget] and in the data of an
// [EventBudgetWarning].
type BudgetReport struct {
	// Unit is the unit of the amounts.
	Unit BudgetUnit `json:"unit"`
	// Spent is the usage so far, Limit the limit with all raises, and Estimate the estimate of the next model call; 0 in a
	// warning.
	Spent    float64 `json:"spent"`
	Limit    float64 `json:"limit"`
	Estimate float64 `json:"estimate,omitempty"`
	// Per names the scope: "turn", "run", "tree", or the period of a [BudgetRule].
	Per string `json:"per"`
	// SessionID is the session whose agent has the budget, and RunID the first run of the turn that it counts, or the run;
	// empty for a tree and for a rule.
	SessionID string `json:"session_id,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	// Rule is the name of the rule, Of the user, agent, tag or tenant whose budget it is, and Until when its period ends;
	// empty for the budget of an agent.
	Rule  string    `json:"rule,omitempty"`
	Of    string    `json:"of,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// BudgetOutcome is a person's decision about a budget that is used up.
type BudgetOutcome string

const (
	BudgetRaised BudgetOutcome = "raise" // the limit is raised, and the turn continues
	BudgetEnded  BudgetOutcome = "end"   // the turn ends, as if it was interrupted
)

// BudgetAnswer is the value of an answer to a pending call of [CallBudget].
type BudgetAnswer struct {
	// Outcome is the decision.
	Outcome BudgetOutcome `json:"outcome"`
	// By is how much is added to the limit, in the unit of the call's [BudgetReport]; 0 means as much as the budget had at
	// first.
	By float64 `json:"by,omitempty"`
}

// RaiseBudget answers a pending call of [CallBudget]: by is added to the limit, in the unit of the call's [BudgetReport]; 0
// means as much as the budget had at first. If that is not enough for the next model call, another call asks again.
func RaiseBudget(c CallRef, by float64) Submission {
	return Answer(c, BudgetAnswer{Outcome: BudgetRaised, By: by})
}

// EndTurn answers a pending call of [CallBudget]: the run ends as interrupted, and keeps its committed steps. The turn of a
// sub-agent ends like that, too, and its parent continues.
func EndTurn(c CallRef) Submission { return Answer(c, BudgetAnswer{Outcome: BudgetEnded}) }

// Zero reports whether the budget has no limit.
func (b *Budget) Zero() bool { return b.USD == 0 && b.Tokens == 0 && b.Steps == 0 && b.Time == 0 }

// maxBudgetUSD limits a budget in dollars, so that it can be kept in billionths.
const maxBudgetUSD = 1e6

func (b *Budget) validate(bad func(field, format string, args ...any) error) error {
	switch {
	case math.IsNaN(b.USD) || b.USD < 0 || b.USD > maxBudgetUSD:
		return bad("budget.usd", "%v is not between 0 and %v", b.USD, maxBudgetUSD)
	case b.USD > 0 && b.USD < 1e-9:
		return bad("budget.usd", "%v is less than a billionth of a dollar", b.USD)
	case b.Tokens < 0:
		return bad("budget.tokens", "%d is negative", b.Tokens)
	case b.Steps < 0:
		return bad("budget.steps", "%d is negative", b.Steps)
	case b.Time < 0:
		return bad("budget.time", "%s is negative", b.Time)
	case b.Per != PerTurn && b.Per != PerRun && b.Per != PerTree:
		return bad("budget.per", "unknown scope %q: must be %q, %q or %q", b.Per, PerTurn, PerRun, PerTree)
	case b.Time > 0 && b.Per == PerTree:
		return bad("budget.time", "cannot be combined with PerTree")
	case b.OnLimit != BudgetAsks && b.OnLimit != BudgetFails:
		return bad("budget.on_limit", "unknown action %q: must be %q or %q", b.OnLimit, BudgetAsks, BudgetFails)
	case math.IsNaN(b.WarnAt) || b.WarnAt >= 1:
		return bad("budget.warn_at", "%v is not less than 1", b.WarnAt)
	case b.Zero() && (b.Per != "" || b.OnLimit != "" || b.WarnAt != 0 || b.Unpriced || len(b.Reviewers) > 0):
		return bad("budget", "has no limit")
	}
	for i, name := range b.Reviewers {
		if problem := ids.CheckUser(name); problem != "" {
			return bad("budget.reviewers", "%q %s", name, problem)
		}
		if slices.Contains(b.Reviewers[:i], name) {
			return bad("budget.reviewers", "duplicate reviewer %q", name)
		}
	}
	return nil
}

// BudgetRule is a budget of many sessions together in a period: of a user, of an agent, of a tag or of a tenant. All
// their runs in the period count, in all processes on the store. A model call reserves its estimate before it begins,
// and its usage takes the place of that afterwards, so concurrent runs exceed a limit by at most the calls that begin at
// the same time. It needs a store that keeps records, and costs one read and one write for each model call, and one write
// when a run ends.
type BudgetRule struct {
	// Name names the rule. It follows the rules of session ids and is unique in an engine. All engines on a store must have
	// the same rules; a rule of a new name counts from zero.
	Name string
	// Scope selects the owner of the budget. Required.
	Scope BudgetOwner
	// Of is the user, agent, tag or tenant whose budget it is; empty gives each of them a budget of its own. A user of a
	// tenant is named as in [Session].UserID. Sessions without a user, tag or tenant have no budget of that scope.
	Of string
	// Period is how long the budget lasts. Required.
	Period BudgetPeriod
	// Zone is the IANA name of the time zone in which periods begin, such as "Europe/Berlin"; empty means UTC. Times are by
	// the store's clock.
	Zone string
	// Budget has the limits. Its Per and Time must not be set.
	Budget
}

// BudgetOwner is the kind of the owner of a [BudgetRule]'s budget.
type BudgetOwner string

const (
	BudgetOfUser   BudgetOwner = "user"   // the user of the session, with sub-agents that work for the user
	BudgetOfAgent  BudgetOwner = "agent"  // the agent of the session, in all its sessions
	BudgetOfTag    BudgetOwner = "tag"    // each tag of the root session
	BudgetOfTenant BudgetOwner = "tenant" // the tenant of the session, see [InTenant]
)

// BudgetPeriod is how long the budget of a [BudgetRule] lasts.
type BudgetPeriod string

const (
	BudgetHour  BudgetPeriod = "hour"
	BudgetDay   BudgetPeriod = "day"
	BudgetMonth BudgetPeriod = "month"
)

// Validate reports the first mistake in a rule. The error is ErrInvalid and names the field.
func (r *BudgetRule) Validate() error {
	bad := func(field, format string, args ...any) error {
		e := Invalid(field, format, args...)
		e.Message = fmt.Sprintf("budget rule %q: %s", r.Name, e.Message)
		return e
	}
	owners := []BudgetOwner{BudgetOfUser, BudgetOfAgent, BudgetOfTag, BudgetOfTenant}
	periods := []BudgetPeriod{BudgetHour, BudgetDay, BudgetMonth}
	switch {
	case ids.Check(r.Name) != "":
		return bad("name", "%s", ids.Check(r.Name))
	case !slices.Contains(owners, r.Scope):
		return bad("scope", "unknown scope %q: must be one of %q", r.Scope, owners)
	case !slices.Contains(periods, r.Period):
		return bad("period", "unknown period %q: must be one of %q", r.Period, periods)
	case r.Zero():
		return bad("budget", "has no limit")
	case r.Per != "" || r.Time != 0:
		return bad("budget", "Per and Time must not be set in a rule")
	}
	if _, err := time.LoadLocation(r.Zone); err != nil || r.Zone == "Local" {
		return bad("zone", "unknown time zone %q", r.Zone)
	}
	if err := CheckText("of", r.Of); err != nil {
		return err
	}
	return r.Budget.validate(bad)
}

// Begin returns when the period that contains t begins, in the rule's time zone, and when the next one begins.
func (r *BudgetRule) Begin(t time.Time) (begin, next time.Time) {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		zone = time.UTC
	}
	t = t.In(zone)
	y, m, d := t.Date()
	switch r.Period {
	case BudgetHour:
		begin = t.Truncate(0).Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
		return begin, begin.Add(time.Hour)
	case BudgetMonth:
		return time.Date(y, m, 1, 0, 0, 0, 0, zone), time.Date(y, m+1, 1, 0, 0, 0, 0, zone)
	}
	return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
}
