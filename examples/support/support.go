// Package support has an agent like one of a real program, with a test that needs neither a key nor a network.
package support

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
)

type Orders struct {
	Refunded []int `json:"refunded"`
}

type Refund struct {
	Order int `json:"order" schema:"min=1"`
}

// Agent returns the agent with a model: a real one, or a script.
func Agent(model cairn.Model) *cairn.Agent {
	return &cairn.Agent{
		Name:         "support",
		Instructions: "You help customers with their orders.",
		Model:        model,
		State:        cairn.StateOf[Orders](),
		Tools:        []cairn.Tool{cairn.Func("refund", "Refund an order.", refund, cairn.RequireApproval())},
	}
}

func refund(_ context.Context, call *cairn.Call, in Refund) (string, error) {
	err := cairn.UpdateState(call, func(s *Orders) { s.Refunded = append(s.Refunded, in.Order) })
	return fmt.Sprintf("order %d refunded", in.Order), err
}
