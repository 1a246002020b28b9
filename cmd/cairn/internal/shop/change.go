package shop

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// Refund is money paid back for an order.
type Refund struct {
	Number int    `json:"refund"`
	Order  int    `json:"order"`
	Amount Euro   `json:"amount"`
	Reason string `json:"reason"`
	At     string `json:"at"`
}

// Refund refunds an order in full, and cancels an order that was not shipped yet. A key that was used before
// returns the refund made then. The error is ErrNotFound if there is no such order, and ErrInvalid if the key was
// used for another order. An order that is cancelled, or was refunded under another key, is refused with ErrTool.
func (s *Shop) Refund(ctx context.Context, key string, number int, reason string) (Refund, error) {
	var made Refund
	if err := checkKey(key); err != nil {
		return made, err
	}
	err := s.change(ctx, "refund order", func(tx *sql.Tx) error {
		used, err := usedFor(ctx, tx, "SELECT order_number FROM refunds WHERE key = ?", key, number)
		if err != nil {
			return err
		}
		o, err := order(ctx, tx, number)
		switch {
		case err != nil:
			return err
		case used:
			made = *o.Refund
			return nil
		case o.Refund != nil:
			return cairn.Errorf(cairn.ErrTool, "order %d was already refunded: %s on %s", number, o.Refund.Amount, o.Refund.At[:len("2006-01-02")])
		case o.Status == Cancelled:
			return cairn.Errorf(cairn.ErrTool, "order %d was cancelled and never charged", number)
		}
		made = Refund{Order: number, Amount: o.Total, Reason: reason, At: s.now().UTC().Format(time.RFC3339)}
		err = tx.QueryRowContext(ctx, `INSERT INTO refunds (key, order_number, amount, reason, at) VALUES (?, ?, ?, ?, ?) RETURNING number`,
			key, number, made.Amount, reason, made.At).Scan(&made.Number)
		if err == nil && o.Status == Processing {
			_, err = tx.ExecContext(ctx, `UPDATE orders SET status = ? WHERE number = ?`, Cancelled, number)
		}
		return err
	})
	if err != nil {
		return Refund{}, err
	}
	return made, nil
}

// maxAddress bounds an address, in bytes.
const maxAddress = 500

// ChangeAddress changes the address of an order and returns the changed order. A key that was used before changes
// nothing. The error is ErrNotFound if there is no such order, and ErrInvalid for a bad address or a key that was
// used for another order. An order that has been shipped, delivered or cancelled is refused with ErrTool.
func (s *Shop) ChangeAddress(ctx context.Context, key string, number int, address string) (Order, error) {
	var changed Order
	address = strings.Join(strings.Fields(address), " ")
	switch {
	case address == "":
		return changed, cairn.Invalid("address", "is empty")
	case len(address) > maxAddress:
		return changed, cairn.Invalid("address", "is too large: %d bytes (max %d)", len(address), maxAddress)
	case !utf8.ValidString(address):
		return changed, cairn.Invalid("address", "is not valid UTF-8")
	}
	if err := checkKey(key); err != nil {
		return changed, err
	}
	err := s.change(ctx, "change address", func(tx *sql.Tx) error {
		used, err := usedFor(ctx, tx, "SELECT order_number FROM address_changes WHERE key = ?", key, number)
		if err != nil {
			return err
		}
		if changed, err = order(ctx, tx, number); err != nil || used {
			return err
		}
		if changed.Status != Processing {
			return cairn.Errorf(cairn.ErrTool, "order %d is %s: its address can no longer be changed", number, changed.Status)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO address_changes (key, order_number, previous, address, at) VALUES (?, ?, ?, ?, ?)`,
			key, number, changed.Address, address, s.now().UTC().Format(time.RFC3339))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE orders SET address = ? WHERE number = ?`, address, number)
		}
		changed.Address = address
		return err
	})
	if err != nil {
		return Order{}, err
	}
	return changed, nil
}

func checkKey(key string) error {
	if key == "" {
		return cairn.Invalid("key", "is empty")
	}
	return nil
}

// usedFor reports whether query finds the key used for the order. A use for another order is an error.
func usedFor(ctx context.Context, tx *sql.Tx, query, key string, number int) (bool, error) {
	var before int
	switch err := tx.QueryRowContext(ctx, query, key).Scan(&before); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case before != number:
		return false, cairn.Invalid("key", "was already used for order %d, not %d", before, number)
	}
	return true, nil
}
