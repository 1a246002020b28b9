package httphost_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	ctx := context.Background()
	queue := make(chan host.Run, 100) // in practice a durable one
	h, err := httphost.New(&httphost.Options{Start: func(_ context.Context, run host.Run) error {
		queue <- run
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("We are sorry about that."))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{Host: h})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	if _, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken.")); err != nil {
		log.Fatal(err)
	}

	run := <-queue
	for {
		p, err := eng.Advance(ctx, run)
		if err != nil {
			log.Fatal(err)
		}
		if p.State != engine.AdvanceMore {
			fmt.Println(p.State, p.Status)
			break
		}
		run = p.Run
	}
	// Output: ended completed
}
