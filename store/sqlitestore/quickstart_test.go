package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// must keeps the example short; a program handles its errors.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

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

var ctx = context.Background()

// model plays a fixed conversation, so that the example needs no key.
var model = scripted.New(scripted.Call("refund", RefundInput{Order: 42}), scripted.Text("I have refunded order 42."))

// tempFile returns where the example keeps its sessions, until the tests have been run.
func tempFile() string { return filepath.Join(sqlitestore.TempDir(), "cairn.db") }

func Example() {
	support := &cairn.Agent{
		Name:         "support",
		Instructions: "You help customers with their orders.",
		Model:        model, // or openai.Model("gpt-5", nil)
		Tools:        []cairn.Tool{cairn.Func("refund", "Refund an order.", refund)},
		State:        cairn.StateOf(Orders{}),
	}
	st := must(sqlitestore.Open(tempFile(), nil))
	eng := must(engine.New(st, []*cairn.Agent{support}, nil))
	run := must(eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken.")))
	for text, err := range run.Text(ctx) { // here or in any other process, now or later
		fmt.Print(must(text, err))
	}
	res, err := run.Wait(ctx)
	fmt.Println("\n"+string(res.Status), err)

	// Output:
	// I have refunded order 42.
	// completed <nil>
}
