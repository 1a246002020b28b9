// Command cost answers two users, and prints what each of them cost, and the spans of one turn.
package main

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/traces"
)

var support = &cairn.Agent{Name: "support", Model: model, Tools: []cairn.Tool{find}}

// prices are the engine's, since the table of models does not have the one that stands in here.
var prices = cairn.ModelTable{{Provider: "scripted", Name: "scripted", AsOf: "2026-11-01", Price: cairn.Price{Input: 1_000_000, Output: 3_000_000}}}

func main() {
	ctx := context.Background()
	var eng *engine.Engine
	hooks := traces.Hooks(func() *engine.Engine { return eng }, nil) // tools run within their span
	eng = must(engine.New(memstore.New(nil), []*cairn.Agent{support}, &engine.Options{Models: prices, Hooks: []*cairn.Hooks{hooks}}))
	defer eng.Close(ctx)
	for _, user := range []string{"ann", "bob", "bob"} {
		must(must(eng.Execute(ctx, "session-"+user, "support", cairn.Text("Where is my order?"), engine.WithUser(user))).Wait(ctx))
	}
	report(ctx, eng)
	spans(ctx, eng)
}

// report prints the usage of each user and model.
func report(ctx context.Context, eng *engine.Engine) {
	page := must(eng.Usage(ctx, engine.UsageQuery{By: []engine.UsageDimension{engine.UsageByUser, engine.UsageByModel}}))
	for _, g := range page.Items {
		fmt.Printf("%s %s: %d calls, %d tokens in, %d out, %s\n", g.UserID, g.Model, g.Usage.ModelCalls, g.Usage.InputTokens, g.Usage.OutputTokens, g.Cost)
	}
}

// spans exports the spans of all turns, and prints those of ann's.
func spans(ctx context.Context, eng *engine.Engine) {
	to := tracetest.NewInMemoryExporter() // or otlptracehttp.New(ctx), for a collector
	x := must(traces.New(eng, to, nil))
	if err := x.Flush(ctx); err != nil { // a program calls x.Run, which exports every second
		log.Fatal(err)
	}
	for _, span := range to.GetSpans() {
		for _, a := range span.Attributes {
			if a.Key == "user.id" && a.Value.AsString() == "ann" {
				fmt.Println(span.Name)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
