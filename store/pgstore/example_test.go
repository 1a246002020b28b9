package pgstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/jackc/pgx/v5"
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
	s, err := store.Create(ctx, st, &cairn.Session{ID: "session-1", Agent: "support"}, nil)
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
	_, err = store.Load(ctx, st, "nobody")
	fmt.Println(err)
	// Output: session "nobody" not found
}

// Rows of the program's own, written if and only if the commit is.
func ExampleStore_CommitTx() {
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
	_, err = store.Create(ctx, st, &cairn.Session{ID: "order-42", Agent: "support"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TABLE refunds (order_id int PRIMARY KEY)"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO refunds VALUES (42)"); err != nil {
			return err
		}
		_, err := st.CommitTx(ctx, tx, "order-42", &store.Commit{Messages: []cairn.Message{cairn.User(cairn.TextPart("Refunded."))}})
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := store.Load(ctx, st, "order-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.MessageCount, "message at version", s.Version)
	// Output: 1 message at version 2
}
