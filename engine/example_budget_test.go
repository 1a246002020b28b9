package engine_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

var rules = []cairn.BudgetRule{
	{Name: "per user", Scope: cairn.BudgetOfUser, Period: cairn.BudgetDay, Zone: "Europe/Berlin", Budget: cairn.Budget{USD: 2}},
	{Name: "acme", Scope: cairn.BudgetOfTenant, Of: "acme", Period: cairn.BudgetMonth,
		Budget: cairn.Budget{USD: 500, OnLimit: cairn.BudgetFails}},
}

func ExampleEngine_BudgetSpent() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("Hello.").Usage(20_000, 1000))}
	prices := cairn.ModelTable{{Provider: "scripted", Name: "scripted", AsOf: "2026-11-01", Price: cairn.Price{Input: 3_000_000, Output: 15_000_000}}}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{Models: prices, Budgets: rules})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	run, err := eng.Execute(ctx, "acme::session-1", "support", cairn.Text("Hi."), engine.WithUser("ann"))
	if err != nil {
		panic(err)
	}
	if _, err := run.Wait(ctx); err != nil {
		panic(err)
	}
	reports, err := eng.BudgetSpent(ctx, "per user", "acme::ann")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v %s of %v per %s\n", reports[0].Spent, reports[0].Unit, reports[0].Limit, reports[0].Per)
	// Output: 0.075 usd of 2 per day
}
