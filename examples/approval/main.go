// Command approval refunds a customer once a person has approved it. Run it three times, possibly with days between:
// approval ask, approval approve, approval resume.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

type payment struct {
	Order int `json:"order"`
	Cents int `json:"cents" schema:"min=1"`
}

func pay(_ context.Context, _ *cairn.Call, in payment) (string, error) {
	return fmt.Sprintf("paid %d cents for order %d", in.Cents, in.Order), nil
}

var support = &cairn.Agent{Name: "support", Model: model,
	Tools: []cairn.Tool{cairn.Func("pay", "Pays a customer back.", pay, cairn.RequireApproval())}}

func main() {
	verb := strings.Join(os.Args[1:], " ")
	if !slices.Contains([]string{"ask", "approve", "resume"}, verb) {
		fmt.Fprintln(os.Stderr, "usage: approval ask | approve | resume; first: go run ./examples/approval ask")
		os.Exit(2)
	}
	ctx := context.Background()
	eng := must(engine.New(must(sqlitestore.Open("approval.db", nil)), []*cairn.Agent{support}, nil))
	defer eng.Close(ctx)
	switch verb {
	case "ask":
		report(eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken.")))
	case "approve":
		for _, call := range must(eng.Inbox(ctx, store.CallQuery{Tool: "pay"})).Items {
			answer := cairn.Approve(call.CallRef).WithInput(payment{42, 4950}).By("ann") // pay only half
			receipt := must(eng.Submit(ctx, call.RootID, answer))
			fmt.Printf("%s %s: %s\n", call.Tool, call.Input, receipt.Outcome)
		}
	case "resume":
		report(eng.Resume(ctx, "session-1"))
	}
}

func report(run *engine.Run, err error) {
	res := must(must(run, err).Wait(context.Background()))
	fmt.Println(res.Status, res.Text)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
