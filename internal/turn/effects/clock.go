package effects

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// clock is the store's clock as a process carries it on: what time it was there when the process last heard of it, and
// what has passed here since. It serves where nobody asks the store: to tell whether a cached result is still good, how
// long ago the last commit was, and when an event happened. Leases, deadlines and claims are judged by what a row says
// ([cairn.Session.AsOf]), and written by the store.
type clock struct{ there, here time.Time }

// clockOf returns the clock by a row that was just read or written.
func (fx *Effects) clockOf(row *cairn.Session) clock { return clock{row.AsOf, fx.Now()} }

// at returns the store's time at a time of this process.
func (c clock) at(here time.Time) time.Time { return c.there.Add(here.Sub(c.here)).UTC() }

// sees takes over a row that was just read or written.
func (l *live) sees(fx *Effects, row *cairn.Session) { l.row, l.clock = row, fx.clockOf(row) }

// now returns the time at the store, as far as this process can tell.
func (fx *Effects) now(l *live) time.Time { return l.clock.at(fx.Now()) }
