package dostore_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/dostore"
	"github.com/cairn-agents/cairn/store/driver"
)

// The worker of this example is on the same machine. The address of a deployed one is do://HOST/STORE.
func ExampleOpen() {
	ctx := context.Background()
	st, err := dostore.Open(ctx, "do+insecure://"+testenv.Worker(&testing.T{})+"/example", &dostore.Options{Secret: testenv.WorkerSecret})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	row, err := driver.Create(ctx, st, &cairn.Session{ID: "order-42", Agent: "support"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.ID, row.Status)
	// Output: order-42 idle
}
