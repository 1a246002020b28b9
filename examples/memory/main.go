// Command memory gives an agent a memory of each user, which outlasts the sessions.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// model answers from the memories in its request, as a real model would.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	for _, m := range req.Messages {
		if m.Hidden && strings.Contains(m.Text(), "vegetarian") {
			return scripted.Text("I have booked a table with a vegetarian menu.")
		}
	}
	return scripted.Text("Noted.")
})

func agent(st store.Store) (*cairn.Agent, error) {
	mem, err := memory.New(st, &memory.Options{Scope: memory.OfUser})
	if err != nil {
		return nil, err
	}
	return &cairn.Agent{Name: "concierge", Model: model, Memory: mem}, nil
}

func main() {
	ctx := context.Background()
	st := memstore.New(nil)
	concierge, err := agent(st)
	if err != nil {
		log.Fatal(err)
	}
	say(ctx, st, concierge, "monday", "ann", "I am vegetarian, please remember that for dinner.")
	say(ctx, st, concierge, "friday", "bob", "Book a table for dinner, please.")
	say(ctx, st, concierge, "friday-2", "ann", "Book a table for dinner, please.")
}

// say has one turn in an engine of its own, as another process would. Its end waits until the memory has learned.
func say(ctx context.Context, st store.Store, a *cairn.Agent, session, user, text string) {
	eng, err := engine.New(st, []*cairn.Agent{a}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, session, a.Name, cairn.Text(text), engine.WithUser(user))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", user, res.Text)
}
