// Command first refunds an order after a person has approved it. Each command is a process of its own:
//
//	go run .            a customer writes; the refund waits for approval, and the process ends
//	go run . approve    a person approves it, now or next week, and the agent finishes
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

type Orders struct{ Refunded []int }

type Refund struct {
	Order int `json:"order" jsonschema:"the order's number" schema:"min=1"`
}

func refund(_ context.Context, call *cairn.Call, in Refund) (string, error) {
	// A payment service gets call.IdempotencyKey(): it is the same if a crash repeats the call.
	err := cairn.UpdateState(call, func(s *Orders) { s.Refunded = append(s.Refunded, in.Order) })
	return fmt.Sprintf("order %d refunded", in.Order), err
}

var support = &cairn.Agent{
	Name:         "support",
	Instructions: "You help customers with their orders.",
	Model:        model, // or openaichat.Model("gpt-5", nil)
	Tools:        []cairn.Tool{cairn.Func("refund", "Refund an order.", refund, cairn.RequireApproval())},
	State:        cairn.StateOf[Orders](),
}

// model plays a fixed conversation, so that the program needs no key.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	if len(req.Messages[len(req.Messages)-1].ToolResults()) > 0 {
		return scripted.Text("I have refunded order 42.")
	}
	return scripted.Reply(scripted.Text("I am sorry. I will refund it."), scripted.Call("refund", Refund{Order: 42}))
})

func main() {
	if len(os.Args) > 1 && os.Args[1] != "approve" {
		fmt.Fprintln(os.Stderr, "usage: first, then: first approve")
		os.Exit(2)
	}
	ctx := context.Background()
	st := must(sqlitestore.Open("cairn.db", nil))
	defer st.Close()
	eng := must(engine.New(st, []*cairn.Agent{support}, nil))
	defer eng.Close(ctx)

	var run *engine.Run
	if len(os.Args) == 1 {
		run = must(eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken.")))
	} else {
		for _, call := range must(eng.Inbox(ctx, store.CallQuery{})).Items { // the open calls of all sessions
			must(eng.Submit(ctx, call.RootID, cairn.Approve(call.CallRef).By("ann")))
		}
		run = must(eng.Resume(ctx, "session-1"))
	}
	for text, err := range run.Text(ctx) { // while the model writes it; other processes can read it too
		fmt.Print(must(text, err))
	}
	res := must(run.Wait(ctx))
	fmt.Println("\n"+string(res.Status), "after", res.Steps, "steps")
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
