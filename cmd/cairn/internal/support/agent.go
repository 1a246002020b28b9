// Package support is the demo's agent: it helps the customers of a small shop. [Script] is a model for it that
// needs no key.
package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
)

// Name is the agent's name.
const Name = "support"

const instructions = `You are the support agent of a small online shop. You help customers with their orders: you look
orders up, send orders that were not shipped yet to another address, and refund.

- Look an order up before you say anything about it. Never guess what a tool can look up.
- What arrived broken, or is missing although it was delivered, is refunded at once, without being sent back. In all
  other cases say what you would refund and ask first.
- Answer in the customer's language, in a few short sentences of plain text.`

// State is the record of what the agent has done in a session.
type State struct {
	Refunds   []shop.Refund `json:"refunds"`
	Addresses []Move        `json:"addresses"`
}

// Move is an address change of an order.
type Move struct {
	Order   int    `json:"order"`
	Address string `json:"address"`
}

// Agent returns the agent over a shop. After a crash, neither a model's reply nor a finished tool call is repeated.
// A tool call that the crash cut off is safe to run again: the shop knows its idempotency key.
func Agent(s *shop.Shop, model cairn.Model) *cairn.Agent {
	return &cairn.Agent{
		Name:         Name,
		Description:  "Helps the customers of the demo's shop.",
		Instructions: instructions,
		Model:        model,
		Tools:        tools(s),
		State:        cairn.StateOf(State{Refunds: []shop.Refund{}, Addresses: []Move{}}),
		MaxSteps:     20,
		Durability:   cairn.PerTool,
	}
}

type lookupInput struct {
	Order int `json:"order" jsonschema:"the order's number" schema:"min=1"`
}

type listInput struct {
	Customer string `json:"customer,omitempty" jsonschema:"the customer's name, or one word of it; left out for the customer who is signed in"`
}

type addressInput struct {
	Order   int    `json:"order" jsonschema:"the order's number" schema:"min=1"`
	Address string `json:"address" jsonschema:"the new address on one line" schema:"minLength=1,maxLength=500"`
}

type refundInput struct {
	Order  int    `json:"order" jsonschema:"the order's number" schema:"min=1"`
	Reason string `json:"reason" schema:"enum=broken|missing|wrong|late|unwanted"`
}

func tools(s *shop.Shop) []cairn.Tool {
	return []cairn.Tool{
		cairn.Func("lookup_order", "Look up one order: what it is, where it is, and whether it was refunded.",
			func(ctx context.Context, call *cairn.Call, in lookupInput) (shop.Order, error) {
				return s.Order(ctx, in.Order)
			}),
		cairn.Func("list_orders", "List the orders of a customer.",
			func(ctx context.Context, call *cairn.Call, in listInput) ([]shop.Order, error) {
				if in.Customer == "" {
					in.Customer = call.User()
				}
				if in.Customer == "" {
					return nil, cairn.Errorf(cairn.ErrTool, "no customer is signed in, so the customer's name is needed")
				}
				return s.Orders(ctx, in.Customer)
			}),
		cairn.Func("change_address", "Send an order that was not shipped yet to another address.",
			func(ctx context.Context, call *cairn.Call, in addressInput) (shop.Order, error) {
				order, err := s.ChangeAddress(ctx, call.IdempotencyKey(), in.Order, in.Address)
				if err != nil {
					return order, err
				}
				return order, cairn.UpdateState(call, func(st *State) {
					st.Addresses = append(st.Addresses, Move{Order: order.Number, Address: order.Address})
				})
			}),
		cairn.Func("refund", fmt.Sprintf("Pay an order back in full. It cannot be undone: an employee of the shop has to approve more than %s first.", freely),
			func(ctx context.Context, call *cairn.Call, in refundInput) (shop.Refund, error) {
				refund, err := s.Refund(ctx, call.IdempotencyKey(), in.Order, in.Reason)
				if err != nil {
					return refund, err
				}
				return refund, cairn.UpdateState(call, func(st *State) { st.Refunds = append(st.Refunds, refund) })
			},
			cairn.RequireApprovalIf(func(ctx context.Context, _ *cairn.Call, in refundInput) (bool, error) {
				o, err := s.Order(ctx, in.Order)
				if errors.Is(err, cairn.ErrNotFound) {
					return false, nil // what the shop refuses needs no approval
				}
				return o.Total > freely && refundable(o), err
			}),
			cairn.WaitAtMost(patience)),
	}
}

// freely is the largest refund without an approval, patience the time to wait for an approval.
const (
	freely   shop.Euro = 2000
	patience           = 24 * time.Hour
)

// refundable reports whether an order can be refunded.
func refundable(o shop.Order) bool { return o.Refund == nil && o.Status != shop.Cancelled }

// Describe describes in a few words what a call that waits for approval would do.
func Describe(ctx context.Context, s *shop.Shop, call *cairn.PendingCall) string {
	var in refundInput
	if call.Agent == Name && call.Tool == "refund" && json.Unmarshal(call.Input, &in) == nil {
		if o, err := s.Order(ctx, in.Order); err == nil {
			return fmt.Sprintf("refund of %s for order %d (%s, %s)", o.Total, o.Number, o.Item, in.Reason)
		}
	}
	return call.Tool + " " + string(call.Input)
}
