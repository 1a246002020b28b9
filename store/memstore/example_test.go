package memstore_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	ctx, st := context.Background(), memstore.New(nil)
	session, err := driver.Create(ctx, st, &cairn.Session{ID: "s1", Agent: "support"}, nil)
	fmt.Println(session.Status, session.Version, err)
	last, err := st.EventLog().Append(ctx, "s1", driver.AnySequence, cairn.Event{Type: cairn.EventRunStart, SessionID: "s1"})
	fmt.Println(last, err)
	// Output:
	// idle 1 <nil>
	// 1 <nil>
}
