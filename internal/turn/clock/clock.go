// Package clock extrapolates the store's clock on this process.
package clock

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// Clock is the store's time when the process last read it, and what has passed here since. It serves decisions that do
// not need the store: whether a cached result is still valid, how long ago the last commit was, and when an event
// happened. Leases, deadlines and claims are judged by the time in a row ([cairn.Session.AsOf]), which the store
// writes.
type Clock struct{ there, here time.Time }

// Of returns the clock that follows from a row that was read or written at here, a time of this process.
func Of(row *cairn.Session, here time.Time) Clock { return Clock{row.AsOf, here} }

// At returns the store's time at here, a time of this process.
func (c Clock) At(here time.Time) time.Time { return c.there.Add(here.Sub(c.here)).UTC() }
