package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/redisstore"
)

// A session is available to every process that opens the same server.
func ExampleOpen() {
	ctx, url := context.Background(), serverURL()
	st, err := redisstore.Open(ctx, url, &redisstore.Options{Prefix: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	if _, err := driver.Create(ctx, st, &cairn.Session{ID: "session-1", Agent: "support"}, nil); err != nil {
		log.Fatal(err)
	}

	another, err := redisstore.Open(ctx, url, &redisstore.Options{Prefix: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer another.Close()
	if _, err := driver.AppendMessages(ctx, another, "session-1", cairn.User(cairn.TextPart("Order 42 arrived broken."))); err != nil {
		log.Fatal(err)
	}
	messages, err := driver.Messages(ctx, st, "session-1", 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(messages[0].Text())
	// Output: Order 42 arrived broken.
}

// serverURL returns the URL of the tests' server.
func serverURL() string { return testenv.Redis(&testing.T{}) }
