package sqlitestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
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
	if _, err := store.Create(ctx, st, &cairn.Session{ID: "session-1", Agent: "support"}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := store.AppendMessages(ctx, st, "session-1", cairn.User(cairn.TextPart("Order 42 arrived broken."))); err != nil {
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
	messages, err := store.Messages(ctx, st, "session-1", 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(messages[0].Text())
	// Output: Order 42 arrived broken.
}
