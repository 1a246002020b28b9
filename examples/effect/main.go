// Command effect refunds a customer once, although the process dies after the request to the bank. Run it twice:
// effect crash, effect recover.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

type refund struct {
	Order int `json:"order"`
	Cents int `json:"cents" schema:"min=1"`
}

// pay sends the refund to the bank, whose book is a file here, and dies before it can report that.
func pay(_ context.Context, call *cairn.Call, in refund) (string, error) {
	book := must(os.OpenFile("bank.txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	defer book.Close()
	fmt.Fprintf(book, "%s paid %d cents for order %d\n", call.IdempotencyKey(), in.Cents, in.Order)
	if os.Args[1] == "crash" {
		os.Exit(1)
	}
	return "refunded", nil
}

// paid looks a refund up in the bank's book.
func paid(_ context.Context, key string) (happened bool, result string, err error) {
	book, err := os.ReadFile("bank.txt")
	return strings.Contains(string(book), key), "refunded, as the bank confirms", err
}

var support = &cairn.Agent{Name: "support", Model: model,
	Tools: []cairn.Tool{cairn.Func("refund", "Refunds a customer.", pay, cairn.Effectful(), cairn.Confirm(paid))}}

func main() {
	verb := strings.Join(os.Args[1:], " ")
	if verb != "crash" && verb != "recover" {
		fmt.Fprintln(os.Stderr, "usage: effect crash | recover; first: go run ./examples/effect crash")
		os.Exit(2)
	}
	ctx := context.Background()
	eng := must(engine.New(must(sqlitestore.Open("effect.db", nil)), []*cairn.Agent{support}, &engine.Options{LeaseTTL: time.Second}))
	defer eng.Close(ctx)
	if verb == "crash" {
		must(must(eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))).Wait(ctx))
	}
	go eng.Work(ctx) // takes the run over
	res := must(must(eng.Attach(ctx, "session-1")).Wait(ctx))
	fmt.Println(res.Status, res.Text)
	for _, call := range must(eng.Effects(ctx, engine.EffectQuery{})).Items {
		fmt.Println(call.Tool, string(call.Input), call.Effect.State)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
