package dostore

import (
	"context"
	"time"
)

// chunk is how many rows of the directory a list reads at once.
const chunk = 256

// behind is a key behind all others, and a place of it in a range ends the range.
const behind = "\U0010FFFF"

// each calls do with the rows of a list of the directory, in order, until it returns false.
func (d *database) each(ctx context.Context, list, from, to string, newest bool, do func(r *row, now time.Time) (bool, error)) error {
	for {
		a, err := d.directory().call(ctx, &request{Op: "list", List: list, From: from, To: to, Newest: newest, Limit: chunk})
		if err != nil {
			return err
		}
		found, err := a.all(0)
		if err != nil {
			return err
		}
		for i := range found {
			if more, err := do(&found[i], a.asOf()); err != nil || !more {
				return err
			}
		}
		if len(found) < chunk {
			return nil
		}
		if last := found[len(found)-1].key; newest {
			to = last
		} else {
			from = last + "\x00"
		}
	}
}
