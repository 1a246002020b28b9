package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// Overdue is the error of an operation that came upon roots that may have expired, see [store.SweepAt]: the store
// checks them and repeats the operation. It never leaves a store.
type Overdue struct{ Roots []string }

// Error names the roots.
func (o *Overdue) Error() string { return fmt.Sprintf("sessions %q may have expired", o.Roots) }

// Look repeats do as long as its error is Overdue. Before each repetition expire removes the roots that have expired;
// for the others, which it defers, it returns ErrStale.
func Look(ctx context.Context, expire func(ctx context.Context, root string) error, do func() error) error {
	for {
		err := do()
		var found *Overdue
		if !errors.As(err, &found) {
			return err
		}
		for _, root := range found.Roots {
			if err := expire(ctx, root); err != nil && !errors.Is(err, cairn.ErrStale) && !errors.Is(err, cairn.ErrNotFound) {
				return err
			}
		}
	}
}
