package redisstore

import (
	"log/slog"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Prefix begins the names of all keys, before a colon; empty means "cairn". Stores of different prefixes share
	// nothing.
	Prefix string
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means store.DefaultMaxEvent.
	MaxEvent int
	// Retention is how long the server keeps what is left of a session tree that was removed, because it was deleted or
	// had expired; then the server purges it by itself, with or without a sweeper. 0 means that it stays until it is
	// purged by a sweep, which is when engine.Options.Retention is over; what goes earlier is in no sweep's report.
	// Sessions that have expired, but that no sweep has removed, stay.
	Retention time.Duration
	// EventRetention is how long the server keeps a log's events after the last one was appended; readers get
	// ErrTrimmed then. 0 means that events stay until they are trimmed or dropped.
	EventRetention time.Duration
	// Connections bounds the connections to each server, but for one more that listens; 0 means 10 for each processor.
	Connections int
	// Logger receives what the Redis client logs, such as lost connections; nil means that nothing is logged. The
	// client knows one logger for the whole process: that of the Store that was opened last with one.
	Logger *slog.Logger
}

// withDefaults returns a copy of o with its zero fields filled in, or what is wrong with it.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	switch {
	case strings.ContainsAny(out.Prefix, "{}*?[]\\ \n\r"):
		return out, cairn.Invalid("prefix", "%q has white space or one of {}*?[]\\", out.Prefix)
	case out.MaxEvent < 0:
		return out, cairn.Invalid("max_event", "%d is negative", out.MaxEvent)
	case out.Retention < 0:
		return out, cairn.Invalid("retention", "%s is negative", out.Retention)
	case out.EventRetention < 0:
		return out, cairn.Invalid("event_retention", "%s is negative", out.EventRetention)
	case out.Connections < 0:
		return out, cairn.Invalid("connections", "%d is negative", out.Connections)
	}
	if out.Prefix == "" {
		out.Prefix = "cairn"
	}
	if out.MaxEvent == 0 {
		out.MaxEvent = store.DefaultMaxEvent
	}
	return out, nil
}
