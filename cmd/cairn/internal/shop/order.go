package shop

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Status is the state of an order.
type Status string

const (
	Processing Status = "processing" // not shipped yet: its address can change
	Shipped    Status = "shipped"
	Delivered  Status = "delivered"
	Cancelled  Status = "cancelled" // never shipped and never charged, or refunded before it was shipped
)

// Order is one order, of one item. Dates are of the form 2006-01-02.
type Order struct {
	Number    int    `json:"order"`
	Customer  string `json:"customer"`
	Item      string `json:"item"`
	Total     Euro   `json:"total"`
	Status    Status `json:"status"`
	Ordered   string `json:"ordered"`
	Delivered string `json:"delivered,omitempty"`
	Address   string `json:"address"`
	// Refund is the refund of the order; nil if there is none.
	Refund *Refund `json:"refund,omitempty"`
}

const selectOrders = `
	SELECT o.number, o.customer, o.item, o.total, o.status, o.ordered, o.delivered, o.address,
	       r.number, r.amount, r.reason, r.at
	FROM orders o LEFT JOIN refunds r ON r.order_number = o.number`

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Order returns an order; ErrNotFound if it does not exist.
func (s *Shop) Order(ctx context.Context, number int) (Order, error) {
	o, err := order(ctx, s.db, number)
	return o, storage("look up order", err)
}

func order(ctx context.Context, q querier, number int) (Order, error) {
	o, err := scanOrder(q.QueryRowContext(ctx, selectOrders+` WHERE o.number = ?`, number).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return o, cairn.Errorf(cairn.ErrNotFound, "order %d not found", number)
	}
	return o, err
}

// Orders returns the orders of a customer, oldest first. customer is the full name or one word of it, in any case.
// The list is empty for an unknown name.
func (s *Shop) Orders(ctx context.Context, customer string) ([]Order, error) {
	customer = strings.ToLower(strings.Join(strings.Fields(customer), " "))
	if customer == "" {
		return nil, cairn.Invalid("customer", "is empty")
	}
	rows, err := s.db.QueryContext(ctx, selectOrders+`
		WHERE instr(' ' || lower(o.customer) || ' ', ' ' || ? || ' ') > 0 ORDER BY o.number`, customer)
	if err != nil {
		return nil, storage("list orders", err)
	}
	defer rows.Close()
	list := []Order{}
	for rows.Next() {
		o, err := scanOrder(rows.Scan)
		if err != nil {
			return nil, storage("list orders", err)
		}
		list = append(list, o)
	}
	return list, storage("list orders", rows.Err())
}

func scanOrder(scan func(...any) error) (Order, error) {
	var o Order
	var number, amount sql.NullInt64
	var reason, at sql.NullString
	err := scan(&o.Number, &o.Customer, &o.Item, &o.Total, &o.Status, &o.Ordered, &o.Delivered, &o.Address,
		&number, &amount, &reason, &at)
	if err == nil && number.Valid {
		o.Refund = &Refund{Number: int(number.Int64), Order: o.Number, Amount: Euro(amount.Int64), Reason: reason.String, At: at.String}
	}
	return o, err
}
