// Package clock has the store's clock as a process carries it on.
package clock

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// Clock is what time it was at the store when the process last read it, and what has passed here since. It serves where
// nobody asks the store: for whether a cached result is still good, how long ago the last commit was, and when an event
// happened. Leases, deadlines and claims are judged by what a row says ([cairn.Session.AsOf]), and written by the store.
type Clock struct{ there, here time.Time }

// Of returns the clock by a row that was read or written at a time of this process.
func Of(row *cairn.Session, here time.Time) Clock { return Clock{row.AsOf, here} }

// At returns the store's time at a time of this process.
func (c Clock) At(here time.Time) time.Time { return c.there.Add(here.Sub(c.here)).UTC() }
