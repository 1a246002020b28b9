package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleWithModel() {
	ctx := context.Background()
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("Hello!")),
		Models: map[string]cairn.Model{"deep": scripted.New(scripted.Text("Let me think about that."))}}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)

	say := func(text string, opts ...engine.RunOption) {
		run, err := eng.Execute(ctx, "session-1", "support", cairn.Text(text), opts...)
		if err != nil {
			log.Fatal(err)
		}
		res, err := run.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Text)
	}
	say("Hi.")
	say("Why is the sky blue?", engine.WithModel("deep"))
	// Output:
	// Hello!
	// Let me think about that.
}
