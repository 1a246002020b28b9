package stores

import (
	"time"

	"github.com/cairn-agents/cairn/engine"
)

// EventFlags limit how much of an event log is kept.
type EventFlags struct {
	EventAge time.Duration `placeholder:"DURATION" help:"Trim the events of runs that ended longer ago; at least 1h. Default: keep them."`
	Events   int           `placeholder:"N" help:"Trim a log to its newest N events, plus the rest of the run they begin in; events of the last hour are kept. Default: keep all."`
}

// Retention converts the flags for the engine.
func (f EventFlags) Retention() engine.EventRetention {
	return engine.EventRetention{Age: f.EventAge, Events: f.Events}
}
