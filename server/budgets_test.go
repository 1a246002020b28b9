package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
)

// Users see what is left of their own budgets, operators those of users, agents and tags, and a tenant nothing of others.
func TestBudgetsOfPeriods(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	steps := cairn.Budget{Steps: 10}
	eng, err := engine.New(w.st, []*cairn.Agent{newBot()}, &engine.Options{Budgets: []cairn.BudgetRule{
		{Name: "each", Scope: cairn.BudgetOfUser, Period: cairn.BudgetMonth, Budget: steps},
		{Name: "bot", Scope: cairn.BudgetOfAgent, Of: "bot", Period: cairn.BudgetMonth, Budget: steps},
		{Name: "beta", Scope: cairn.BudgetOfTag, Of: "beta", Period: cairn.BudgetMonth, Budget: steps},
		{Name: "acme", Scope: cairn.BudgetOfTenant, Of: "acme", Period: cairn.BudgetMonth, Budget: steps},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(t.Context()) })
	served := w.servedBy(eng)
	for id, user := range map[string]string{"one": "alice", "acme::one": "alice"} {
		run, err := eng.Execute(t.Context(), id, "bot", cairn.Text("hello"), engine.WithUser(user), engine.WithTags("beta"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		token, query, want string
	}{
		{"a", "", "each of alice: 1"}, {"e", "", "each of eve: 0"}, {"o", "", ""}, {"o", "?user_id=alice", "each of alice: 1"},
		{"o", "?agent=bot&tag=beta", "bot of bot: 2, beta of beta: 2"}, {"x", "?user_id=nobody", "each of nobody: 0"},
		{"acme:a", "", "each of alice: 1"}, {"acme:o", "?agent=bot&tag=beta", "acme of acme: 1"}, {"acme:o", "?user_id=alice", "each of alice: 1, acme of acme: 1"},
		{"other:o", "?user_id=alice", "each of alice: 0"},
	} {
		var got []string
		for _, r := range want[cairn.Page[cairn.BudgetReport]](served, 200, c.token, "GET", "/budgets"+c.query, nil).Items {
			if r.Limit != 10 || r.Until.Before(time.Now()) || r.Unit != cairn.BudgetSteps {
				t.Errorf("report %+v", r)
			}
			got = append(got, fmt.Sprintf("%s of %s: %v", r.Rule, r.Of, r.Spent))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s%s: %q, want %q", c.token, c.query, s, c.want)
		}
	}
	for _, query := range []string{"?user_id=eve", "?agent=bot", "?tag=beta"} {
		if res, data := served.do("a", "GET", "/budgets"+query, nil); res.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, res.StatusCode, data)
		}
	}
	c, err := client.New(served.url, &client.Options{Token: "a"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Budgets(t.Context(), client.BudgetQuery{})
	if err != nil || len(own.Items) != 1 {
		t.Errorf("%+v, %v", own, err)
	}
}
