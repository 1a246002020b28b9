package engine_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleEngine_Sessions_tenant() {
	ctx := context.Background()
	agent := &cairn.Agent{Name: "support", Model: scripted.New()}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(ctx)
	for _, tenant := range []string{"acme", "globex"} {
		id := cairn.InTenant(tenant, "order-42")
		if _, err := eng.Create(ctx, id, "support", engine.WithUser("alice")); err != nil {
			fmt.Println(err)
			return
		}
	}
	page, err := eng.Sessions(ctx, store.SessionQuery{Tenant: new("acme")})
	for _, s := range page.Items {
		fmt.Println(s.ID, s.Tenant, s.UserID, s.User())
	}
	fmt.Println(len(page.Items), err)
	// Output:
	// acme::order-42 acme acme::alice alice
	// 1 <nil>
}
