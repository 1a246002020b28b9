package engine

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// MinEventAge is the minimum time that an event stays on its log in spite of trimming, because readers may still need
// it.
const MinEventAge = time.Hour

// retention is the setting of EventRetention.
type retention struct{ *EventRetention }

func (r retention) complete() error {
	switch {
	case r.Age < 0:
		return cairn.Invalid("event_retention.age", "%s is negative", r.Age)
	case r.Age > 0 && r.Age < MinEventAge:
		return cairn.Invalid("event_retention.age", "%s is less than the minimum of %s", r.Age, MinEventAge)
	case r.Events < 0:
		return cairn.Invalid("event_retention.events", "%d is negative", r.Events)
	}
	return nil
}
