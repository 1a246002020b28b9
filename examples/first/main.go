// Command first runs an agent with one tool and a typed state, and prints its reply as it is written.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

type Orders struct {
	Refunded []int `json:"refunded"`
}

type RefundInput struct {
	Order int `json:"order" jsonschema:"the order's number" schema:"min=1"`
}

func refund(ctx context.Context, call *cairn.Call, in RefundInput) (string, error) {
	// call.IdempotencyKey() is the same when the call is retried: pass it to the payment service.
	err := cairn.UpdateState(call, func(s *Orders) { s.Refunded = append(s.Refunded, in.Order) })
	return fmt.Sprintf("order %d refunded", in.Order), err
}

var support = &cairn.Agent{
	Name:         "support",
	Instructions: "You help customers with their orders.",
	Model:        model, // or openaichat.Model("gpt-5", nil)
	Tools:        []cairn.Tool{cairn.Func("refund", "Refund an order.", refund)},
	State:        cairn.StateOf(Orders{}),
}

// model plays a fixed conversation, so that the example needs no key.
var model = scripted.New(scripted.Call("refund", RefundInput{Order: 42}), scripted.Text("I have refunded order 42."))

func main() {
	if err := run(context.Background(), "cairn.db"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	st, err := sqlitestore.Open(file, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	eng, err := engine.New(st, []*cairn.Agent{support}, nil)
	if err != nil {
		return err
	}
	defer eng.Close(ctx)

	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
	if err != nil {
		return err
	}
	for text, err := range run.Text(ctx) { // here or in any other process, now or later
		if err != nil {
			return err
		}
		fmt.Print(text)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s after %d steps\n", res.Status, res.Steps)
	return nil
}
