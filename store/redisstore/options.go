package redisstore

import (
	"log/slog"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Prefix begins the names of all keys, before a colon; empty means "cairn". Stores of different prefixes share
	// nothing.
	Prefix string
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means driver.DefaultMaxEvent.
	MaxEvent int
	// Retention is how long the server keeps a session tree that was removed, because it was deleted or had expired.
	// After that the server purges it by itself, with or without a sweeper; no sweep reports such a purge. 0 means that
	// the tree stays until a sweep purges it, once engine.Options.Retention is over. Expired sessions that no sweep has
	// removed are kept.
	Retention time.Duration
	// EventRetention is how long the server keeps a log's events after the last append. After that, readers get
	// ErrTrimmed. 0 means that events stay until they are trimmed or dropped.
	EventRetention time.Duration
	// Connections limits the connections to each server, not counting one that listens; 0 means 10 per processor.
	Connections int
	// RetryFor is how long Open waits for a server that is starting, is a replica that may be promoted, or cannot be
	// reached, and how long a call waits for one that is starting. On a cluster and with Sentinel, where a failover
	// replaces the server, calls also wait while it cannot be reached. 0 means 10 s, negative means not at all. Open
	// does not wait for a single address where nothing listens.
	RetryFor time.Duration
	// Logger receives warnings about the server: that it may evict sessions, and that the user may not publish, at most
	// one a minute each. It also receives the log lines of the Redis client, such as lost connections. nil means no
	// logging. The client has one logger per process: the logger of the last Store that was opened with one.
	Logger *slog.Logger
}

// withDefaults returns a copy of o with defaults for its zero fields. It fails if a field is invalid.
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
	switch {
	case out.RetryFor == 0:
		out.RetryFor = 10 * time.Second
	case out.RetryFor < 0:
		out.RetryFor = -1
	}
	if out.Prefix == "" {
		out.Prefix = "cairn"
	}
	if out.MaxEvent == 0 {
		out.MaxEvent = driver.DefaultMaxEvent
	}
	return out, nil
}
