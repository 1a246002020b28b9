package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// groups renders the groups of a query, a page of two at a time.
func groups(t *testing.T, eng *engine.Engine, q engine.UsageQuery) string {
	t.Helper()
	var lines []string
	for q.Limit = 2; ; {
		page, err := eng.Usage(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range page.Items {
			lines = append(lines, fmt.Sprintf("%s|%s|%s|%s|%s|%s %d+%d calls %d tokens %d tools %d errors %g pages %s", g.Tenant, g.UserID, g.Agent, g.Model, g.Tool, g.Tag,
				g.Usage.ModelCalls, g.Usage.DiscardedCalls, g.Usage.InputTokens, g.Usage.ToolCalls, g.Usage.ToolErrors, g.Usage.Custom["pages"], g.Cost))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return strings.Join(lines, "\n")
		}
	}
}

// Usage across sessions is grouped and selected by each dimension. It is the same before and after a worker folds the
// rows, and after a user is erased, except that theirs has no name.
func TestUsageAcrossSessions(t *testing.T) {
	t.Parallel()
	leaf := &cairn.Agent{Name: "leaf", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok").Usage(5, 1) })}
	read := tool("read", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		call.RecordUsage("pages", 1.5)
		if in.Text == "bad" {
			return "", fmt.Errorf("no such page")
		}
		return "text", nil
	})
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{read, cairn.SubAgent(leaf)}, Retry: &cairn.RetryPolicy{First: time.Nanosecond},
		Model: scripted.New(
			scripted.Reply(spends(100, 7), fails(cairn.ErrOverloaded)), // a discarded attempt
			scripted.Reply(scripted.Call("read", in{"good"}), scripted.Call("read", in{"bad"}), scripted.Call("leaf", task{"x"})).Usage(1000, 1),
			scripted.Text("done").Usage(2000, 1),
			scripted.Text("hello").Usage(4, 1))}
	st := memstore.New(nil)
	eng := open(t, st, agent)
	turn(t, eng, "acme::a", "go", engine.WithUser("acme::ann"), engine.WithTags("x", "y"))
	turn(t, eng, "b", "go", engine.WithUser("bob"))

	acme := "acme"
	check := func(when, ann string) {
		t.Helper()
		for _, c := range []struct {
			q    engine.UsageQuery
			want string
		}{
			{engine.UsageQuery{}, "||||| 4+1 calls 3109 tokens 3 tools 1 errors 3 pages unknown"},
			{engine.UsageQuery{By: []engine.UsageDimension{"user"}}, "|" + ann + "|||| 3+1 calls 3105 tokens 3 tools 1 errors 3 pages unknown\n|bob|||| 1+0 calls 4 tokens 0 tools 0 errors 0 pages unknown"},
			{engine.UsageQuery{By: []engine.UsageDimension{"agent", "tool"}}, "||bot||leaf| 0+0 calls 0 tokens 1 tools 0 errors 0 pages $0\n||bot||read| 0+0 calls 0 tokens 2 tools 1 errors 0 pages $0"},
			{engine.UsageQuery{By: []engine.UsageDimension{"model"}}, "|||scripted:scripted|| 4+1 calls 3109 tokens 0 tools 0 errors 0 pages unknown"},
			{engine.UsageQuery{By: []engine.UsageDimension{"tag"}, Tenant: &acme},
				"||||| 1+0 calls 5 tokens 0 tools 0 errors 0 pages unknown\n|||||x 2+1 calls 3100 tokens 3 tools 1 errors 3 pages unknown\n|||||y 2+1 calls 3100 tokens 3 tools 1 errors 3 pages unknown"},
			{engine.UsageQuery{Tool: "read"}, "||||| 0+0 calls 0 tokens 2 tools 1 errors 0 pages $0"},
			{engine.UsageQuery{Agent: "leaf", By: []engine.UsageDimension{"tenant", "agent"}}, "acme||leaf||| 1+0 calls 5 tokens 0 tools 0 errors 0 pages unknown"},
			{engine.UsageQuery{From: "2001-01-01", To: "2001-12-31"}, ""},
		} {
			if got := groups(t, eng, c.q); got != c.want {
				t.Errorf("%s: %+v\n%s\nwant\n%s", when, c.q, got, c.want)
			}
		}
	}
	check("in rows", "acme::ann")
	if r, err := eng.Sweep(t.Context()); err != nil || r.UsageFolded != 4 {
		t.Fatalf("swept %+v, %v", r, err)
	}
	check("folded", "acme::ann")
	turn(t, eng, "c", "go", engine.WithUser("cid")) // its model fails: the script is over
	if _, err := eng.EraseUser(t.Context(), "acme::ann"); err != nil {
		t.Fatal(err)
	}
	check("erased", "")
	page, err := st.Usages().Rows(t.Context(), driver.PageQuery{})
	raw, _ := json.Marshal(page)
	if err != nil || strings.Contains(string(raw), "ann") || strings.Contains(string(raw), "acme::a") {
		t.Errorf("rows of the erased user: %s, %v", raw, err)
	}
}

