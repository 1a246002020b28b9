package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// Overdue is the error of an operation that found roots that may have expired, see [driver.SweepAt]. The store checks
// these roots and repeats the operation. The error never leaves a store.
type Overdue struct{ Roots []string }

// Error names the roots.
func (o *Overdue) Error() string { return fmt.Sprintf("sessions %q may have expired", o.Roots) }

// Look repeats do while its error is Overdue. Before each repetition it calls expire for each root found. expire
// removes a root that has expired; for any other root it defers the next check and returns ErrStale.
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
