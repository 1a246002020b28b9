package redisstore

import (
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// undated reports whether some events have no time.
func undated(list []cairn.Event) bool {
	return slices.ContainsFunc(list, func(ev cairn.Event) bool { return ev.Time.IsZero() })
}

// date sets the time of events that have none.
func date(list []cairn.Event, at time.Time) {
	for i := range list {
		if list[i].Time.IsZero() {
			list[i].Time = at
		}
	}
}

// date sets the time of the events in the row's outbox that have none.
func (r *storedRow) date(at time.Time) {
	if r.session.Outbox != nil {
		date(r.session.Outbox.Events, at)
	}
}
