package engine

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// MinEventAge is how long an event stays on its log at least, whatever is trimmed: readers may still be at it.
const MinEventAge = time.Hour

// EventRetention bounds an event log. The zero value keeps everything.
//
// A log is cut where a run of the tree began, and keeps at least what follows the last commit of its root, the events of
// every run that has not ended or is suspended, and those of the last hour, see [MinEventAge]; ages are of the store's clock.
// Readers that ask for events which were trimmed get ErrTrimmed, and begin at a [Snapshot], whose cursor is always
// in the log. The transcript, the state and the checkpoints keep everything.
type EventRetention struct {
	// Age is how long the events of a run are kept after it has ended; 0 means for ever. The least is an hour.
	Age time.Duration
	// Events is how many of its newest events a log keeps, and with them the rest of the run that the oldest of them belongs
	// to; 0 means any number.
	Events int
}

// complete implements setting.
func (r *EventRetention) complete() error {
	switch {
	case r.Age < 0:
		return cairn.Invalid("event_retention.age", "%s is negative", r.Age)
	case r.Age > 0 && r.Age < MinEventAge:
		return cairn.Invalid("event_retention.age", "%s is less than %s, for which events are kept in any case", r.Age, MinEventAge)
	case r.Events < 0:
		return cairn.Invalid("event_retention.events", "%d is negative", r.Events)
	}
	return nil
}
