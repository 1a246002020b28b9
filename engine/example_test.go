package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	ctx := context.Background()
	type lookup struct {
		Order int `json:"order"`
	}
	support := &cairn.Agent{
		Name:         "support",
		Instructions: "You help customers with their orders.",
		Model:        scripted.New(scripted.Call("lookup", lookup{42}), scripted.Text("Your lamp is on its way.")),
		Tools: []cairn.Tool{cairn.Func("lookup", "Look up an order.",
			func(ctx context.Context, call *cairn.Call, in lookup) (string, error) {
				return fmt.Sprintf("order %d: one lamp, shipped", in.Order), nil
			})},
	}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{support}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)

	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Where is order 42?"))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range run.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev.Type {
		case cairn.EventToolEnd:
			fmt.Printf("%s: %s\n", ev.Tool, ev.Data)
		case cairn.EventTextDelta:
			fmt.Print(ev.Text)
		}
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n%s after %d steps\n", res.Status, res.Steps)
	// Output:
	// lookup: "order 42: one lamp, shipped"
	// Your lamp is on its way.
	// completed after 2 steps
}

func ExampleEngine_Resume() {
	ctx := context.Background()
	rhyme := cairn.Func("rhyme", "Finds a rhyme.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "blue, you", nil })
	agent := &cairn.Agent{Name: "poet", Tools: []cairn.Tool{rhyme}, Model: scripted.New(
		scripted.Call("rhyme", nil), scripted.Text("Roses are red."), scripted.Text("Violets are blue."))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)

	run, err := eng.Execute(ctx, "poem", "poet", cairn.Text("A line, please."))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := run.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	checkpoints, err := eng.Checkpoints(ctx, "poem", store.PageQuery{})
	if err != nil {
		log.Fatal(err)
	}

	// Time travel: another session continues from the same point, within the turn.
	if _, err := eng.Branch(ctx, "poem", "poem-2", engine.AtCheckpoint(checkpoints.Items[0].ID)); err != nil {
		log.Fatal(err)
	}
	run, err = eng.Resume(ctx, "poem-2", engine.WithInput(cairn.Text("About violets.")))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	fmt.Println(res.Text, err)
	// Output:
	// Violets are blue. <nil>
}
