package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// Overdue is the error of an operation that has come upon roots that may have expired, see [store.SweepAt]: they are to be
// looked at, and then it is to be done again. It never leaves a store.
type Overdue struct{ Roots []string }

// Error names the roots.
func (o *Overdue) Error() string { return fmt.Sprintf("sessions %q may have expired", o.Roots) }

// Look does something again as long as its error is Overdue, after expire has removed the roots that have expired, and put off
// the others, which is ErrStale.
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
