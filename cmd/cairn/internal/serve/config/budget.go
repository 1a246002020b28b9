package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Budget limits the usage of an assistant. The zero value sets no limit.
type Budget struct {
	USD       float64  `yaml:"usd" json:"usd,omitempty" doc:"The limit in US dollars. Every model that the assistant and its sub-agents use must have a price in the table of models, unless unpriced is set."`
	Tokens    int      `yaml:"tokens" json:"tokens,omitempty" doc:"The limit of tokens that models read and write."`
	Steps     int      `yaml:"steps" json:"steps,omitempty" doc:"The limit of model calls."`
	Time      Duration `yaml:"time" json:"time,omitempty" doc:"How long the assistant's runs may take, without the time that they wait for people. Not for tree."`
	Per       string   `yaml:"per" json:"per,omitempty" doc:"The scope of the limits: turn, run, or tree for everything that a session and its sub-agents have ever used." default:"turn" oneof:"turn run tree"`
	OnLimit   string   `yaml:"on_limit" json:"on_limit,omitempty" doc:"The action at a limit. ask: the run waits until a reviewer raises the budget or ends the turn; fail: the run fails." default:"ask" oneof:"ask fail"`
	WarnAt    float64  `yaml:"warn_at" json:"warn_at,omitempty" doc:"The share of a limit at which the event budget_warning is published; -1 means never." default:"0.8"`
	Unpriced  bool     `yaml:"unpriced" json:"unpriced,omitempty" doc:"Allow models without a price; calls of unknown cost do not count for usd." default:"false"`
	Reviewers []string `yaml:"reviewers" json:"reviewers,omitempty" doc:"The people who may raise the budget or end the turn. Without them, any reviewer may."`
}

// Limits returns the budget of the assistant's agent.
func (b *Budget) Limits() cairn.Budget {
	out := cairn.Budget{USD: b.USD, Tokens: int64(b.Tokens), Steps: int64(b.Steps), Time: time.Duration(b.Time), WarnAt: b.WarnAt, Unpriced: b.Unpriced, Reviewers: b.Reviewers}
	if b.Per != "turn" {
		out.Per = cairn.BudgetScope(b.Per)
	}
	if b.OnLimit != "ask" {
		out.OnLimit = cairn.BudgetAction(b.OnLimit)
	}
	return out
}

// checkBudget checks a budget by validating an agent that has it.
func (d *decoder) checkBudget(b *Budget, path string) {
	probe := cairn.Agent{Name: "probe", Model: unasked{}, Budget: b.Limits()}
	if err := probe.Validate(); err != nil {
		e := cairn.AsError(err)
		d.wrong(path+strings.TrimPrefix(e.Field, "budget"), "%s", strings.TrimPrefix(e.Message, `agent "probe": `+e.Field+": "))
	}
}

// BudgetRule is a budget of many sessions in a period.
type BudgetRule struct {
	Name      string   `yaml:"name" doc:"The name of the rule. A rule of a new name counts from zero."`
	Scope     string   `yaml:"scope" doc:"The owner of the budget: user, agent (an assistant), tag (of the session) or tenant." oneof:"user agent tag tenant"`
	Of        string   `yaml:"of" doc:"The user, assistant, tag or tenant. Without the key, each has a budget of its own."`
	Period    string   `yaml:"period" doc:"How long the budget lasts: hour, day or month." oneof:"hour day month"`
	Zone      string   `yaml:"zone" doc:"The time zone in which periods begin, such as Europe/Berlin." default:"UTC"`
	USD       float64  `yaml:"usd" doc:"The limit in US dollars. Every model of the assistants must have a price in the table of models, unless unpriced is set."`
	Tokens    int      `yaml:"tokens" doc:"The limit of tokens that models read and write."`
	Steps     int      `yaml:"steps" doc:"The limit of model calls."`
	OnLimit   string   `yaml:"on_limit" doc:"The action at a limit. ask: the run waits until a reviewer raises the budget or ends the turn; fail: the run fails." default:"ask" oneof:"ask fail"`
	WarnAt    float64  `yaml:"warn_at" doc:"The share of a limit at which the event budget_warning is published, once in a period; -1 means never." default:"0.8"`
	Unpriced  bool     `yaml:"unpriced" doc:"Allow models without a price; calls of unknown cost do not count for usd." default:"false"`
	Reviewers []string `yaml:"reviewers" doc:"The people who may raise the budget or end the turn. Without them, any reviewer may."`
}

// Rule returns the rule for the engine.
func (r *BudgetRule) Rule() cairn.BudgetRule {
	limits := Budget{USD: r.USD, Tokens: r.Tokens, Steps: r.Steps, Per: "turn", OnLimit: r.OnLimit, WarnAt: r.WarnAt, Unpriced: r.Unpriced, Reviewers: r.Reviewers}
	return cairn.BudgetRule{Name: r.Name, Scope: cairn.BudgetOwner(r.Scope), Of: r.Of, Period: cairn.BudgetPeriod(r.Period), Zone: r.Zone, Budget: limits.Limits()}
}

func (d *decoder) checkBudgets(list []BudgetRule) {
	seen := map[string]bool{}
	for i := range list {
		path := fmt.Sprintf("budgets[%d]", i)
		rule := list[i].Rule()
		words := true
		for key, word := range map[string]string{"scope": list[i].Scope, "period": list[i].Period} {
			if _, given := d.at[path+"."+key]; word == "" {
				words = false
				if !given { // another word has been reported
					d.wrong(path+"."+key, "is required")
				}
			}
		}
		if !words {
			continue
		}
		if err := rule.Validate(); err != nil {
			e := cairn.AsError(err)
			field := strings.TrimPrefix(strings.TrimPrefix(e.Field, "budget"), ".")
			d.wrong(strings.TrimSuffix(path+"."+field, "."), "%s", strings.TrimPrefix(e.Message, fmt.Sprintf("budget rule %q: %s: ", rule.Name, e.Field)))
		} else if seen[rule.Name] {
			d.wrong(path+".name", "duplicate rule %q", rule.Name)
		}
		seen[rule.Name] = true
	}
}
