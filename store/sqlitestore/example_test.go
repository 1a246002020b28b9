package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// A session outlives the store that made it.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "cairn")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "cairn.db")
	ctx := context.Background()

	st, err := sqlitestore.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := driver.Create(ctx, st, &cairn.Session{ID: "session-1", Agent: "support"}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := driver.AppendMessages(ctx, st, "session-1", cairn.User(cairn.TextPart("Order 42 arrived broken."))); err != nil {
		log.Fatal(err)
	}
	if err := st.Close(); err != nil {
		log.Fatal(err)
	}

	st, err = sqlitestore.Open(path, &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	messages, err := driver.Messages(ctx, st, "session-1", 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(messages[0].Text())
	// Output: Order 42 arrived broken.
}

type Refund struct {
	Order int `json:"order"`
}

// A refund is a row of the application's own table in the store's file: it exists if and only if the conversation says
// so. The application reads and writes the table through a connection of its own.
func ExampleExec() {
	dir, err := os.MkdirTemp("", "cairn")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "cairn.db")
	ctx := context.Background()
	st, err := sqlitestore.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	own, err := sql.Open("sqlite", path)
	if err != nil {
		log.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Exec("CREATE TABLE refunds (call TEXT PRIMARY KEY, number INTEGER)"); err != nil {
		log.Fatal(err)
	}

	refund := cairn.Func("refund", "Refunds an order.", func(_ context.Context, call *cairn.Call, in Refund) (string, error) {
		return "refunded", sqlitestore.Exec(call, "INSERT INTO refunds VALUES (?, ?)", call.ID, in.Order)
	})
	model := scripted.New(scripted.Call("refund", Refund{42}), scripted.Text("You get your money back."))
	eng, err := engine.New(st, []*cairn.Agent{{Name: "support", Model: model, Tools: []cairn.Tool{refund}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("It arrived broken."))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var order int
	err = own.QueryRow("SELECT number FROM refunds").Scan(&order)
	fmt.Println(res.Text, "Refunded:", order, err)
	// Output: You get your money back. Refunded: 42 <nil>
}
