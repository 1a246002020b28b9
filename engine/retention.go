package engine

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// MinEventAge is the minimum time that an event stays on its log, whatever is trimmed, because readers may still need
// it.
const MinEventAge = time.Hour

// EventRetention bounds an event log. The zero value keeps everything.
//
// A log is cut at the beginning of a run of the tree. It keeps at least the events after its root's last commit, the
// events of every run that has not ended or is suspended, and those of the last hour, see [MinEventAge]; ages are by
// the store's clock. Readers that ask for trimmed events get ErrTrimmed, and start again at a [Snapshot], whose cursor
// is always in the log. The transcript, the state and the checkpoints keep everything.
type EventRetention struct {
	// Age is how long the events of a run are kept after it has ended; 0 means forever. The minimum is an hour.
	Age time.Duration
	// Events is how many of its newest events a log keeps, with the rest of the run that the oldest of them belongs to;
	// 0 means any number.
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
