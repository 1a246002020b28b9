package cairn_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleCall_Ask() {
	type none struct{}
	refund := cairn.Func("refund", "Refunds the order.", func(ctx context.Context, call *cairn.Call, _ none) (string, error) {
		var cents int
		if err := call.Ask(ctx, "How many cents?", nil, &cents); err != nil {
			return "", err // without an answer yet, this suspends the run
		}
		return fmt.Sprintf("refunded %d cents", cents), nil
	})
	model := scripted.New(scripted.Call("refund", none{}), scripted.Text("You have your money back."))
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "support", Model: model, Tools: []cairn.Tool{refund}}}, nil)
	ctx := context.Background()
	defer eng.Close(ctx)

	run, _ := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
	res, _ := run.Wait(ctx)
	question := res.Suspended.Calls[0] // the same in any process, now or later
	fmt.Println(question.Tool, "asks:", question.Prompt)

	receipt, err := eng.Submit(ctx, "session-1", cairn.Answer(question, 4950))
	fmt.Println(receipt.Outcome, err)
	run, _ = eng.Resume(ctx, "session-1")
	res, _ = run.Wait(ctx)
	fmt.Println(res.Text)
	// Output:
	// refund asks: How many cents?
	// accepted <nil>
	// You have your money back.
}