// The rows of a purged session lose its ids, and rows are removed after their retention.
func TestUsageOfPurgedSessions(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("hello").Usage(4, 1), scripted.Text("hello").Usage(4, 1))), with(func(o *engine.Options) { o.Retention, o.UsageRetention = time.Nanosecond, -1 }))
	turn(t, eng, "s", "go")
	turn(t, eng, "other", "go")
	if err := eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if r, err := eng.Sweep(t.Context()); err != nil || r.Purged != 1 || r.UsageTrimmed != 0 {
		t.Fatalf("swept %+v, %v", r, err)
	}
	page, err := st.Usages().Rows(t.Context(), driver.PageQuery{})
	if err != nil || len(page.Items) != 2 || page.Items[0].SessionID != "" || page.Items[1].SessionID != "other" {
		t.Fatalf("rows %+v, %v", page, err)
	}
	short := open(t, st, bot(scripted.New()), with(func(o *engine.Options) { o.UsageRetention = time.Nanosecond }))
	if r, err := short.Sweep(t.Context()); err != nil || r.UsageTrimmed != 2 {
		t.Fatalf("swept %+v, %v", r, err)
	}
	if got := groups(t, eng, engine.UsageQuery{}); !strings.Contains(got, "2+0 calls 8 tokens") {
		t.Errorf("the sum is %s", got)
	}
}

// An imported session has its counters, and its budget counts on. The usage of the other store has no group for it, rather
// than one of $0, until its next step there; so both stores together count each step once.
func TestUsageOfImportedSessions(t *testing.T) {
	t.Parallel()
	prices := with(func(o *engine.Options) {
		o.Models = cairn.ModelTable{{Provider: "scripted", Name: "scripted", AsOf: "2026-11-01", Price: cairn.Price{Input: 1_000_000, Output: 1_000_000}}}
	})
	agent := func() *cairn.Agent {
		a := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("hello").Usage(3000, 1000) }))
		a.Budget = cairn.Budget{USD: 0.009, Per: cairn.PerTree, OnLimit: cairn.BudgetFails}
		a.Settings.MaxOutputTokens = 1
		return a
	}
	from, to := memstore.New(nil), memstore.New(nil)
	first, other := open(t, from, agent(), prices), open(t, to, agent(), prices, with(func(o *engine.Options) { o.NewID = counted("other") }))
	turn(t, first, "s", "go")
	if err := store.Import(t.Context(), to, "s", store.Export(t.Context(), from, "s")); err != nil {
		t.Fatal(err)
	}
	row, err := other.Session(t.Context(), "s")
	if err != nil || row.Usage.Cost() != "$0.004" || row.Usage.InputTokens != 3000 {
		t.Errorf("the counters are %+v, %v", row.Usage, err)
	}
	if got := groups(t, other, engine.UsageQuery{}); got != "" {
		t.Errorf("usage of the other store: %s", got)
	}
	turn(t, other, "s", "again")
	for _, eng := range []*engine.Engine{first, other} {
		if got := groups(t, eng, engine.UsageQuery{}); !strings.Contains(got, "1+0 calls 3000 tokens") || !strings.HasSuffix(got, "$0.004") {
			t.Errorf("usage is %s", got)
		}
	}
	run, err := other.Execute(t.Context(), "s", "bot", cairn.Text("once more"))
	if err == nil {
		_, err = run.Wait(t.Context())
	}
	if cairn.AsError(err).Code != cairn.ErrBudget { // $0.008 are used, in both stores
		t.Errorf("the third turn ended with %v", err)
	}
}

func TestUsageQueriesAreChecked(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New()))
	for field, q := range map[string]engine.UsageQuery{
		"by": {By: []engine.UsageDimension{"colour"}}, "from": {From: "yesterday"}, "to": {To: "2026-02-30"}, "cursor": {Cursor: "-1"},
	} {
		_, err := eng.Usage(t.Context(), q)
		if e := cairn.AsError(err); err == nil || e.Code != cairn.ErrInvalid || e.Field != field {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
