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

func ExampleEngine_SwitchTools() {
	ctx := context.Background()
	type order struct {
		ID int `json:"id"`
	}
	refund := cairn.Func("refund", "Refund an order.", func(ctx context.Context, call *cairn.Call, in order) (string, error) {
		return fmt.Sprintf("order %d refunded", in.ID), nil
	})
	agent := &cairn.Agent{Name: "support", Tools: []cairn.Tool{refund},
		Model: scripted.New(scripted.Text("What can I do for you?"), scripted.Call("refund", order{42}), scripted.Text("Not now, I am afraid."))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)

	for _, text := range []string{"Hello!", "Refund order 42."} {
		run, err := eng.Execute(ctx, "session-1", "support", cairn.Text(text))
		if err != nil {
			log.Fatal(err)
		}
		res, err := run.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Text, res.Usage.ToolErrors, "errors")
		// The payment service is down: no refunds until it is back.
		if err := eng.SwitchTools(ctx, "session-1", map[string]bool{"refund": false}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// What can I do for you? 0 errors
	// Not now, I am afraid. 1 errors
}
