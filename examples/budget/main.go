// Command budget researches a question for at most two cents, and then asks a person. Run it with an answer: budget raise,
// or budget end.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

var research = &cairn.Agent{Name: "research", Model: model, Tools: []cairn.Tool{search}, Budget: cairn.Budget{USD: 0.02}}

// prices are the engine's, since the table of models does not have the one that stands in here.
var prices = cairn.ModelTable{{Provider: "scripted", Name: "scripted", AsOf: "2026-11-01", Price: cairn.Price{Input: 1_000_000, Output: 3_000_000}}}

func main() {
	verb := strings.Join(os.Args[1:], " ")
	if verb != "raise" && verb != "end" {
		fmt.Fprintln(os.Stderr, "usage: budget raise | end")
		os.Exit(2)
	}
	ctx := context.Background()
	eng := must(engine.New(memstore.New(nil), []*cairn.Agent{research}, &engine.Options{Models: prices}))
	defer eng.Close(ctx)
	res := must(must(eng.Execute(ctx, "session-1", "research", cairn.Text("Who built the first bridge here?"))).Wait(ctx))
	for res.Status == cairn.RunSuspended {
		for _, call := range must(eng.Inbox(ctx, store.CallQuery{Kind: cairn.CallBudget})).Items {
			fmt.Println(call.Prompt)
			answer := cairn.EndTurn(call.CallRef)
			if verb == "raise" {
				answer = cairn.RaiseBudget(call.CallRef, 0.02)
			}
			must(eng.Submit(ctx, call.RootID, answer.By("ann")))
		}
		res = must(must(eng.Resume(ctx, "session-1")).Wait(ctx))
	}
	fmt.Println(res.Status, res.Text, res.StopReason)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
