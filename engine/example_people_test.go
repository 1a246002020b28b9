package engine_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type payment struct {
	Order int `json:"order"`
	Cents int `json:"cents"`
}

func ExampleEngine_Submit() {
	ctx := context.Background()
	pay := cairn.Func("pay", "Pays a customer back.", func(_ context.Context, _ *cairn.Call, in payment) (string, error) {
		return fmt.Sprintf("paid %d cents for order %d", in.Cents, in.Order), nil
	}, cairn.RequireApproval())
	model := scripted.New(scripted.Call("pay", payment{42, 9900}), scripted.Text("You have your money back."))
	agent := &cairn.Agent{Name: "support", Model: model, Tools: []cairn.Tool{pay}}
	st := memstore.New(nil)

	// One process: the run ends as soon as a person must decide. Nothing of it stays in memory.
	one, _ := engine.New(st, []*cairn.Agent{agent}, nil)
	run, _ := one.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
	res, _ := run.Wait(ctx)
	fmt.Println(res.Status, res.Suspended.Calls[0].Tool)
	one.Close(ctx)

	// Another one, days later: a person approves, of half the sum, and the step resumes.
	two, _ := engine.New(st, []*cairn.Agent{agent}, nil)
	answer := cairn.Approve(res.Suspended.Calls[0]).WithInput(payment{42, 4950}).By("ann")
	receipt, _ := two.Submit(ctx, "session-1", answer)
	fmt.Println(receipt.Outcome)
	run, _ = two.Resume(ctx, "session-1")
	res, _ = run.Wait(ctx)
	fmt.Println(res.Status, res.Text)
	two.Close(ctx)

	// Output:
	// suspended pay
	// accepted
	// completed You have your money back.
}
