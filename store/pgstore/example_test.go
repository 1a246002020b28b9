package pgstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/jackc/pgx/v5/pgxpool"
)

func ExampleOpen() {
	ctx := context.Background()
	st, err := pgstore.Open(ctx, os.Getenv("DATABASE_URL"), &pgstore.Options{Schema: "agents"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	s, err := driver.Create(ctx, st, &cairn.Session{ID: "session-1", Agent: "support"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.ID, s.Status, "at version", s.Version)
	// Output: session-1 idle at version 1
}

// A store on the pool that the rest of the program uses.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	st, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	_, err = driver.Load(ctx, st, "nobody")
	fmt.Println(err)
	// Output: session "nobody" not found
}

type Refund struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

func refund(_ context.Context, call *cairn.Call, in Refund) (string, error) {
	err := pgstore.Exec(call, "INSERT INTO refunds (call, order_id, cents) VALUES ($1, $2, $3)", call.ID, in.Order, in.Cents)
	return "refunded", err
}

// A refund is a row of the application's own table: it is there if and only if the conversation says so.
func ExampleExec() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE TABLE refunds (call text PRIMARY KEY, order_id text, cents int)"); err != nil {
		fmt.Println(err)
		return
	}
	st, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()

	model := scripted.New(scripted.Call("refund", Refund{"A-42", 1999}), scripted.Text("You get 19.99 back."))
	support := &cairn.Agent{Name: "support", Model: model, Tools: []cairn.Tool{cairn.Func("refund", "Refunds an order.", refund)}}
	eng, err := engine.New(st, []*cairn.Agent{support}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "order-42", "support", cairn.Text("It arrived broken."))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := run.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	var order string
	var cents int
	err = pool.QueryRow(ctx, "SELECT order_id, cents FROM refunds").Scan(&order, &cents)
	fmt.Println(res.Text, "Refunded:", order, cents, err)
	// Output: You get 19.99 back. Refunded: A-42 1999 <nil>
}
