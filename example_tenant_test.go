package cairn_test

import (
	"fmt"

	"github.com/cairn-agents/cairn"
)

func ExampleInTenant() {
	id := cairn.InTenant("acme", "order-42")
	tenant, name := cairn.SplitTenant(id)
	fmt.Println(id, tenant, name)
	fmt.Println(cairn.InTenant("", "order-42"), cairn.CheckTenant("a::b") != nil)
	// Output:
	// acme::order-42 acme order-42
	// order-42 true
}
